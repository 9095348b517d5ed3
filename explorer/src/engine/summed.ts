// What scores come to: means with 95 % intervals, and how far apart two of them are on the same sequences.
import type { Scores } from "./types.ts";

/** A mean over n sequences with its 95 % interval, normal approximation (`hopscope/circuits/losses.py`). */
export interface Estimate {
  mean: number;
  low: number;
  high: number;
  n: number;
}

/** Losses and shares of right answers over all sequences of some scores. */
export interface Summary {
  n: number;
  total: Estimate;
  /** By hop. */
  hops: Record<string, Estimate>;
  accuracy: Record<string, number>;
}

export function summary(scores: Scores): Summary {
  const hops: Record<string, Estimate> = {};
  const accuracy: Record<string, number> = {};
  scores.hops.forEach((name, hop) => {
    hops[name] = ratio(column(scores.sums, scores, hop), column(scores.counts, scores, hop));
    accuracy[name] = sum(column(scores.right, scores, hop)) / sum(column(scores.scored, scores, hop));
  });
  return { n: scores.n, total: mean(scores.totals), hops, accuracy };
}

/** What changes cost, on the same sequences: the mean difference `changed` − `base`, in all and by hop. */
export function difference(changed: Scores, base: Scores): { total: Estimate; hops: Record<string, Estimate> } {
  if (changed.n !== base.n) throw new Error(`losses over ${changed.n} and ${base.n} sequences are not to be compared`);
  const hops: Record<string, Estimate> = {};
  changed.hops.forEach((name, hop) => {
    const before = column(base.sums, base, hop);
    const more = column(changed.sums, changed, hop).map((value, i) => value - before[i]!);
    hops[name] = ratio(more, column(changed.counts, changed, hop));
  });
  return { total: mean(changed.totals.map((value, i) => value - base.totals[i]!)), hops };
}

/** The mean of some numbers. */
function mean(values: Float64Array): Estimate {
  return ratio(values, new Float64Array(values.length).fill(1));
}

/** Σ sums / Σ counts, with the interval of a ratio over sequences; of equal counts that of a mean. */
function ratio(sums: Float64Array, counts: Float64Array): Estimate {
  const n = sums.length;
  const found = sum(sums) / sum(counts);
  const squares = sum(sums.map((value, i) => (value - found * counts[i]!) ** 2));
  const deviation = Math.sqrt(squares / (n - 1)) / (sum(counts) / n);
  const margin = n > 1 ? (1.96 * deviation) / Math.sqrt(n) : Number.POSITIVE_INFINITY;
  return { mean: found, low: found - margin, high: found + margin, n };
}

/** The numbers of one hop. */
function column(values: Float64Array, scores: Scores, hop: number): Float64Array {
  return Float64Array.from({ length: scores.n }, (_, i) => values[i * scores.hops.length + hop]!);
}

function sum(values: Float64Array): number {
  return values.reduce((one, other) => one + other, 0);
}
