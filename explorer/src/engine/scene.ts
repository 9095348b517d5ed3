// One typed problem as the scene shows it: the tokens, what each stream holds after each layer, attention, answers.
import type { Run } from "../bundle.ts";
import { type Decoder, decoded } from "./decoding.ts";
import type { Answered } from "./live.ts";
import { letter, type Posed, type Problem, type Sequence } from "./typed.ts";
import type { Look, Path } from "./types.ts";

/** The chain that is asked about is the one that was typed first. */
export const CHAIN = 0;

/** A symbol of the chain that a stream of the model holds, as it was trained. */
export interface Held {
  /** The chain's own symbol after so many hops. */
  name: string;
  hop: number;
  /** Whether its decoder still reads it; otherwise it reads another chain's. */
  right: boolean;
}

export interface Scene {
  sequence: Sequence;
  /** To each hop of the chain's query that is asked, counted from one. */
  answers: Answered[];
  /** What a role's stream holds after so many layers, its own symbol among it. */
  holds: (layers: number, role: string) => Held[];
  /** This sequence's attention on a path of the chain. */
  attention: (path: Path) => number;
}

export function sceneOf(
  run: Run,
  problem: Problem,
  posed: Posed,
  look: Look,
  answers: Answered[],
  decoders: Decoder[],
): Scene {
  const [sequence] = posed.sequences as [Sequence];
  const query = sequence.queries.indexOf(CHAIN);
  const unasked = problem.sheet.steps.length - run.task.hop_names.length;
  return {
    sequence,
    answers: answers.flatMap((one) => (one.query === query ? [{ ...one, hop: unasked + one.hop + 1 }] : [])),
    holds: (layers, role) => held(run, problem, posed, look, decoders, layers, role),
    attention: (path) => attentionOn(run, problem, sequence, look, path),
  };
}

/** Where a role stands in a chain; −1: nowhere. */
function placeIn({ roles }: Sequence, role: string, chain: number): number {
  return roles.indexOf(`${letter(chain)} ${role}`);
}

function held(
  run: Run,
  problem: Problem,
  posed: Posed,
  look: Look,
  decoders: Decoder[],
  layers: number,
  role: string,
): Held[] {
  const [sequence] = posed.sequences as [Sequence];
  const stream = look.streams?.[layers];
  const place = placeIn(sequence, role, CHAIN);
  if (!stream || place < 0) return [];
  const { d_model } = run.model;
  const vector = stream.subarray(place * d_model, (place + 1) * d_model);
  return decoders
    .filter((one) => one.layer === layers && one.role === role)
    .map((decoder) => {
      const chain = decoded(decoder, vector, candidatesOf(run, problem, posed, decoder.hop));
      return { name: nameOf(problem, decoder.hop, CHAIN), hop: decoder.hop, right: chain === CHAIN };
    });
}

/** The symbols that the chains have after so many hops. */
function candidatesOf(run: Run, { sheet }: Problem, { batch }: Posed, hop: number): Float32Array {
  const width = run.task.d_symbol!;
  const all = Array.from({ length: sheet.n_chains }, (_, chain) => sheet.symbol(String(hop), chain) * width);
  return Float32Array.from(all.flatMap((from) => Array.from(batch.candidates!.subarray(from, from + width))));
}

export function nameOf({ sheet, names }: Problem, hop: number, chain: number): string {
  return names[sheet.symbol(String(hop), chain)] ?? "";
}

function attentionOn(run: Run, problem: Problem, sequence: Sequence, look: Look, path: Path): number {
  const { n_positions } = run.task;
  const query = placeIn(sequence, path.query, CHAIN);
  const from = ((path.layer * run.model.n_heads + path.head) * n_positions + query) * n_positions;
  const chains = Array.from({ length: problem.sheet.n_chains }, (_, chain) => chain);
  const keys = chains.filter((chain) => (path.chain === "same") === (chain === CHAIN));
  return keys.reduce((sum, chain) => sum + (look.patterns[from + placeIn(sequence, path.key, chain)] ?? 0), 0);
}
