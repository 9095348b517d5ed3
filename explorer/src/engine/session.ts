// Models and sequences that are open, and what is asked of them, in slices between which one may stop.
import { apply, blind, firstLayer, mixes } from "./changes.ts";
import { Ground } from "./ground.ts";
import { type Kernel, kernel } from "./kernel.ts";
import { answers, emptyScores, score } from "./scores.ts";
import { type Pass, Transformer } from "./transformer.ts";
import type { Batch, Change, Look, Path, Scores, Scoring, Shape, Weights } from "./types.ts";

/** Models whose weights are kept ready in memory; others are made ready again from what was opened. */
const READY = 3;
/** Positions in one slice: enough to read weights seldom, few enough for the caches. */
const SLICE = 256;

export interface Model {
  shape: Shape;
  scoring: Scoring;
  weights: Weights;
}

export interface LossesRequest {
  model: string;
  batch: string;
  changes: readonly Change[];
  sizes: readonly number[];
  paths: readonly Path[];
}

export interface LookRequest {
  model: string;
  batch: string;
  row: number;
  changes: readonly Change[];
  /** Where sequences look at one another: they are the first so many; else it is not looked at. */
  n?: number;
  /** Whether its residual streams are wanted, too. */
  streams?: boolean;
}

/** What the model as it is did on a slice: its residual streams, or its patterns, by layer. */
interface AsIs {
  streams?: Float32Array[];
  patterns?: Float32Array[];
}

export class Session {
  readonly #models = new Map<string, Model>();
  readonly #batches = new Map<string, Batch>();
  readonly #ready = new Map<string, Transformer>();
  /** Memory of a model that was closed, for the next: who opens models while they train would else fill the machine's. */
  #spare: Kernel | null = null;
  /** Of the model and the sequences asked about last. */
  #asIs = new Map<string, AsIs>();
  #about = "";

  /** `plain`: without WebAssembly, even where there is some. */
  constructor(readonly plain = false) {}

  open(key: string, model: Model): void {
    this.close(key);
    this.#models.set(key, model);
  }

  give(key: string, batch: Batch): void {
    this.close(key);
    this.#batches.set(key, batch);
  }

  close(key: string): void {
    this.#models.delete(key);
    this.#batches.delete(key);
    this.#spare = this.#ready.get(key)?.kernel ?? this.#spare;
    this.#ready.delete(key);
    this.#about = "";
  }

  /** Scores of growing numbers of sequences; null between slices. Throws an Error, one sentence. */
  *losses(request: LossesRequest): Generator<{ scores: Scores; last: boolean } | null> {
    const work = this.#work(request);
    const { batch, changes } = work;
    const sizes = [...new Set(request.sizes.map((size) => Math.min(size, batch.n)))].sort((a, b) => a - b);
    const tally = new Tally(sizes.at(-1) ?? 0, work.model.scoring, work.ground, request.paths);
    const slice = Math.max(1, Math.floor(SLICE / batch.n_positions));
    for (const size of sizes) {
      if (mixes(changes)) tally.clear();
      while (tally.done < size) {
        const count = mixes(changes) ? size : Math.min(slice, size - tally.done);
        work.slice(tally, count);
        if (tally.done < size) yield null;
      }
      yield { scores: tally.scores(size), last: size === sizes.at(-1) };
    }
  }

  /** One sequence. */
  look(request: LookRequest): Look {
    const work = this.#work(request);
    const { batch, changes } = work;
    if (!(request.row >= 0 && request.row < batch.n)) throw new Error(`There is no sequence ${request.row} here.`);
    const together = mixes(changes) ? Math.min(batch.n, Math.max(request.n ?? batch.n, request.row + 1)) : 1;
    return work.look(request.row, together, request.streams ?? false);
  }

  #work(request: { model: string; batch: string; changes: readonly Change[] }): Work {
    const model = this.#models.get(request.model);
    const batch = this.#batches.get(request.batch);
    if (!model || !batch) throw new Error(`Nothing is open under ${model ? request.batch : request.model}.`);
    const about = JSON.stringify([request.model, request.batch]);
    if (about !== this.#about) this.#asIs = new Map();
    this.#about = about;
    return new Work(model, this.#transformer(request.model, model), batch, request.changes, this.#asIs);
  }

  /** The residual streams of a model at all positions of some sequences, layer by layer. */
  streams(model: string, batch: Batch): Float32Array[] {
    const found: Float32Array[] = [];
    const transformer = this.#transformer(model, this.#models.get(model)!);
    transformer.forward({ batch, first: 0, count: batch.n, whole: true, streams: (_, stream) => found.push(stream) });
    return found;
  }

  #memory(): Kernel {
    const found = this.#spare ?? kernel(this.plain);
    this.#spare = null;
    found.release(0);
    return found;
  }

  #transformer(key: string, { shape, weights }: Model): Transformer {
    const found = this.#ready.get(key) ?? new Transformer(shape, weights, this.#memory());
    this.#ready.delete(key); // the one used last stands last
    this.#ready.set(key, found);
    for (const old of [...this.#ready.keys()].slice(0, -READY)) this.#ready.delete(old);
    return found;
  }
}

/** What has been found of the sequences so far. */
class Tally {
  done = 0;
  readonly #scores: Scores;
  readonly #sums: Float64Array;
  readonly #counts: Float64Array;
  readonly #mask: Uint8Array;

  constructor(
    n: number,
    readonly scoring: Scoring,
    readonly ground: Ground,
    readonly paths: readonly Path[],
  ) {
    this.#scores = emptyScores(n, scoring, paths.length);
    this.#sums = new Float64Array(paths.length);
    this.#counts = new Float64Array(paths.length);
    this.#mask = new Uint8Array(ground.batch.n_positions ** 2);
  }

  clear(): void {
    this.done = 0;
    for (const values of [this.#scores.sums, this.#scores.counts, this.#scores.right, this.#scores.scored])
      values.fill(0);
    this.#sums.fill(0);
    this.#counts.fill(0);
  }

  /** Adds the next sequences. */
  add(count: number, outputs: Float32Array): void {
    const each = outputs.length / count;
    for (let i = 0; i < count; i++, this.done++) {
      const own = outputs.subarray(i * each, (i + 1) * each);
      score(this.#scores, this.done, this.ground.batch, this.done, own, this.scoring);
    }
  }

  /** Adds the attention on paths of a layer, of the sequences that will be added next. */
  attention(layer: number, floats: Float32Array, place: number, count: number, n_heads: number): void {
    const width = this.ground.batch.n_positions;
    this.paths.forEach((path, number) => {
      if (path.layer !== layer) return;
      for (let i = 0; i < count; i++) {
        this.ground.mark(path, this.done + i, this.#mask.fill(0));
        this.#add(number, floats, place + (i * n_heads + path.head) * width ** 2, width);
      }
    });
  }

  #add(path: number, floats: Float32Array, place: number, width: number): void {
    for (let query = 0; query < width; query++) {
      let found = 0;
      for (let at = query * width; at < (query + 1) * width; at++) {
        if (!this.#mask[at]) continue;
        found = 1;
        this.#sums[path]! += floats[place + at]!;
      }
      this.#counts[path]! += found;
    }
  }

  /** Of the first n sequences, which are those done. */
  scores(n: number): Scores {
    const all = this.#scores;
    const size = n * all.hops.length;
    return {
      n,
      hops: all.hops,
      totals: all.totals.slice(0, n),
      sums: all.sums.slice(0, size),
      counts: all.counts.slice(0, size),
      right: all.right.slice(0, size),
      scored: all.scored.slice(0, size),
      strengths: this.#sums.map((sum, path) => sum / this.#counts[path]!),
    };
  }
}

/** One model on one batch under changes. */
class Work {
  readonly ground: Ground;

  constructor(
    readonly model: Model,
    readonly transformer: Transformer,
    readonly batch: Batch,
    readonly changes: readonly Change[],
    readonly asIs: Map<string, AsIs>,
  ) {
    this.ground = new Ground(batch, model.shape.causal);
    check(changes, model.shape, this.ground);
  }

  /** Scores the next `count` sequences. */
  slice(tally: Tally, count: number): void {
    const first = tally.done;
    const { n_heads, n_layers } = this.model.shape;
    const layers = tally.paths.map(({ layer }) => layer);
    const wanted = { from: Math.min(...layers), whole: layers.includes(n_layers - 1) };
    const outputs = this.#run(first, count, wanted, (layer, floats, place) =>
      tally.attention(layer, floats, place, count, n_heads),
    );
    tally.add(count, outputs);
  }

  look(row: number, together: number, wanted: boolean): Look {
    const { n_layers, n_heads } = this.model.shape;
    const first = together === 1 ? row : 0;
    const size = n_heads * this.batch.n_positions ** 2;
    const patterns = new Float32Array(n_layers * size);
    const streams: Float32Array[] = [];
    const wide = this.batch.n_positions * this.model.shape.d_model;
    const watch = (layer: number, floats: Float32Array, place: number): void => {
      const from = place + (row - first) * size;
      patterns.set(floats.subarray(from, from + size), layer * size);
    };
    const passing = (stream: Float32Array): void => {
      streams.push(stream.slice((row - first) * wide, (row - first + 1) * wide));
    };
    const outputs = this.#run(first, together, { from: 0, whole: true }, watch, wanted ? passing : undefined);
    const each = outputs.length / together;
    const own = outputs.slice((row - first) * each, (row - first + 1) * each);
    const found = { patterns, outputs: own, answers: answers(this.batch, row, own, this.model.scoring) };
    return wanted ? { ...found, streams } : found;
  }

  /** One pass; `wanted`: the first layer whose patterns are watched, and whether those of the last are, at all positions. */
  #run(
    first: number,
    count: number,
    { from, whole }: { from: number; whole: boolean },
    watch: (layer: number, floats: Float32Array, place: number) => void,
    passing?: (stream: Float32Array) => void,
  ): Float32Array {
    const kept = this.#kept(first, count);
    const begin = Math.min(from, firstLayer(this.changes), this.model.shape.n_layers - 1);
    const streams: Float32Array[] = [];
    const pass: Pass = { batch: this.batch, first, count, whole, blind: blind(this.changes) };
    if (!this.changes.length || passing) {
      pass.streams = (_, stream) => {
        streams.push(stream);
        passing?.(stream);
      };
    } else if (kept.streams && begin > 0) pass.from = { layer: begin, stream: kept.streams[begin]! };
    const changed = this.#changed(first, count);
    pass.patterns = (layer, floats, place, rows) => {
      changed(layer, floats, place, rows);
      watch(layer, floats, place);
    };
    const outputs = this.transformer.forward(pass);
    if (!this.changes.length) kept.streams = streams;
    return outputs;
  }

  /** What changes make of the patterns of some sequences. */
  #changed(first: number, count: number): NonNullable<Pass["patterns"]> {
    const { n_heads, attention } = this.model.shape;
    const setting = {
      ground: this.ground,
      normalised: attention.name !== "linear",
      ...(this.changes.some((change) => change.kind === "frozen") && { asIs: this.#patterns(first, count) }),
    };
    return (layer, floats, place, rows) =>
      apply(this.changes, { layer, floats, place, n_heads, first, count, rows }, setting);
  }

  /** The patterns of the model as it is. */
  #patterns(first: number, count: number): Float32Array[] {
    const kept = this.#kept(first, count);
    if (kept.patterns) return kept.patterns;
    const found: Float32Array[] = [];
    const size = count * this.model.shape.n_heads * this.batch.n_positions ** 2;
    this.transformer.forward({
      batch: this.batch,
      first,
      count,
      whole: true,
      patterns: (_, floats, place) => found.push(floats.slice(place, place + size)),
    });
    kept.patterns = found;
    return found;
  }

  #kept(first: number, count: number): AsIs {
    const key = `${first}+${count}`;
    const found = this.asIs.get(key) ?? {};
    this.asIs.set(key, found);
    return found;
  }
}

/** Throws an Error, one sentence, for a unit that the model or the task does not have. */
function check(changes: readonly Change[], shape: Shape, ground: Ground): void {
  const mask = new Uint8Array(ground.batch.n_positions ** 2);
  for (const change of changes) {
    const units =
      change.kind === "by hand"
        ? change.paths.map(({ path }) => path)
        : "units" in change
          ? change.units
          : change.paths;
    for (const unit of units) {
      if (!(unit.layer < shape.n_layers && unit.head < shape.n_heads)) {
        throw new Error(
          `There is no L${unit.layer}H${unit.head}: the model has ${shape.n_layers} layers of ${shape.n_heads} heads.`,
        );
      }
      if (ground.batch.n) ground.mark(unit, 0, mask);
    }
  }
}
