// Outputs as losses and answers (`hopscope/explorer/scoring.py`, `Task.correct`), sequence by sequence.
import type { Answer, Batch, Scores, Scoring } from "./types.ts";

const NOT_ASKED = -100;

/** Scores of n sequences to be filled in, without strengths. */
export function emptyScores(n: number, scoring: Scoring, paths: number): Scores {
  const size = n * scoring.hops.length;
  const numbers = (): Float64Array => new Float64Array(size);
  return {
    n,
    hops: scoring.hops,
    totals: new Float64Array(n),
    sums: numbers(),
    counts: numbers(),
    right: numbers(),
    scored: numbers(),
    strengths: new Float64Array(paths).fill(Number.NaN),
  };
}

/** Scores one sequence into row `row` of the scores; `outputs` (query, output) are its own. */
export function score(
  scores: Scores,
  row: number,
  batch: Batch,
  sequence: number,
  outputs: Float32Array,
  scoring: Scoring,
): void {
  const n_hops = scoring.hops.length;
  for (const answer of answers(batch, sequence, outputs, scoring)) {
    if (answer.right === NOT_ASKED) continue;
    const at = row * n_hops + answer.hop;
    scores.sums[at]! += answer.loss;
    scores.counts[at]! += 1;
    if (!scoring.counted || scoring.unscored.includes(answer.right)) continue;
    scores.scored[at]! += 1;
    const right = scoring.kind === "numbers" ? answer.loss < scoring.right_below : answer.named === answer.right;
    if (right) scores.right[at]! += 1;
  }
  scores.totals[row] = total(scores, row, scoring);
}

/** The training loss of one sequence. */
function total(scores: Scores, row: number, scoring: Scoring): number {
  const n_hops = scoring.hops.length;
  const own = (values: Float64Array): Float64Array => values.subarray(row * n_hops, (row + 1) * n_hops);
  const [sums, counts] = [own(scores.sums), own(scores.counts)];
  if (scoring.total === "answers") return sum(sums) / Math.max(sum(counts), 1);
  const losses = sums.map((value, hop) => value / counts[hop]!);
  return scoring.total === "hops" ? sum(losses) / n_hops : losses[scoring.total]!;
}

function sum(values: Float64Array): number {
  return values.reduce((one, other) => one + other, 0);
}

/** The answers of one sequence, each with its loss. */
export function answers(
  batch: Batch,
  sequence: number,
  outputs: Float32Array,
  scoring: Scoring,
): (Answer & { loss: number })[] {
  const found = [];
  const n_queries = batch.queries.end - batch.queries.start;
  const d_output = outputs.length / n_queries;
  for (let query = 0; query < n_queries; query++) {
    const own = outputs.subarray(query * d_output, (query + 1) * d_output);
    const asked = scoring.by_place ? 1 : scoring.hops.length; // of a query
    for (let i = 0; i < asked; i++) {
      const place = (sequence * n_queries + query) * asked + i;
      const hop = scoring.by_place ? query : i;
      const set =
        scoring.shared || scoring.by_place ? own : own.subarray(hop * scoring.width, (hop + 1) * scoring.width);
      const answer =
        scoring.kind === "tokens"
          ? likeliest(batch.targets[place]!, set.subarray(0, scoring.width))
          : nearest(batch, sequence, place, set, scoring.width);
      found.push({ query, hop, ...answer, loss: answer.loss * scoring.scale });
    }
  }
  return found;
}

type Named = Omit<Answer, "query" | "hop"> & { loss: number };

/** What a vector names: the nearest of the sequence's symbols. */
function nearest(batch: Batch, sequence: number, place: number, output: Float32Array, width: number): Named {
  const symbols = batch.candidates ? batch.candidates.length / batch.n / width : 0;
  const distances = Array.from({ length: symbols }, (_, symbol) =>
    Math.sqrt(squared(output, batch.candidates!, (sequence * symbols + symbol) * width)),
  );
  const [named, runner_up] = twoBest(distances, -1);
  return {
    named,
    runner_up,
    right: batch.asked?.[place] ?? -1,
    distance: distances[named] ?? Number.NaN,
    runner_up_distance: distances[runner_up] ?? Number.NaN,
    loss: batch.targets.length ? squared(output, batch.targets, place * width) / width : Number.NaN,
  };
}

/** What logits name: the likeliest token. */
function likeliest(right: number | undefined, logits: Float32Array): Named {
  const top = logits.reduce((one, other) => Math.max(one, other), Number.NEGATIVE_INFINITY);
  let mass = 0;
  for (const logit of logits) mass += Math.exp(logit - top);
  const surprise = (token: number): number => Math.log(mass) + top - (logits[token] ?? Number.NaN);
  const [named, runner_up] = twoBest(logits, 1);
  return {
    named,
    runner_up,
    right: right ?? -1,
    distance: surprise(named),
    runner_up_distance: surprise(runner_up),
    loss: surprise(right ?? -1),
  };
}

function squared(output: Float32Array, others: ArrayLike<number>, place: number): number {
  let found = 0;
  for (let i = 0; i < output.length; i++) found += (output[i]! - others[place + i]!) ** 2;
  return found;
}

/** The indices of the greatest (sign 1) or least (−1) two of some numbers, the first of equals; −1: there is none. */
function twoBest(values: ArrayLike<number>, sign: 1 | -1): [number, number] {
  let [best, next] = [-1, -1];
  for (let i = 0; i < values.length; i++) {
    const value = sign * values[i]!;
    if (best < 0 || value > sign * values[best]!) [best, next] = [i, best];
    else if (next < 0 || value > sign * values[next]!) next = i;
  }
  return [best, next];
}
