// The engine: the project's Transformer in the page. `Engine` is what views ask, whoever computes: the web worker
// (`client.ts`), or the served Python for models that the worker cannot run.
import type { Trained, TrainRequest } from "./school.ts";
import type { Batch, Change, Look, Path, Scores, Scoring, Shape, Weights } from "./types.ts";

export * from "./types.ts";

/** Who can be asked about a model at one step, on some sequences. */
export interface Engine {
  /**
   * Losses under changes on growing numbers of sequences: `found` is called once per size, smallest first, and never
   * again after `signal` is aborted. Resolves after the last size; rejects with one sentence if that is impossible, and
   * with the signal's reason when aborted. Changes see the first n sequences as a batch of their own.
   */
  losses(
    request: {
      model: string;
      batch: string;
      changes: readonly Change[];
      sizes: readonly number[];
      paths?: readonly Path[];
    },
    found: (scores: Scores, last: boolean) => void,
    signal?: AbortSignal,
  ): Promise<void>;

  /** Patterns, outputs and answers of one sequence under changes. */
  look(
    request: { model: string; batch: string; row: number; changes: readonly Change[]; n?: number; streams?: boolean },
    signal?: AbortSignal,
  ): Promise<Look>;
}

/** The engine in a web worker: it must be given what it is to compute on, once. */
export interface LocalEngine extends Engine {
  /** Keep a model under a key (such as `retrieval-1a2b3c@160`). */
  open(key: string, model: { shape: Shape; scoring: Scoring; weights: Weights }): void;
  /** Keep sequences under a key. */
  give(key: string, batch: Batch): void;
  /** Train a lesson on, or from its beginning: its model is then open under `MODEL`. */
  train(request: TrainRequest, signal?: AbortSignal): Promise<Trained>;
  /** Forget either. */
  close(key: string): void;
  /** Whether the WebAssembly kernel runs, or plain TypeScript. */
  readonly simd: Promise<boolean>;
  /** Ends the worker. */
  stop(): void;
}
