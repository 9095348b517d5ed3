// The web worker: computes on what is open, one slice at a time, and looks at its messages in between.
import { kernel } from "./engine/kernel.ts";
import type { Reply, Request } from "./engine/messages.ts";
import { School } from "./engine/school.ts";
import { Session } from "./engine/session.ts";

/** The worker's own side of the port; a stand-in may take its place in tests. */
export interface Side {
  postMessage(message: Reply): void;
  onmessage: ((event: { data: Request }) => void) | null;
}

/** Answers requests that come in at a port. */
export function serve(side: Side, session = new Session()): void {
  const school = new School(session);
  const cancelled = new Set<number>();
  const running = new Set<number>();

  async function work(request: Extract<Request, { id: number }>): Promise<void> {
    if (request.kind === "losses") {
      for (const found of session.losses(request)) {
        if (found) side.postMessage({ kind: "scores", id: request.id, ...found });
        await pause();
        if (cancelled.has(request.id)) return;
      }
    } else if (request.kind === "train") {
      for (const trained of school.train(request)) {
        if (trained) side.postMessage({ kind: "trained", id: request.id, trained });
        await pause();
        if (cancelled.has(request.id)) return;
      }
    } else if (request.kind === "look") {
      side.postMessage({ kind: "look", id: request.id, look: session.look(request) });
    }
  }

  side.onmessage = async ({ data }) => {
    if (data.kind === "open") return session.open(data.model.key, data.model);
    if (data.kind === "batch") return session.give(data.key, data.batch);
    if (data.kind === "close") return session.close(data.key);
    if (data.kind === "cancel") {
      if (running.has(data.id)) cancelled.add(data.id);
      return;
    }
    running.add(data.id);
    try {
      await pause(); // what is cancelled at once is never begun
      if (!cancelled.has(data.id)) await work(data);
    } catch (error) {
      side.postMessage({ kind: "failed", id: data.id, why: error instanceof Error ? error.message : String(error) });
    } finally {
      running.delete(data.id);
      cancelled.delete(data.id);
    }
  };
  side.postMessage({ kind: "ready", simd: kernel(session.plain).simd });
}

/** Lets messages in. */
function pause(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

declare const WorkerGlobalScope: unknown; // not among the names that pages know
if (typeof WorkerGlobalScope !== "undefined") serve(self as unknown as Side);
