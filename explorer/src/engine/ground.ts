// Sequences on which rows and paths become entries of attention patterns (`hopscope.circuits.units.Ground`).
import type { Batch, Path, Row, Unit } from "./types.ts";

/** The role of positions that hold none. */
export const NO_ROLE = "(none)";

const ABSENT = -1;

export class Ground {
  readonly #roles: Map<string, number>;

  constructor(
    readonly batch: Batch,
    readonly causal: boolean,
  ) {
    this.#roles = new Map(batch.roles.names.map((name, index) => [name, index]));
  }

  /** How many positions one may attend to; they are the first so many. */
  seen(query: number): number {
    return this.causal ? query + 1 : this.batch.n_positions;
  }

  /** Sets a mask (query key) where a sequence's pattern is part of a unit. Throws an Error for a role that is not there. */
  mark(unit: Unit, sequence: number, mask: Uint8Array): void {
    if (isPath(unit) && this.batch.roles.matches) this.#markRelation(unit, sequence, mask);
    else if (isPath(unit)) this.#markPath(unit, sequence, mask);
    else this.#markRow(unit, sequence, mask);
  }

  /** Whether a position holds a role, in any chain or none. */
  holds(role: string, sequence: number, position: number): boolean {
    if (role !== NO_ROLE) return this.#chain(role, sequence)[position] !== ABSENT;
    return (
      this.batch.roles.names.every((name) => this.#chain(name, sequence)[position] === ABSENT) &&
      !this.#related(sequence, position)
    );
  }

  /** Whether a position stands in any relation to any other. */
  #related(sequence: number, position: number): boolean {
    const queries = Array.from({ length: this.batch.n_positions }, (_, query) => query);
    const { attended = [] } = this.batch.roles;
    return attended.some((_, relation) => queries.some((query) => this.#matches(sequence, relation, query, position)));
  }

  /** Whether a key stands in a relation, by its number, to a query. */
  #matches(sequence: number, relation: number, query: number, key: number): boolean {
    const { attended, matches } = this.batch.roles;
    const width = this.batch.n_positions;
    const bit = query * width + key;
    const bytes = Math.ceil(width ** 2 / 8);
    const byte = matches![(sequence * attended!.length + relation) * bytes + (bit >> 3)]!;
    return ((byte >> (bit & 7)) & 1) === 1;
  }

  /** The part of a pattern from a place to what stands in a relation to it; of other chains there is nothing. */
  #markRelation(path: Path, sequence: number, mask: Uint8Array): void {
    const width = this.batch.n_positions;
    const queries = this.#chain(path.query, sequence);
    const relation = this.batch.roles.attended!.indexOf(path.key);
    if (relation < 0) {
      const known = this.batch.roles.attended!.join(", ");
      throw new Error(`There is no relation ${path.key} here; the task has ${known}.`);
    }
    if (path.chain === "other") return;
    for (let query = 0; query < width; query++) {
      if (queries[query] === ABSENT) continue;
      for (let key = 0; key < this.seen(query); key++) {
        if (this.#matches(sequence, relation, query, key)) mask[query * width + key] = 1;
      }
    }
  }

  /** The chains in which a sequence's positions hold a role. */
  #chain(role: string, sequence: number): Int16Array {
    const index = this.#roles.get(role);
    if (index === undefined) {
      throw new Error(`There is no role ${role} here; the task has ${this.batch.roles.names.join(", ")}.`);
    }
    const width = this.batch.n_positions;
    const start = (sequence * this.#roles.size + index) * width;
    return this.batch.roles.chain.subarray(start, start + width);
  }

  #markRow(row: Row, sequence: number, mask: Uint8Array): void {
    const width = this.batch.n_positions;
    for (let query = 0; query < width; query++) {
      if (this.holds(row.query, sequence, query)) mask.fill(1, query * width, query * width + this.seen(query));
    }
  }

  #markPath(path: Path, sequence: number, mask: Uint8Array): void {
    const width = this.batch.n_positions;
    const queries = this.#chain(path.query, sequence);
    const keys = this.#chain(path.key, sequence);
    const wanted = path.chain === "same";
    for (let query = 0; query < width; query++) {
      const own = queries[query]!;
      if (own === ABSENT) continue;
      for (let key = 0; key < this.seen(query); key++) {
        const other = keys[key]!;
        if (other !== ABSENT && (own === other && own >= 0) === wanted) mask[query * width + key] = 1;
      }
    }
  }
}

/** Whether a unit is a path and no whole row. */
export function isPath(unit: Unit): unit is Path {
  return "key" in unit;
}
