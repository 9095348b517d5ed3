// Fact sheets: chains of facts laid out as one sequence of symbol numbers (`hopscope/problem/factsheet.py`, `shapes.py`),
// and what a task makes of them (`hopscope/tasks/base_sheets.py`, `symbolic_retrieval.py`).
import { BundleError, type Run } from "../bundle.ts";
import type { Batch, Roles } from "./types.ts";

/** One edge of a shape: from the premises' variables to the conclusion's. */
export interface Step {
  premises: string[];
  conclusion: string;
}

/** A fact by symbol numbers, the conclusion last; its step counts from 1, its chain is −2 where it combines several. */
export interface Fact {
  step: number;
  symbols: number[];
  chain: number;
}

const NO_CHAIN = -2;
const ABSENT = -1;

/** Everything that a task's shape decides; the order of facts and queries is drawn for every sequence. */
export interface Sheet {
  n_chains: number;
  steps: Step[];
  /** The steps, from 1, as they are presented; null: each sequence draws its own order. */
  order: number[] | null;
  facts: Fact[];
  n_symbols: number;
  /** Symbol number of a variable's value in a chain. */
  symbol: (variable: string, chain: number) => number;
  /** chain step: symbol numbers of the conclusions. */
  answers: number[][];
  roles: string[];
}

/** What one sequence draws: facts and queries in the order in which they stand. */
export interface Order {
  facts: number[];
  queries: number[];
}

/** The sheet of a run's task. Throws BundleError for a task that is none. */
export function sheetOf({ task, batch }: Run): Sheet {
  const { n_chains, n_hops, shape, order } = task.settings;
  const steps = typeof shape === "string" ? parsed(shape) : chain(Number(n_hops));
  if (batch.typing.kind !== "facts" || !(steps.length && n_chains)) {
    throw new BundleError(`Facts cannot be typed for the task ${task.name}: its sequences are no chains of facts.`);
  }
  return sheet(Number(n_chains), steps, String(order));
}

export function sheet(n_chains: number, steps: Step[], order: string): Sheet {
  const query = steps[0]!.premises[0]!;
  const chains = Array.from({ length: n_chains }, (_, number) => [number]);
  const values = new Map<string, number[][]>([[query, chains]]);
  for (const { premises, conclusion } of steps) {
    values.set(
      conclusion,
      product(premises.map((premise) => values.get(premise)!)).map((of) => of.flat()),
    );
  }
  const numbers = new Map<string, number>();
  for (const [variable, all] of values) for (const value of all) numbers.set(`${variable} ${value}`, numbers.size);
  const number = (variable: string, value: number[]): number => numbers.get(`${variable} ${value}`)!;
  const facts = steps.flatMap(({ premises, conclusion }, step) =>
    product(premises.map((premise) => values.get(premise)!)).map((combined): Fact => {
      const value = combined.flat();
      const symbols = combined.map((premise, i) => number(premises[i]!, premise));
      const one = new Set(value).size === 1;
      return { step: step + 1, symbols: [...symbols, number(conclusion, value)], chain: one ? value[0]! : NO_CHAIN };
    }),
  );
  const answers = chains.map((_, of) =>
    steps.map((_, step) => facts.find((fact) => fact.step === step + 1 && fact.chain === of)!.symbols.at(-1)!),
  );
  const symbol = (variable: string, of: number): number => {
    const depends = values.get(variable)![0]!.length;
    return number(variable, new Array(depends).fill(of));
  };
  return {
    n_chains,
    steps,
    order: ordered(order, steps.length),
    facts,
    n_symbols: numbers.size,
    symbol,
    answers,
    roles: roles(steps),
  };
}

function chain(n_hops: number): Step[] {
  return Array.from({ length: n_hops }, (_, k) => ({ premises: [String(k)], conclusion: String(k + 1) }));
}

/** Steps from text such as `a>x a>y xy>z`; Python has checked it. */
function parsed(text: string): Step[] {
  return text.split(/\s+/).map((part) => {
    const [premises, conclusion] = part.split(">");
    return { premises: [...premises!], conclusion: conclusion! };
  });
}

function ordered(text: string, n_steps: number): number[] | null {
  const steps = Array.from({ length: n_steps }, (_, i) => i + 1);
  if (text === "shuffled") return null;
  if (text === "nearest_first") return steps;
  return text === "deepest_first" ? steps.reverse() : text.split(",").map(Number);
}

/** Every way to take one of each, the last changing fastest. */
function product<T>(choices: T[][]): T[][] {
  return choices.reduce<T[][]>((found, own) => found.flatMap((before) => own.map((one) => [...before, one])), [[]]);
}

/** `query`, then for each step its keys and its value; a second key of one step is `key[k,2]`. */
function roles(steps: Step[]): string[] {
  const found = steps.flatMap(({ premises }, i) => {
    const keys = premises.map((_, p) => (premises.length > 1 ? `key[${i + 1},${p + 1}]` : `key[${i + 1}]`));
    return [...keys, `value[${i + 1}]`];
  });
  return ["query", ...found];
}

// One sequence ------------------------------------------------------------------------------------------------------

/** What stands at a position: a symbol, in the part of a fact or query, of a chain. */
export interface Place {
  symbol: number;
  role: number;
  chain: number;
  /** Number of the fact, or behind all facts of the query, in the order in which they stand. */
  part: number;
}

/** One sequence's positions. */
export function laid(sheet: Sheet, { facts, queries }: Order): Place[] {
  const first = sheet.steps.map((_, step) =>
    sheet.steps.slice(0, step).reduce((sum, { premises }) => sum + premises.length + 1, 1),
  );
  const found = facts.flatMap((index, part) => {
    const { step, symbols, chain } = sheet.facts[index]!;
    return symbols.map((symbol, i) => ({ symbol, role: first[step - 1]! + i, chain, part }));
  });
  const asked = queries.map((chain, i) => ({
    symbol: sheet.symbol(sheet.steps[0]!.premises[0]!, chain),
    ...{ role: 0, chain, part: facts.length + i },
  }));
  return [...found, ...asked];
}

/** An order drawn as `FactSheet.draw` draws it: facts are shuffled within their step; `random` gives numbers in [0, 1). */
export function shuffled(sheet: Sheet, random: () => number): Order {
  const order = sheet.order ?? sorted(sheet.steps.map(() => random())).map((step) => step + 1);
  const ranks = sheet.facts.map(({ step }) => order.indexOf(step) + random());
  return { facts: sorted(ranks), queries: sorted(Array.from({ length: sheet.n_chains }, random)) };
}

/** The indices of some numbers from the least to the greatest. */
function sorted(values: number[]): number[] {
  return values.map((_, i) => i).sort((a, b) => values[a]! - values[b]!);
}

// A batch -----------------------------------------------------------------------------------------------------------

/** One sequence to render: its order, and what its symbols look like (vectors one after the other, or tokens). */
export interface Drawn {
  order: Order;
  symbols: ArrayLike<number>;
}

/** Sequences of a run's task as the model sees them, with roles and targets. */
export function rendered({ task }: Run, sheet: Sheet, drawn: readonly Drawn[]): Batch {
  const [start, end] = task.query_positions;
  const vectors = task.d_input !== null;
  const width = task.d_symbol ?? 1;
  const places = drawn.map(({ order }) => laid(sheet, order));
  const asked = drawn.flatMap(({ order }) =>
    order.queries.flatMap((chain) => askedOf(sheet, chain, task.hop_names.length)),
  );
  const perSequence = asked.length / drawn.length;
  const array = (size: number): Float32Array | Int32Array => (vectors ? new Float32Array(size) : new Int32Array(size));
  const targets = array(asked.length * width);
  for (const [i, symbol] of asked.entries()) {
    put(targets, i * width, drawn[Math.floor(i / perSequence)]!.symbols, symbol * width, width);
  }
  const each = task.d_input ?? 1;
  const inputs = array(drawn.length * task.n_positions * each);
  const coded = vectors ? codes(task, width) : () => [];
  for (const [of, row] of places.entries()) {
    for (const [position, { symbol, part }] of row.entries()) {
      const at = (of * task.n_positions + position) * each;
      put(inputs, at, drawn[of]!.symbols, symbol * width, width);
      inputs.set(coded(part, position), at + width);
    }
  }
  return {
    n: drawn.length,
    n_positions: task.n_positions,
    inputs,
    queries: { start, end },
    targets,
    roles: rolesOf(sheet, places),
    ideal_over: task.ideal_over,
    asked: Int32Array.from(asked),
    ...(vectors && { candidates: Float32Array.from(drawn.flatMap(({ symbols }) => Array.from(symbols))) }),
  };
}

/** Copies some numbers. */
function put(to: Float32Array | Int32Array, at: number, from: ArrayLike<number>, start: number, count: number): void {
  for (let i = 0; i < count; i++) to[at + i] = from[start + i]!;
}

/** The codes of a position, worked out once. */
function codes(task: Run["task"], width: number): (part: number, position: number) => number[] {
  const known = new Map<string, number[]>();
  return (part, position) => {
    const counts = counted(task, part, position);
    const key = counts.join();
    const found = known.get(key) ?? counts.flatMap((at) => code(at, width, Number(task.settings.position_base)));
    known.set(key, found);
    return found;
  };
}

/** What a position's codes count (`position_code` of `hopscope/tasks/base_sheets.py`). */
function counted({ settings, name }: Run["task"], part: number, position: number): number[] {
  if (settings.position_code === "pair") return [part];
  if (settings.position_code === "token_and_before") return [position, position - 1];
  if (settings.position_code === "token") return [position];
  throw new BundleError(`The page does not lay out ${name} with position codes ${settings.position_code}.`);
}

/** The symbols that are asked of a chain: all conclusions, or the last. */
function askedOf(sheet: Sheet, chain: number, n_hops: number): number[] {
  return sheet.answers[chain]!.slice(-n_hops);
}

function rolesOf(sheet: Sheet, places: readonly Place[][]): Roles {
  const width = places[0]?.length ?? 0;
  const chain = new Int16Array(places.length * sheet.roles.length * width).fill(ABSENT);
  for (const [of, row] of places.entries()) {
    for (const [position, place] of row.entries()) {
      chain[(of * sheet.roles.length + place.role) * width + position] = place.chain;
    }
  }
  return { names: sheet.roles, chain };
}

/** [cos t·w_0, …, sin t·w_0, …] with w_i = base^(−2i/width), rounded as PyTorch rounds (`hopscope.problem.symbols`). */
function code(place: number, width: number, base: number): number[] {
  const angles = Array.from({ length: width / 2 }, (_, i) => {
    const frequency = Math.fround(base ** -Math.fround((2 * i) / width));
    return Math.fround(place * frequency);
  });
  return [...angles.map(Math.cos), ...angles.map(Math.sin)];
}
