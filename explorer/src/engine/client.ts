// The page's side of the worker: promises in place of messages.

import type { LocalEngine, Look, Scores } from "./index.ts";
import type { Reply, Request } from "./messages.ts";
import type { Trained } from "./school.ts";

/** What a worker must offer: `Worker`'s own two sides, or a stand-in for tests. */
export interface Port {
  postMessage(message: Request): void;
  onmessage: ((event: { data: Reply }) => void) | null;
  onerror?: ((event: never) => void) | null;
  terminate(): void;
}

interface Waiting {
  scores?: (scores: Scores, last: boolean) => void;
  resolve: (found: Look | Trained | undefined) => void;
  reject: (reason: unknown) => void;
}

/** The engine behind a worker that runs `worker.ts`. */
export function engine(worker: Port): LocalEngine {
  const waiting = new Map<number, Waiting>();
  let next = 0;
  let broken: Error | null = null;
  let ready: (simd: boolean) => void = () => {};
  const simd = new Promise<boolean>((resolve) => {
    ready = resolve;
  });

  worker.onmessage = ({ data }) => {
    const asked = data.kind === "ready" ? ready(data.simd) : waiting.get(data.id);
    if (!asked || data.kind === "ready") return;
    if (data.kind === "scores") {
      asked.scores?.(data.scores, data.last);
      if (!data.last) return;
    }
    waiting.delete(data.id);
    if (data.kind === "failed") asked.reject(new Error(data.why));
    else asked.resolve(data.kind === "look" ? data.look : data.kind === "trained" ? data.trained : undefined);
  };

  // A frame's policy may forbid a worker that could be made: that is told after the fact.
  worker.onerror = () => {
    broken = new Error("The page's web worker stopped, so there are no live numbers: reload the page.");
    for (const one of [...waiting.values()]) one.reject(broken);
    waiting.clear();
  };

  function ask<T>(request: (id: number) => Request, signal?: AbortSignal, scores?: Waiting["scores"]): Promise<T> {
    return new Promise((resolve, reject) => {
      if (broken) return reject(broken);
      if (signal?.aborted) return reject(signal.reason);
      const id = next++;
      const stop = (): void => {
        waiting.delete(id);
        worker.postMessage({ kind: "cancel", id });
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", stop, { once: true });
      const done = () => signal?.removeEventListener("abort", stop);
      waiting.set(id, {
        ...(scores && { scores }),
        resolve: (found) => {
          done();
          resolve(found as T);
        },
        reject: (reason) => {
          done();
          reject(reason);
        },
      });
      worker.postMessage(request(id));
    });
  }

  return {
    open: (key, model) => worker.postMessage({ kind: "open", model: { key, ...model } }),
    give: (key, batch) => worker.postMessage({ kind: "batch", key, batch }),
    close: (key) => worker.postMessage({ kind: "close", key }),
    losses: (request, found, signal) =>
      ask<void>((id) => ({ kind: "losses", id, paths: [], ...request }), signal, found),
    look: (request, signal) => ask<Look>((id) => ({ kind: "look", id, ...request }), signal),
    train: (request, signal) => ask<Trained>((id) => ({ kind: "train", id, ...request }), signal),
    simd,
    stop: () => worker.terminate(),
  };
}
