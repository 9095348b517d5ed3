// Facts that a person types, `ann>bob bob>cy`: read, held against the task's shape, and posed to the model anew and anew.
import { BundleError, type Run } from "../bundle.ts";
import { generator, normal } from "./random.ts";
import { type Drawn, laid, rendered, type Sheet, sheetOf, shuffled } from "./sheet.ts";
import type { Batch } from "./types.ts";

const LONGEST = 4000; // characters of all facts
const LONGEST_NAME = 60;

/** A problem that fits the task: names of all symbols, and which chains were typed (the others are filled up). */
export interface Problem {
  sheet: Sheet;
  /** By symbol number. */
  names: string[];
  /** Chains 0, 1, … so many are typed. */
  typed: number;
}

/** At each position the symbol's name and its role's label; and in which order chains are asked. */
export interface Sequence {
  symbols: string[];
  roles: string[];
  queries: number[];
}

/** The same problem, posed several times: order, vectors or tokens are drawn anew each time. */
export interface Posed {
  batch: Batch;
  sequences: Sequence[];
  /** The name of what an answer names in a sequence: a candidate, or a token. */
  named: (sequence: number, named: number) => string;
}

/** Typed facts: `premise>conclusion`, several premises joined by `+`; blanks, commas, semicolons or lines between facts. */
export function parseFacts(text: string): { premises: string[]; conclusion: string }[] {
  if (text.length > LONGEST)
    throw new BundleError(`Facts may be ${LONGEST} characters long; these are ${text.length}.`);
  const parts = text
    .replace(/\s*(→|->|>)\s*/gu, ">")
    .replace(/\s*\+\s*/gu, "+")
    .split(/[\s,;]+/u)
    .filter(Boolean);
  const facts = parts.map((part) => {
    const sides = part.split(">");
    const premises = sides[0]!.split("+");
    const conclusion = sides[1] ?? "";
    if (sides.length !== 2 || !conclusion || premises.some((name) => !name)) {
      throw new BundleError(`A fact is written such as ann>bob, or ann+bob>cy; this is ${shown(part)}.`);
    }
    return { premises, conclusion };
  });
  const long = facts
    .flatMap(({ premises, conclusion }) => [...premises, conclusion])
    .find((name) => name.length > LONGEST_NAME);
  if (long) throw new BundleError(`A name may be ${LONGEST_NAME} characters long; ${shown(long)} is longer.`);
  return facts;
}

/** Facts as a problem of a run's task. Throws BundleError, one sentence, where they do not fit. */
export function problem(text: string, run: Run): Problem {
  const sheet = sheetOf(run);
  const facts = parseFacts(text);
  const concluded = new Map<string, string>();
  for (const { premises, conclusion } of facts) {
    const by = premises.join("+");
    if (concluded.has(conclusion)) {
      throw new BundleError(
        `${shown(conclusion)} follows from ${shown(concluded.get(conclusion)!)} and from ${shown(by)}; each symbol may follow once.`,
      );
    }
    concluded.set(conclusion, by);
  }
  if (!facts.length) throw new BundleError(`Type at least one chain: ${expected(sheet, "ann")}.`);
  const roots = [...new Set(facts.flatMap(({ premises }) => premises))].filter((name) => !concluded.has(name));
  if (!roots.length)
    throw new BundleError("These facts run in a circle: a chain begins with a symbol that follows from none.");
  if (roots.length > sheet.n_chains) {
    throw new BundleError(
      `These are ${roots.length} chains, which begin with ${listed(roots)}; the task has ${sheet.n_chains}.`,
    );
  }
  const left = new Set(facts.keys());
  const chains = roots.map((root) => {
    const found = matched(sheet, root, facts, left);
    if (!found) throw new BundleError(`The facts about ${shown(root)} do not fit: ${expected(sheet, root)}.`);
    for (const number of found.used) left.delete(number);
    return found.names;
  });
  const [more] = left;
  if (more !== undefined) {
    const { premises, conclusion } = facts[more]!;
    throw new BundleError(
      `${shown(`${premises.join("+")}>${conclusion}`)} does not fit: ${expected(sheet, roots[0]!)}.`,
    );
  }
  return { sheet, names: named(sheet, chains), typed: chains.length };
}

type Typed = ReturnType<typeof parseFacts>;
type Names = Map<string, string>;

/** The variables' names in the chain of a root, and which facts give them; null where the facts do not fit the steps. */
function matched(sheet: Sheet, root: string, facts: Typed, left: Set<number>): { names: Names; used: number[] } | null {
  const search = (step: number, names: Names, used: number[]): { names: Names; used: number[] } | null => {
    const wanted = sheet.steps[step];
    if (!wanted) return { names, used };
    const premises = wanted.premises.map((variable) => names.get(variable)!);
    for (const number of left) {
      const fact = facts[number]!;
      const fits = !used.includes(number) && equalSets(fact.premises, premises);
      if (!fits) continue;
      const found = search(step + 1, new Map(names).set(wanted.conclusion, fact.conclusion), [...used, number]);
      if (found) return found;
    }
    return null;
  };
  return search(0, new Map([[sheet.steps[0]!.premises[0]!, root]]), []);
}

function equalSets(one: string[], other: string[]): boolean {
  return one.length === other.length && one.every((name) => other.includes(name));
}

/** Names of all symbols: as typed; those of chains that were not typed, and of mixed facts, are made up. */
function named(sheet: Sheet, chains: Names[]): string[] {
  const names: (string | undefined)[] = new Array(sheet.n_symbols).fill(undefined);
  for (const [chain, own] of chains.entries()) {
    for (const [variable, name] of own) names[sheet.symbol(variable, chain)] = name;
  }
  const taken = new Set(names);
  let number = 0;
  const fresh = (): string => {
    do number++;
    while (taken.has(`·${number}`));
    return `·${number}`;
  };
  return names.map((name) => name ?? fresh());
}

/** What a chain looks like, in a typed chain's own first name. */
function expected(sheet: Sheet, root: string): string {
  const letters = new Map([[sheet.steps[0]!.premises[0]!, root.slice(0, LONGEST_NAME)]]);
  const facts = sheet.steps.map(({ premises, conclusion }, step) => {
    const own = premises.map((variable) => letters.get(variable)).join("+");
    letters.set(conclusion, `x${step + 1}`);
    return `${own}>x${step + 1}`;
  });
  return `every chain of this task has the facts ${facts.join(" ")}`;
}

/** How a drawn sequence stands, in the names of a problem. */
export function standing({ sheet, names }: Problem, order: Drawn["order"]): Sequence {
  const places = laid(sheet, order);
  return {
    symbols: places.map(({ symbol }) => names[symbol]!),
    roles: places.map(({ role, chain }) => `${letter(chain)} ${sheet.roles[role]}`),
    queries: order.queries,
  };
}

/** A problem posed n times; equal seeds pose it in equal ways. */
export function posed(problem: Problem, run: Run, n: number, seed: number): Posed {
  const { sheet, names } = problem;
  const random = generator(seed);
  const drawn = Array.from({ length: n }, () => ({
    order: shuffled(sheet, random),
    symbols: symbols(sheet, run, random),
  }));
  const sequences = drawn.map(({ order }) => standing(problem, order));
  const name = (sequence: number, answer: number): string => {
    if (run.task.d_input !== null) return names[answer] ?? "nothing";
    return names[Array.from(drawn[sequence]!.symbols).indexOf(answer)] ?? `token ${answer}`;
  };
  return { batch: rendered(run, sheet, drawn), sequences, named: name };
}

/** What a sequence's symbols look like: Gaussian vectors, or different tokens. */
function symbols(sheet: Sheet, { task }: Run, random: () => number): Drawn["symbols"] {
  if (task.d_input !== null)
    return Float32Array.from({ length: sheet.n_symbols * task.d_symbol! }, () => normal(random));
  const tokens = Array.from({ length: task.d_vocab! }, (_, token) => [random(), token] as const);
  return tokens
    .sort(([one], [other]) => one - other)
    .slice(0, sheet.n_symbols)
    .map(([, token]) => token);
}

/** The name of a chain for people: a … z, A … Z, then a', b', …; `·` of none. */
export function letter(chain: number): string {
  if (chain < 0) return "·";
  const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return letters[chain % 52]! + "'".repeat(Math.floor(chain / 52));
}

function listed(names: string[]): string {
  return names.slice(0, 5).map(shown).join(", ") + (names.length > 5 ? " …" : "");
}

/** A name as it may stand in a sentence. */
function shown(name: string): string {
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name;
}
