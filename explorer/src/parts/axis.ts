/** Where things stand in charts over training: time is even, and a checkpoint's column reaches half-way to its neighbours. */

/** A step's place between the first checkpoint and the last, 0 to 1. */
export function placeOf(step: number, steps: readonly number[]): number {
  const [first, last] = [steps[0] ?? 0, steps.at(-1) ?? 0];
  return last > first ? Math.min(1, Math.max(0, (step - first) / (last - first))) : 0.5;
}

/** The checkpoint nearest to a place. */
export function stepAt(place: number, steps: readonly number[]): number | undefined {
  const wanted = steps[0]! + place * (steps.at(-1)! - steps[0]!);
  return steps.reduce((best, one) => (Math.abs(one - wanted) < Math.abs(best - wanted) ? one : best), steps[0]!);
}

/** Where the columns of checkpoints begin, and where the last one ends. */
export function edges(steps: readonly number[]): number[] {
  const between = steps.slice(1).map((step, i) => placeOf((steps[i]! + step) / 2, steps));
  return [0, ...between, 1];
}

/** Round steps to write below a chart: at most so many, as far apart as each other. */
export function ticks(steps: readonly number[], most: number): number[] {
  const [first, last] = [steps[0] ?? 0, steps.at(-1) ?? 0];
  const least = (last - first) / Math.max(1, most - 1) || 1;
  const power = 10 ** Math.floor(Math.log10(least));
  const every = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least)!;
  const from = Math.ceil(first / every);
  return Array.from({ length: Math.floor(last / every) - from + 1 }, (_, i) => (from + i) * every);
}

/** A logarithmic scale from [low, high] to [0, 1], kept inside. */
export function logScale(low: number, high: number): (value: number) => number {
  const [from, to] = [Math.log10(low), Math.log10(high)];
  return (value) => Math.min(1, Math.max(0, (Math.log10(Math.max(value, 1e-12)) - from) / (to - from)));
}

/** The powers of ten in a range. */
export function decades(low: number, high: number): number[] {
  const found: number[] = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power++)
    found.push(10 ** power);
  return found;
}
