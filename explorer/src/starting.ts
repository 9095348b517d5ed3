/** The web worker, started from text that is part of the page: so it runs from disk, and under its security policy. */

import source from "inline:./worker.ts";
import type { Port } from "./engine/client.ts";

/** Null where no worker can be started, as in some sandboxed frames. */
export function start(): Port | null {
  try {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const worker = new Worker(address);
    return worker as unknown as Port;
  } catch {
    return null;
  }
}
