// What page and worker say to each other. The page's side of it is `client.ts`; nothing else posts messages.
import type { Trained, TrainRequest } from "./school.ts";
import type { Batch, Change, Look, Path, Scores, Scoring, Shape, Weights } from "./types.ts";

/** A model at one step of training: opened once, then asked by its key. */
export interface Opened {
  key: string;
  shape: Shape;
  scoring: Scoring;
  weights: Weights;
}

export type Request =
  /** Keep a model, or sequences, under a key; the same key again replaces what was there. Not answered. */
  | { kind: "open"; model: Opened }
  | { kind: "batch"; key: string; batch: Batch }
  /** Forget a model or a batch. Not answered. */
  | { kind: "close"; key: string }
  /** Losses on the first `sizes[0]` sequences, then on `sizes[1]` …: one `scores` each, the last with `last`. */
  | {
      kind: "losses";
      id: number;
      model: string;
      batch: string;
      changes: readonly Change[];
      sizes: readonly number[];
      paths: readonly Path[];
    }
  /** One sequence of a batch: a `look`. */
  | {
      kind: "look";
      id: number;
      model: string;
      batch: string;
      row: number;
      changes: readonly Change[];
      n?: number;
      streams?: boolean;
    }
  /** Train a model, which is then open under `MODEL`, and sequences to measure it on under `MEASURED`: a `trained`. */
  | ({ kind: "train"; id: number } & TrainRequest)
  /** Stop working on a request; it is not answered any more. */
  | { kind: "cancel"; id: number };

export type Reply =
  | { kind: "ready"; simd: boolean }
  | { kind: "scores"; id: number; scores: Scores; last: boolean }
  | { kind: "look"; id: number; look: Look }
  | { kind: "trained"; id: number; trained: Trained }
  /** One sentence: what was wrong. */
  | { kind: "failed"; id: number; why: string };
