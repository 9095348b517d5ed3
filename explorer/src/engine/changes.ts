// What changes make of a layer's patterns: `hopscope/circuits/evaluator.py`, `hopscope/interventions/`, line for line.
import type { Ground } from "./ground.ts";
import type { Change, Null, Path, Row, Unit, Weighted } from "./types.ts";

/** A row that keeps less attention than this without what is off has nothing left to scale up. */
const LEFT = 1e-6;

/** One layer's patterns of some sequences in a row: sequence head query key, from `place` on in `floats`. */
export interface Patterns {
  layer: number;
  floats: Float32Array;
  place: number;
  n_heads: number;
  /** The sequences: numbers in the batch from `first` on. */
  first: number;
  count: number;
  /** The rows that are computed; others are not looked at. */
  rows: { start: number; end: number };
}

/** What changes need to know of the model. */
export interface Setting {
  ground: Ground;
  /** Whether rows of its patterns sum to 1. */
  normalised: boolean;
  /** The patterns of the model as it is, by layer, laid out as those that are changed; for `frozen`. */
  asIs?: readonly Float32Array[];
}

/** The first layer whose patterns a change may touch. */
export function firstLayer(changes: readonly Change[]): number {
  const layers = changes.flatMap((change) => {
    if (change.kind === "silenced") return change.units.map((unit) => unit.layer);
    if (change.kind === "held ideal" || change.kind === "off") return change.paths.map((path) => path.layer);
    return [0];
  });
  return Math.min(...layers, Number.POSITIVE_INFINITY);
}

/** Whether nothing of what heads compute is looked at: all patterns are by hand. */
export function blind(changes: readonly Change[]): boolean {
  return changes.some((change) => change.kind === "by hand" && change.null !== "resample");
}

/** Whether sequences look at one another, so that they must be computed together. */
export function mixes(changes: readonly Change[]): boolean {
  return changes.some((change) => "null" in change && change.null === "resample");
}

/** Applies changes, one after the other, to a layer's patterns in place. */
export function apply(changes: readonly Change[], patterns: Patterns, setting: Setting): void {
  for (const change of changes) new Work(patterns, setting).apply(change);
}

class Work {
  readonly #width: number;
  readonly #mask: Uint8Array;
  readonly #nothing: Float64Array;
  readonly #totals: Float64Array;
  #before: Float32Array | null = null;

  constructor(
    readonly patterns: Patterns,
    readonly setting: Setting,
  ) {
    this.#width = setting.ground.batch.n_positions;
    this.#mask = new Uint8Array(this.#width ** 2);
    this.#nothing = new Float64Array(this.#width);
    this.#totals = new Float64Array(this.#width);
  }

  apply(change: Change): void {
    if (change.kind === "frozen") this.#restore();
    if ("null" in change && change.null === "resample") this.#before = this.#copy();
    if (change.kind === "silenced") this.#silence(change.units, change.null);
    else if (change.kind === "off") this.#off(change.paths, change.null);
    else if (change.kind === "kept") this.#restrict(change.units, change.null, change.identity ?? []);
    else if (change.kind === "frozen") this.#restrict(change.units, change.null, []);
    else if (change.kind === "held ideal") this.#prescribe(change.paths.map((path) => ({ path, weight: 1 })));
    else this.#byHand(change.paths, change.null);
  }

  /** Units become null: what they held falls where a null pattern has it, outside of them unless they are all there is. */
  #silence(units: readonly Unit[], kind: Null): void {
    this.#marked(units, (sequence, head, query, row) => {
      const { floats } = this.patterns;
      const seen = this.setting.ground.seen(query);
      const [count, taken] = this.#within(row, query, seen);
      if (count === 0) return;
      const nothing = this.#null(kind, sequence, head, query);
      let free = 0;
      for (let key = 0; key < seen; key++) {
        if (count < seen && this.#at(query, key)) nothing[key] = 0;
        free += nothing[key]!;
      }
      const share = taken / Math.max(free, 1e-30);
      for (let key = 0; key < seen; key++) {
        floats[row + key] = (this.#at(query, key) ? 0 : floats[row + key]!) + nothing[key]! * share;
      }
    });
  }

  /** Entries of paths become 0, and what is left of their rows is scaled up to sum to 1 where rows do. */
  #off(paths: readonly Path[], kind: Null): void {
    this.#marked(paths, (sequence, head, query, row) => {
      const { floats } = this.patterns;
      const seen = this.setting.ground.seen(query);
      const [count, taken] = this.#within(row, query, seen);
      if (count === 0) return;
      const nothing = this.#null(kind, sequence, head, query);
      let left = -taken;
      let free = 0;
      for (let key = 0; key < seen; key++) {
        left += floats[row + key]!;
        if (this.#at(query, key)) floats[row + key] = nothing[key] = 0;
        free += nothing[key]!;
      }
      if (!this.setting.normalised) return;
      for (let key = 0; key < seen; key++) {
        floats[row + key] = left > LEFT ? floats[row + key]! / left : nothing[key]! / Math.max(free, LEFT);
      }
    });
  }

  /** Units stay; what their rows lack falls where a null pattern has it outside of them. */
  #restrict(units: readonly Unit[], kind: Null, identity: readonly Row[]): void {
    const { ground } = this.setting;
    const oneself = this.#here(identity);
    const every = (sequence: number, head: number, query: number, row: number): void => {
      const { floats } = this.patterns;
      const seen = ground.seen(query);
      const exempt = oneself.some((unit) => unit.head === head && ground.holds(unit.query, sequence, query));
      const nothing = this.#null(exempt ? "identity" : kind, sequence, head, query);
      const [, kept] = this.#within(row, query, seen);
      let free = 0;
      for (let key = 0; key < seen; key++) if (!this.#at(query, key)) free += nothing[key]!;
      const share = free > 0 ? (1 - kept) / Math.max(free, 1e-30) : 0;
      for (let key = 0; key < seen; key++) if (!this.#at(query, key)) floats[row + key] = nothing[key]! * share;
    };
    this.#marked(units, every, true);
  }

  /** All rows become null, but for those of paths. */
  #byHand(paths: readonly Weighted[], kind: Null): void {
    const idle = (sequence: number, head: number, query: number, row: number): void =>
      this.patterns.floats.set(this.#null(kind, sequence, head, query), row);
    this.#marked([], idle, true);
    this.#prescribe(paths);
  }

  /** Rows that find targets of paths become ideal; paths that share a row do so by their weights. */
  #prescribe(paths: readonly Weighted[]): void {
    const { ground } = this.setting;
    const here = paths.filter(({ path }) => path.layer === this.patterns.layer);
    for (const head of new Set(here.map(({ path }) => path.head))) {
      const own = here.filter(({ path }) => path.head === head);
      const masks = own.map(() => new Uint8Array(this.#width ** 2));
      this.#rows(head, (sequence, query, row, fresh) => {
        if (fresh) for (const [i, { path }] of own.entries()) ground.mark(path, sequence, masks[i]!.fill(0));
        this.#ideal(own, masks, query, row);
      });
    }
  }

  #ideal(own: readonly Weighted[], masks: readonly Uint8Array[], query: number, row: number): void {
    const { ground } = this.setting;
    const totals = this.#totals.fill(0);
    let shares = 0;
    own.forEach(({ weight }, i) => {
      const keys = targets(masks[i]!, query * this.#width, ground.seen(query), ground.batch.ideal_over);
      for (const key of keys) totals[key]! += weight / keys.length;
      if (keys.length) shares += weight;
    });
    if (shares <= 0) return;
    for (let key = 0; key < this.#width; key++) {
      this.patterns.floats[row + key] = totals[key]! / Math.max(shares, 1e-9);
    }
  }

  // Walks over rows ------------------------------------------------------------------------------------------------

  /** Every row of heads that have units here, or of all heads, with the units' mask set. */
  #marked(
    units: readonly Unit[],
    work: (sequence: number, head: number, query: number, row: number) => void,
    all = false,
  ): void {
    const here = this.#here(units);
    for (let head = 0; head < this.patterns.n_heads; head++) {
      const own = here.filter((unit) => unit.head === head);
      if (!own.length && !all) continue;
      this.#rows(head, (sequence, query, row, fresh) => {
        if (fresh) {
          this.#mask.fill(0);
          for (const unit of own) this.setting.ground.mark(unit, sequence, this.#mask);
        }
        work(sequence, head, query, row);
      });
    }
  }

  /** Every computed row of a head; `fresh` where a sequence begins. */
  #rows(head: number, work: (sequence: number, query: number, row: number, fresh: boolean) => void): void {
    const { first, count, rows } = this.patterns;
    for (let i = 0; i < count; i++) {
      for (let query = rows.start; query < rows.end; query++) {
        work(first + i, query, this.#row(i, head, query), query === rows.start);
      }
    }
  }

  #here<T extends Unit>(units: readonly T[]): T[] {
    return units.filter((unit) => unit.layer === this.patterns.layer);
  }

  /** Where a row begins in `floats`; `i` counts from the first sequence. */
  #row(i: number, head: number, query: number): number {
    return this.patterns.place + this.#offset(i, head, query);
  }

  #offset(i: number, head: number, query: number): number {
    return ((i * this.patterns.n_heads + head) * this.#width + query) * this.#width;
  }

  #at(query: number, key: number): boolean {
    return this.#mask[query * this.#width + key] === 1;
  }

  /** How many entries of a row are marked, and the attention on them. */
  #within(row: number, query: number, seen: number): [count: number, sum: number] {
    let count = 0;
    let sum = 0;
    for (let key = 0; key < seen; key++) {
      if (!this.#at(query, key)) continue;
      count++;
      sum += this.patterns.floats[row + key]!;
    }
    return [count, sum];
  }

  /** A null row; it is written anew by the next call. */
  #null(kind: Null, sequence: number, head: number, query: number): Float64Array {
    const nothing = this.#nothing.fill(0);
    const seen = this.setting.ground.seen(query);
    if (kind === "uniform") return nothing.fill(1 / seen, 0, seen);
    if (kind === "identity") {
      nothing[query] = 1;
      return nothing;
    }
    const { first, count } = this.patterns;
    const from = this.#offset((sequence - first + count - 1) % count, head, query);
    nothing.set(this.#before!.subarray(from, from + this.#width));
    return nothing;
  }

  #copy(): Float32Array {
    const { floats, place, count, n_heads } = this.patterns;
    return floats.slice(place, place + count * n_heads * this.#width ** 2);
  }

  /** The patterns of the model as it is, in place of those that were computed. */
  #restore(): void {
    const whole = this.setting.asIs?.[this.patterns.layer];
    if (!whole) throw new Error("frozen patterns need those of the model as it is");
    this.patterns.floats.set(whole, this.patterns.place);
  }
}

/** The keys of a row that an ideal pattern attends to. */
function targets(mask: Uint8Array, row: number, seen: number, over: "even" | "latest"): number[] {
  const found = [];
  for (let key = 0; key < seen; key++) if (mask[row + key]) found.push(key);
  return over === "latest" ? found.slice(-1) : found;
}
