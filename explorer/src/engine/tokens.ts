// A sequence that a person types token by token, for tasks that are no fact sheets: read against the task's names.
import { BundleError, type Run, type Typing } from "../bundle.ts";
import { generator } from "./random.ts";
import type { Batch } from "./types.ts";

const LONGEST = 60_000; // characters
const NOT_ASKED = -100;

type Tokens = Extract<Typing, { kind: "tokens" }>;

/** A typed sequence: its tokens, and what they are called, words of one's own included. */
export interface Typed {
  tokens: number[];
  symbols: string[];
  /** What an answer is called. */
  named: (token: number) => string;
}

/** Words as tokens. Throws BundleError, one sentence, where they are none of the task's, or too many or few. */
export function typedTokens(text: string, run: Run, seed = 0): Typed {
  const typing = run.batch.typing as Tokens;
  const words = text.slice(0, LONGEST).split(/\s+/u).filter(Boolean);
  const token = dictionary(words, typing, seed);
  const tokens = words.map((word) => {
    const found = token.get(word);
    if (found === undefined)
      throw new BundleError(`${clipped(word)} is no symbol of this task; it has ${some(typing)}.`);
    return found;
  });
  const wanted = run.task.n_positions;
  if (tokens.length !== wanted) {
    throw new BundleError(`A sequence of this task has ${wanted} symbols; ${tokens.length} are typed.`);
  }
  const own = new Map(words.map((word, i) => [tokens[i]!, word]));
  const named = (number: number): string =>
    (typing.free ? own.get(number) : undefined) ?? typing.names[number]?.at(-1) ?? "nothing";
  return { tokens, symbols: words, named };
}

/** Which word is which token; where no token is more than another, new words get ones that are not named. */
function dictionary(words: string[], { names, free }: Tokens, seed: number): Map<string, number> {
  const found = new Map<string, number>();
  for (const [token, all] of names.entries()) for (const name of all) if (!found.has(name)) found.set(name, token);
  if (!free) return found;
  const taken = new Set(words.map((word) => found.get(word)));
  const random = generator(seed);
  const left = names
    .map((_, token) => [random(), token] as const)
    .filter(([, token]) => !taken.has(token))
    .sort(([one], [other]) => one - other);
  for (const word of words) {
    const next = found.has(word) ? undefined : left.pop();
    if (next) found.set(word, next[1]);
  }
  return found;
}

/** The task's own example, in its names. */
export function exampleTokens({ batch }: Run): string {
  const { names, example } = batch.typing as Tokens;
  return example.map((token) => names[token]![0]).join(" ");
}

/** The sequence for the engine, which then answers; what is right, and roles, only the task itself can tell. */
export function unknown({ task }: Run, { tokens }: Typed): Batch {
  const [start, end] = task.query_positions;
  return {
    n: 1,
    n_positions: task.n_positions,
    inputs: Int32Array.from(tokens),
    queries: { start, end },
    targets: new Int32Array((end - start) * task.hop_names.length).fill(NOT_ASKED),
    roles: { names: [], chain: new Int16Array(0) },
    ideal_over: task.ideal_over,
  };
}

function some({ names }: Tokens): string {
  const all = names.map((own) => own[0]!);
  return all.length > 14 ? `${all.slice(0, 12).join(", ")}, … ${all.at(-1)}` : all.join(", ");
}

function clipped(word: string): string {
  return word.length > 60 ? `${word.slice(0, 60)}…` : word;
}
