// What the engine is given and what it answers. Words and shapes are those of the Python package: `hopscope/models`,
// `hopscope/circuits/evaluator.py`, `hopscope/problem/paths.py`. Arrays are row-major; layers and heads count from 0.

/** How the chains of two positions are related. */
export type Relation = "same" | "other";

/** One head at the positions of one role (`hopscope.circuits.units.Row`). */
export interface Row {
  layer: number;
  head: number;
  query: string;
}

/** Positions of role `query` attend to those of role `key` (`hopscope.problem.paths.Path`). */
export interface Path extends Row {
  key: string;
  chain: Relation;
}

export type Unit = Row | Path;

/** What a head without a task attends to; `resample`: as it does on the sequence before, the first as on the last. */
export type Null = "uniform" | "identity" | "resample";

/** A path with its weight in a row that several share. */
export interface Weighted {
  path: Path;
  weight: number;
}

/**
 * What becomes of attention. A request holds a list; each change is applied to what the one before it left, layer by layer.
 *
 * - `silenced`: the units are null, all else is as computed (`Silenced`).
 * - `held ideal`: rows that find a target are the paths' ideal rows, all else is as computed (`Clamp` of kind ideal).
 * - `off`: the paths' entries are 0 and the rest of each row is scaled up to sum to 1 (`Clamp` of kind off).
 * - `kept`: the units stay as computed, all else is null; `identity` are rows whose null is oneself (`Kept`).
 * - `frozen`: the units have the patterns of the model as it is, all else is null (`Frozen`).
 * - `by hand`: the rows of the paths are ideal, all others null (`Hard`).
 */
export type Change =
  | { kind: "silenced"; units: readonly Unit[]; null: Null }
  | { kind: "held ideal"; paths: readonly Path[] }
  | { kind: "off"; paths: readonly Path[]; null: Null }
  | { kind: "kept"; units: readonly Unit[]; null: Null; identity?: readonly Row[] }
  | { kind: "frozen"; units: readonly Unit[]; null: Null }
  | { kind: "by hand"; paths: readonly Weighted[]; null: Null };

/** A rule of attention by its file's name. Others than these are not computed here. */
export type Attention = { name: "softmax" } | { name: "linear" } | { name: "kv_shift" };

/** A position code by its file's name, with the settings that the forward pass needs. */
export type Positions =
  | { name: "input" }
  | { name: "learned" }
  | { name: "none" }
  | { name: "rotary"; base: number }
  | { name: "relative"; scale: number };

/** A transformer's shape (`hopscope.models.transformer.Architecture`), with the widths that its task dictates. */
export interface Shape {
  n_layers: number;
  n_heads: number;
  d_model: number;
  d_head: number;
  /** Hidden width of the MLPs; 0: there are none. */
  d_mlp: number;
  layer_norm: boolean;
  causal: boolean;
  attention: Attention;
  positions: Positions;
  /** Whether inputs are token numbers; if not, features. */
  tokens: boolean;
  /** Number of features of a position, or of different tokens. */
  d_input: number;
  d_output: number;
  /** The longest sequence. */
  n_positions: number;
}

/** A parameter under its name in Python's state dict (`blocks.0.attn.W_QKV`). */
export interface Parameter {
  shape: readonly number[];
  /** float32, or the bits of float16 numbers. */
  values: Float32Array | Uint16Array;
}

export type Weights = Readonly<Record<string, Parameter>>;

/**
 * How outputs become losses.
 *
 * - `vectors`: a query's outputs are one vector of `width` numbers per hop; the loss is the mean squared error.
 * - `numbers`: likewise, times `scale`; they name nothing, and are right where the loss is below `right_below`.
 * - `tokens`: they are one set of `width` logits per hop, or with `shared` one for all hops; the loss is the
 *   cross-entropy in nats. Targets of −100 are not asked. Answers whose target is one of `unscored` count as neither
 *   right nor wrong; without `counted`, none counts.
 *
 * With `by_place` each query is a hop of its own; else each is asked every hop.
 *
 * `total` is the training loss: the mean of the hops' losses, the mean over all answers, or the loss of hop number i.
 */
export interface Scoring {
  kind: "vectors" | "numbers" | "tokens";
  hops: readonly string[];
  width: number;
  shared: boolean;
  unscored: readonly number[];
  counted: boolean;
  total: "hops" | "answers" | number;
  scale: number;
  right_below: number;
  by_place: boolean;
}

/** What every position is for (`hopscope.problem.roles.Roles`): chain number, −1 absent, −2 of no chain. */
export interface Roles {
  names: readonly string[];
  /** batch role position */
  chain: Int16Array;
  /** Of relations (`hopscope.problem.relations`), to which paths then lead: their names, and of every sequence and
   * relation a bit for each query and key, the lowest first. */
  attended?: readonly string[];
  matches?: Uint8Array;
}

/** Sequences of one task, and all that is needed to change attention on them and to score answers. */
export interface Batch {
  n: number;
  n_positions: number;
  /** features: batch position d_input; or tokens: batch position */
  inputs: Float32Array | Int32Array;
  /** The positions at which answers are read off: from `start` up to, not including, `end`. */
  queries: { start: number; end: number };
  /** vectors: batch query hop·width; tokens: batch query hop. Without targets there are answers, but no losses. */
  targets: Float32Array | Int32Array;
  roles: Roles;
  /** Whether an ideal row is even over several targets, or on the latest. */
  ideal_over: "even" | "latest";
  /** Of vector tasks, all symbols of each sequence (batch symbol width), and which are asked (batch query hop). */
  candidates?: Float32Array;
  asked?: Int32Array;
}

/** Losses and right answers by sequence, in the order of the batch: what `summed.ts` makes means and intervals of. */
export interface Scores {
  n: number;
  hops: readonly string[];
  /** The training loss of each sequence. */
  totals: Float64Array;
  /** sequence hop: sums of losses of answers, number of answers that are asked, of these the right and the scored ones. */
  sums: Float64Array;
  counts: Float64Array;
  right: Float64Array;
  scored: Float64Array;
  /** Mean attention on each path that was asked for, under the changes; NaN where it has no targets. */
  strengths: Float64Array;
}

/** One sequence under changes. */
export interface Look {
  /** layer head query key */
  patterns: Float32Array;
  /** query output */
  outputs: Float32Array;
  answers: Answer[];
  /** After 0, 1, 2 … layers: position d_model. If asked for. */
  streams?: Float32Array[];
}

/** One answer: the symbol named, and how far it is from being another. */
export interface Answer {
  /** Number of the query, from 0, and of the hop. */
  query: number;
  hop: number;
  /** vectors: indices into the sequence's candidates; tokens: token numbers. −1: none; `right` −100: not asked. */
  named: number;
  runner_up: number;
  right: number;
  /** How far the two are: vectors: Euclidean distances from the output; tokens: −log p in nats. */
  distance: number;
  runner_up_distance: number;
}
