// What streams hold, found while a model trains: ridge regressions of the chains' symbols, judged on other sequences, as
// `hopscope/explorer/decoders.py` has them for a run.
import { type Decoder, decoded } from "./decoding.ts";
import type { Kernel } from "./kernel.ts";
import type { Sheet } from "./sheet.ts";
import type { Batch } from "./types.ts";

/** A decoder with the share of right answers on the sequences that it was not fitted on. */
export interface Judged extends Decoder {
  accuracy: number;
}

const RIDGE = 1e-3; // relative to the mean variance of a feature

/** One position of a role. */
interface Place {
  sequence: number;
  position: number;
  chain: number;
}

/** Sequences with what the model's streams hold at every position: layers passed; position d_model by sequence. */
export interface Observed {
  batch: Batch;
  streams: readonly Float32Array[];
  sheet: Sheet;
  d_model: number;
  d_symbol: number;
  /** So many sequences fit, the others judge. */
  fitted: number;
}

/** Decoders of every stream, role and hop. */
export function fit(observed: Observed, kernel: Kernel): Judged[] {
  const { batch, streams, fitted } = observed;
  return streams.flatMap((stream, layer) =>
    batch.roles.names.flatMap((role, number) => {
      const places = placesOf(batch, number);
      const known = places.filter(({ sequence }) => sequence < fitted);
      const others = places.filter(({ sequence }) => sequence >= fitted);
      return regressed(observed, stream, known, kernel).map((found, hop): Judged => {
        const decoder = { layer, role, hop, ...found };
        return { ...decoder, accuracy: accuracyOf(observed, stream, others, decoder) };
      });
    }),
  );
}

function placesOf({ n, n_positions, roles }: Batch, role: number): Place[] {
  const found: Place[] = [];
  for (let sequence = 0; sequence < n; sequence++) {
    for (let position = 0; position < n_positions; position++) {
      const chain = roles.chain[(sequence * roles.names.length + role) * n_positions + position]!;
      if (chain >= 0) found.push({ sequence, position, chain });
    }
  }
  return found;
}

/** A chain's symbol after so many hops, as a place among the candidates. */
function symbolAt({ sheet, d_symbol }: Observed, sequence: number, hop: number, chain: number): number {
  return (sequence * sheet.n_symbols + sheet.symbol(String(hop), chain)) * d_symbol;
}

/** A ridge regression of each hop's symbol on what stands at some places. */
function regressed(
  observed: Observed,
  stream: Float32Array,
  places: readonly Place[],
  kernel: Kernel,
): Omit<Decoder, "layer" | "role" | "hop">[] {
  const { batch, sheet, d_model, d_symbol } = observed;
  const hops = sheet.steps.length + 1;
  const wide = hops * d_symbol;
  const x = new Float32Array(places.length * d_model);
  const y = new Float32Array(places.length * wide);
  places.forEach(({ sequence, position, chain }, row) => {
    const from = (sequence * batch.n_positions + position) * d_model;
    x.set(stream.subarray(from, from + d_model), row * d_model);
    for (let hop = 0; hop < hops; hop++) {
      const at = symbolAt(observed, sequence, hop, chain);
      y.set(batch.candidates!.subarray(at, at + d_symbol), row * wide + hop * d_symbol);
    }
  });
  const [centre, mean] = [centred(x, d_model), centred(y, wide)];
  const [squares, products] = moments(x, y, places.length, d_model, wide, kernel);
  const map = solved(squares, products, d_model, wide);
  return Array.from({ length: hops }, (_, hop) => {
    const weight = new Float32Array(d_model * d_symbol);
    const bias = new Float32Array(d_symbol);
    let [along, spread] = [0, 0]; // of predictions with the truth, and of the truth
    for (let j = 0; j < d_symbol; j++) {
      const column = hop * d_symbol + j;
      for (let i = 0; i < d_model; i++) {
        const value = map[i * wide + column]!;
        weight[i * d_symbol + j] = value;
        bias[j]! -= centre[i]! * value;
        along += value * products[i * wide + column]!;
      }
      for (let row = 0; row < places.length; row++) spread += y[row * wide + column]! ** 2;
    }
    return { weight, bias, mean: mean.slice(hop * d_symbol, (hop + 1) * d_symbol), slope: along / spread };
  });
}

/** Takes the mean row from every row, and returns it. */
function centred(rows: Float32Array, width: number): Float32Array {
  const mean = new Float64Array(width);
  for (let i = 0; i < rows.length; i++) mean[i % width]! += (rows[i]! * width) / rows.length;
  for (let i = 0; i < rows.length; i++) rows[i]! -= mean[i % width]!;
  return Float32Array.from(mean);
}

/** xᵀ x and xᵀ y. */
function moments(
  x: Float32Array,
  y: Float32Array,
  rows: number,
  n: number,
  m: number,
  kernel: Kernel,
): [Float64Array, Float64Array] {
  const begin = kernel.take(0);
  const [X, Y, XX, XY] = [kernel.take(x.length), kernel.take(y.length), kernel.take(n * n), kernel.take(n * m)];
  const { floats } = kernel;
  floats.set(x, X);
  floats.set(y, Y);
  floats.fill(0, XX, XY + n * m);
  kernel.training!.gradient(X, X, XX, rows, n, n);
  kernel.training!.gradient(X, Y, XY, rows, n, m);
  kernel.release(begin);
  return [Float64Array.from(floats.subarray(XX, XX + n * n)), Float64Array.from(floats.subarray(XY, XY + n * m))];
}

/** (A + λ)⁻¹ B by Cholesky's factors of A, in its place. */
function solved(a: Float64Array, b: Float64Array, n: number, m: number): Float64Array {
  let trace = 0;
  for (let i = 0; i < n; i++) trace += a[i * n + i]!;
  for (let i = 0; i < n; i++) a[i * n + i]! += (RIDGE * trace) / n + 1e-12;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let left = a[i * n + j]!;
      for (let k = 0; k < j; k++) left -= a[i * n + k]! * a[j * n + k]!;
      a[i * n + j] = i === j ? Math.sqrt(left) : left / a[j * n + j]!;
    }
  }
  const found = b.slice();
  for (let column = 0; column < m; column++) {
    for (let i = 0; i < n; i++) {
      for (let k = 0; k < i; k++) found[i * m + column]! -= a[i * n + k]! * found[k * m + column]!;
      found[i * m + column]! /= a[i * n + i]!;
    }
    for (let i = n - 1; i >= 0; i--) {
      for (let k = i + 1; k < n; k++) found[i * m + column]! -= a[k * n + i]! * found[k * m + column]!;
      found[i * m + column]! /= a[i * n + i]!;
    }
  }
  return found;
}

/** In which share of places a decoder names the chain's own symbol. */
function accuracyOf(observed: Observed, stream: Float32Array, places: readonly Place[], decoder: Decoder): number {
  const { batch, sheet, d_model, d_symbol } = observed;
  const offered = new Float32Array(sheet.n_chains * d_symbol);
  const right = places.filter(({ sequence, position, chain }) => {
    for (let other = 0; other < sheet.n_chains; other++) {
      const at = symbolAt(observed, sequence, decoder.hop, other);
      offered.set(batch.candidates!.subarray(at, at + d_symbol), other * d_symbol);
    }
    const from = (sequence * batch.n_positions + position) * d_model;
    return decoded(decoder, stream.subarray(from, from + d_model), offered) === chain;
  });
  return right.length / places.length;
}
