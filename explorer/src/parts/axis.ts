/** Where things stand in charts over training: every checkpoint has a column of its own, and steps between them a place between. */

/** A step's place among checkpoints, 0 … n − 1, in parts of columns. */
export function placeOf(step: number, steps: readonly number[]): number {
  if (steps.length < 2 || step <= steps[0]!) return 0;
  for (let i = 1; i < steps.length; i++) {
    if (step <= steps[i]!) return i - 1 + (step - steps[i - 1]!) / (steps[i]! - steps[i - 1]!);
  }
  return steps.length - 1;
}

/** Checkpoints whose steps are written below a chart: round ones, not too near to each other. */
export function ticks(steps: readonly number[], most: number): number[] {
  if (steps.length <= most) return [...steps];
  const last = steps.length - 1;
  const every = Math.ceil(last / (most - 1));
  const chosen = steps.filter((_, i) => i % every === 0 && last - i >= every * 0.6);
  return [...chosen, steps[last]!];
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
