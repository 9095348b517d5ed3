// Where a batch's activations stand while its gradients are computed, and how they flow back.
import type { Kernel } from "./kernel.ts";
import type { Batch, Shape } from "./types.ts";

/** What a layer keeps of the forward pass for the way back; rows are those of all positions, or of those that answer. */
export interface Kept {
  stream: number;
  stats: number;
  x: number;
  /** Of the rows that query: in the last layer those that answer. */
  asking: number;
  q: number;
  k: number;
  v: number;
  p: number;
  z: number;
}

/** Room for the activations of a batch and their gradients. */
export interface Room {
  n: number;
  width: number;
  inputs: number;
  kept: Kept[];
  last: number;
  lastStats: number;
  lastX: number;
  out: number;
  dout: number;
  dlast: number;
  dstream: number;
  dx: number;
  dz: number;
  ds: number;
  dq: number;
  dk: number;
  dv: number;
}

/** Takes the room that a batch needs. */
export function roomFor(shape: Shape, batch: Batch, kernel: Kernel): Room {
  const { d_model, d_input, d_output, n_layers } = shape;
  const [all, few] = rowsOf(batch);
  const take = (rows: number, size = d_model): number => kernel.take(rows * size);
  const kept = Array.from({ length: n_layers }, (_, layer): Kept => {
    const last = layer === n_layers - 1;
    const asking = last ? few : all;
    const x = take(all);
    return {
      ...{ stream: take(all), stats: take(all, 2), x, asking: last ? take(few) : x },
      ...{ q: take(asking), k: take(all), v: take(all), p: take(asking, batch.n_positions), z: take(asking) },
    };
  });
  return {
    ...{ n: batch.n, width: batch.n_positions, inputs: take(all, d_input), kept },
    ...{ last: take(few), lastStats: take(few, 2), lastX: take(few) },
    ...{ out: take(few, d_output), dout: take(few, d_output), dlast: take(few), dstream: take(all), dx: take(all) },
    ...{ dz: take(all), ds: take(all, batch.n_positions), dq: take(all), dk: take(all), dv: take(all) },
  };
}

/** How many rows a batch has, and how many of them answer. */
export function rowsOf({ n, n_positions, queries }: Batch): [number, number] {
  return [n * n_positions, n * (queries.end - queries.start)];
}
