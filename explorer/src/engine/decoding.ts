// What a residual stream holds, by the decoders that came with the bundle (hopscope/explorer/decoders.py).
import type { Decoders } from "../bundle.ts";

/** A decoder of one stream, role and hop. */
export interface Decoder {
  layer: number;
  role: string;
  hop: number;
  /** d_model d_symbol */
  weight: Float32Array;
  bias: Float32Array;
  mean: Float32Array;
  slope: number;
}

/** The decoders that are good enough to be read, from their block. */
export function decodersOf({ cells, least }: Decoders, numbers: Float32Array, d_symbol: number): Decoder[] {
  const good = cells.filter(({ accuracy }) => accuracy >= least);
  const size = numbers.length / Math.max(1, good.length);
  const width = size - 2 * d_symbol - 1;
  return good.map(({ layer, role, hop }, i) => {
    const row = numbers.subarray(i * size, (i + 1) * size);
    return {
      ...{ layer, role, hop },
      weight: row.subarray(0, width),
      bias: row.subarray(width, width + d_symbol),
      mean: row.subarray(width + d_symbol, width + 2 * d_symbol),
      slope: row[size - 1]!,
    };
  });
}

/** Which of some candidates (candidate d_symbol) a decoder reads from a residual vector. */
export function decoded(decoder: Decoder, vector: Float32Array, candidates: Float32Array): number {
  const { weight, bias, mean, slope } = decoder;
  const width = bias.length;
  const predicted = Float64Array.from(bias);
  for (let i = 0; i < vector.length; i++) {
    for (let j = 0; j < width; j++) predicted[j]! += vector[i]! * weight[i * width + j]!;
  }
  let [best, most] = [-1, Number.NEGATIVE_INFINITY];
  for (let candidate = 0; candidate < candidates.length / width; candidate++) {
    let alike = 0;
    for (let j = 0; j < width; j++) {
      const offered = candidates[candidate * width + j]! - mean[j]!;
      alike += predicted[j]! * offered - (slope * offered ** 2) / 2;
    }
    if (alike > most) [best, most] = [candidate, alike];
  }
  return best;
}
