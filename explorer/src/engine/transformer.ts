// The project's Transformer (`hopscope/models/transformer.py`, `base_layers.py`) on a kernel's memory: a forward pass over
// some sequences of a batch, in which every layer's patterns may be read and changed.
import { halves } from "../bundle.ts";
import { type Kernel, packedSize, padded } from "./kernel.ts";
import type { Batch, Parameter, Shape, Weights } from "./types.ts";

/** A matrix product's weights and biases, at their places in the kernel's memory. */
interface Linear {
  weight: number;
  bias: number;
  d_in: number;
  d_out: number;
}

interface Norm {
  w: Float32Array;
  b: Float32Array;
}

interface Layer {
  ln1: Norm | null;
  q: Linear;
  k: Linear;
  v: Linear;
  o: Linear;
  key_mix: Float32Array | null;
  value_mix: Float32Array | null;
  /** What positions add to scores, head distance. */
  bias: Float32Array | null;
  ln2: Norm | null;
  mlp_in: Linear | null;
  mlp_out: Linear | null;
}

/** The rows of a sequence that a layer computes: all, or in the last layer those that answer. */
export interface Rows {
  start: number;
  end: number;
}

/** One forward pass: over `count` sequences of a batch, from number `first` on. */
export interface Pass {
  batch: Batch;
  first: number;
  count: number;
  /** Reads or changes a layer's patterns, sequence head query key, from `place` on in `floats`. */
  patterns?: (layer: number, floats: Float32Array, place: number, rows: Rows) => void;
  /** Patterns are all overwritten, so none need be computed. */
  blind?: boolean;
  /** Begin before this layer with this residual stream, sequence position d_model. */
  from?: { layer: number; stream: Float32Array };
  /** Reads the residual stream before a layer. */
  streams?: (layer: number, stream: Float32Array) => void;
  /** Compute the last layer at all positions, not only where answers are read off. */
  whole?: boolean;
}

/** Where the activations of a pass stand, and for how many sequences of what length there is room. */
interface Scratch {
  count: number;
  width: number;
  resid: number;
  x: number;
  some: number;
  q: number;
  k: number;
  v: number;
  z: number;
  hidden: number;
  patterns: number;
  out: number;
}

export class Transformer {
  readonly #embedding: Linear | Float32Array;
  readonly #positions: Float32Array | null;
  readonly #layers: Layer[];
  readonly #final: Norm | null;
  readonly #unembedding: Linear;
  #scratch: Scratch | null = null;
  readonly #begin: number;

  /** Throws an Error, one sentence, where weights do not fit the shape. */
  constructor(
    readonly shape: Shape,
    weights: Weights,
    readonly kernel: Kernel,
  ) {
    const { d_model, d_input, d_output, n_positions } = shape;
    const read = (name: string, ...sizes: number[]): Float32Array => numbers(weights, name, sizes);
    const table = read("W_E", d_input, d_model);
    this.#embedding = shape.tokens ? table : this.#linear(table, d_input, d_model, read("b_E", d_model));
    this.#positions = shape.positions.name === "learned" ? read("W_pos", n_positions, d_model) : null;
    this.#layers = Array.from({ length: shape.n_layers }, (_, layer) => this.#layer(weights, layer));
    this.#final = this.#norm(weights, "ln_final");
    this.#unembedding = this.#linear(read("W_U", d_model, d_output), d_model, d_output, read("b_U", d_output));
    this.#begin = kernel.take(0);
  }

  /** Outputs at the positions where answers are read off: sequence query output. */
  forward(pass: Pass): Float32Array {
    const { shape, kernel } = this;
    const { batch, count, from } = pass;
    const scratch = this.#room(count, batch.n_positions);
    const width = batch.n_positions;
    if (from) kernel.floats.set(from.stream, scratch.resid);
    else this.#embed(pass, scratch);
    const queries = { start: batch.queries.start, end: batch.queries.end };
    let at: Rows = { start: 0, end: width };
    for (let layer = from?.layer ?? 0; layer < shape.n_layers; layer++) {
      const { resid } = scratch;
      pass.streams?.(layer, kernel.floats.slice(resid, resid + count * width * shape.d_model));
      if (layer === shape.n_layers - 1 && !pass.whole) at = queries;
      this.#block(layer, pass, scratch, at);
    }
    if (at.end - at.start === width) {
      const { resid } = scratch;
      pass.streams?.(shape.n_layers, kernel.floats.slice(resid, resid + count * width * shape.d_model));
      this.#gather(scratch.resid, pass, queries);
    }
    return this.#unembed(pass, scratch);
  }

  // Parts of the pass ----------------------------------------------------------------------------------------------

  #embed({ batch, first, count }: Pass, { resid, x }: Scratch): void {
    const { d_model, d_input } = this.shape;
    const { floats } = this.kernel;
    const rows = count * batch.n_positions;
    const from = first * batch.n_positions;
    if (this.#embedding instanceof Float32Array) {
      for (let row = 0; row < rows; row++) {
        const token = batch.inputs[from + row]!;
        floats.set(this.#embedding.subarray(token * d_model, (token + 1) * d_model), resid + row * d_model);
      }
    } else {
      floats.set(batch.inputs.subarray(from * d_input, (from + rows) * d_input), x);
      this.#product(x, this.#embedding, resid, rows, false);
    }
    if (!this.#positions) return;
    const size = batch.n_positions * d_model;
    for (let i = 0; i < rows * d_model; i++) floats[resid + i]! += this.#positions[i % size]!;
  }

  #block(number: number, pass: Pass, scratch: Scratch, at: Rows): void {
    const layer = this.#layers[number]!;
    const { d_model } = this.shape;
    const { resid, x } = scratch;
    const all = pass.count * pass.batch.n_positions;
    const few = pass.count * (at.end - at.start);
    this.#normalise(layer.ln1, resid, x, all, d_model);
    this.#product(x, layer.v, scratch.v, all, false);
    if (layer.value_mix) this.#blend(scratch.v, pass, layer.value_mix);
    if (!pass.blind) this.#attend(layer, pass, scratch, at);
    pass.patterns?.(number, this.kernel.floats, scratch.patterns, at);
    this.#mix(pass, scratch, at);
    if (few < all) this.#gather(resid, pass, at);
    this.#product(scratch.z, layer.o, resid, few, true);
    if (!layer.mlp_in || !layer.mlp_out) return;
    this.#normalise(layer.ln2, resid, x, few, d_model);
    this.#product(x, layer.mlp_in, scratch.hidden, few, false);
    this.kernel.gelu(scratch.hidden, few * layer.mlp_in.d_out);
    this.#product(scratch.hidden, layer.mlp_out, resid, few, true);
  }

  /** Patterns as the heads compute them. */
  #attend(layer: Layer, pass: Pass, scratch: Scratch, at: Rows): void {
    const { x, some, q, k } = scratch;
    const { batch, count } = pass;
    const all = count * batch.n_positions;
    const few = count * (at.end - at.start);
    if (few < all) this.#gather(x, pass, at, some);
    this.#product(few < all ? some : x, layer.q, q, few, false);
    this.#product(x, layer.k, k, all, false);
    if (this.shape.positions.name === "rotary") {
      this.#turn(q, count, at);
      this.#turn(k, count, { start: 0, end: batch.n_positions });
    }
    if (layer.key_mix) this.#blend(k, pass, layer.key_mix);
    this.#scores(layer, pass, scratch, at);
  }

  #scores(layer: Layer, pass: Pass, scratch: Scratch, at: Rows): void {
    const { n_heads, d_head, causal } = this.shape;
    const width = pass.batch.n_positions;
    const stride = n_heads * d_head;
    const scale = d_head ** -0.5;
    let query = scratch.q;
    for (let i = 0; i < pass.count; i++) {
      for (let row = at.start; row < at.end; row++, query += stride) {
        const seen = causal ? row + 1 : width;
        for (let head = 0; head < n_heads; head++) {
          const keys = scratch.k + i * width * stride + head * d_head;
          const place = scratch.patterns + ((i * n_heads + head) * width + row) * width;
          this.kernel.scores(query + head * d_head, keys, stride, place, seen, d_head, scale);
          const pattern = this.kernel.floats.subarray(place, place + width).fill(0, seen);
          this.#weigh(pattern, seen, row, layer.bias?.subarray(head * this.shape.n_positions) ?? null);
        }
      }
    }
  }

  /** One row of scores becomes one of a pattern. */
  #weigh(row: Float32Array, seen: number, query: number, bias: Float32Array | null): void {
    const extra = (key: number): number => bias?.[Math.abs(query - key)] ?? 0;
    if (this.shape.attention.name === "linear") {
      if (bias) for (let key = 0; key < seen; key++) row[key]! *= Math.exp(extra(key));
      return;
    }
    let top = Number.NEGATIVE_INFINITY;
    for (let key = 0; key < seen; key++) {
      if (bias) row[key]! += extra(key);
      if (row[key]! > top) top = row[key]!;
    }
    let sum = 0;
    for (let key = 0; key < seen; key++) sum += row[key] = Math.exp(row[key]! - top);
    for (let key = 0; key < seen; key++) row[key]! /= sum;
  }

  /** What patterns make of values. */
  #mix(pass: Pass, scratch: Scratch, at: Rows): void {
    const { n_heads, d_head, causal } = this.shape;
    const width = pass.batch.n_positions;
    const stride = n_heads * d_head;
    let z = scratch.z;
    for (let i = 0; i < pass.count; i++) {
      for (let row = at.start; row < at.end; row++, z += stride) {
        for (let head = 0; head < n_heads; head++) {
          const pattern = scratch.patterns + ((i * n_heads + head) * width + row) * width;
          const values = scratch.v + i * width * stride + head * d_head;
          this.kernel.mix(pattern, values, stride, z + head * d_head, causal ? row + 1 : width, d_head);
        }
      }
    }
  }

  /** Rotary positions: components i and i + d_head / 2 turn together; angles are rounded as PyTorch's are. */
  #turn(place: number, count: number, at: Rows): void {
    const { n_heads, d_head, positions } = this.shape;
    if (positions.name !== "rotary") return;
    const { floats } = this.kernel;
    const half = d_head / 2;
    for (let i = 0; i < half; i++) {
      const frequency = Math.fround(positions.base ** -Math.fround((2 * i) / d_head));
      for (let row = at.start; row < at.end; row++) {
        const angle = Math.fround(row * frequency);
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        for (let s = 0; s < count; s++) {
          let first = place + (s * (at.end - at.start) + row - at.start) * n_heads * d_head + i;
          for (let head = 0; head < n_heads; head++, first += d_head) {
            const [one, two] = [floats[first]!, floats[first + half]!];
            floats[first] = one * cos - two * sin;
            floats[first + half] = two * cos + one * sin;
          }
        }
      }
    }
  }

  /** KV shifting: mix₀ x_i + mix₁ x_(i−1) per head, from the last position back. */
  #blend(place: number, { batch, count }: Pass, mix: Float32Array): void {
    const { n_heads, d_head } = this.shape;
    const { floats } = this.kernel;
    const stride = n_heads * d_head;
    for (let row = count * batch.n_positions - 1; row >= 0; row--) {
      const begins = row % batch.n_positions === 0;
      for (let i = 0; i < stride; i++) {
        const at = place + row * stride + i;
        const head = Math.floor(i / d_head);
        const before = begins ? 0 : floats[at - stride]!;
        floats[at] = mix[2 * head]! * floats[at]! + mix[2 * head + 1]! * before;
      }
    }
  }

  #unembed({ batch, count }: Pass, { resid, x, out }: Scratch): Float32Array {
    const rows = count * (batch.queries.end - batch.queries.start);
    this.#normalise(this.#final, resid, x, rows, this.shape.d_model);
    this.#product(x, this.#unembedding, out, rows, false);
    return this.kernel.floats.slice(out, out + rows * this.shape.d_output);
  }

  #normalise(norm: Norm | null, from: number, to: number, rows: number, width: number): void {
    const { floats } = this.kernel;
    if (!norm) {
      floats.copyWithin(to, from, from + rows * width);
      return;
    }
    const { w, b } = norm;
    for (let row = 0; row < rows; row++, from += width, to += width) {
      let sum = 0;
      for (let i = 0; i < width; i++) sum += floats[from + i]!;
      const mean = sum / width;
      let squares = 0;
      for (let i = 0; i < width; i++) squares += (floats[from + i]! - mean) ** 2;
      const scale = 1 / Math.sqrt(squares / width + 1e-5);
      for (let i = 0; i < width; i++) floats[to + i] = (floats[from + i]! - mean) * scale * w[i]! + b[i]!;
    }
  }

  #product(from: number, { weight, bias, d_in, d_out }: Linear, to: number, rows: number, add: boolean): void {
    this.kernel.product(from, weight, bias, to, rows, d_in, d_out, add);
  }

  /** Moves some rows of every sequence together, in place or elsewhere. */
  #gather(from: number, { batch, count }: Pass, { start, end }: Rows, to = from): void {
    const { d_model } = this.shape;
    const size = (end - start) * d_model;
    for (let i = 0; i < count; i++) {
      const at = from + (i * batch.n_positions + start) * d_model;
      this.kernel.floats.copyWithin(to + i * size, at, at + size);
    }
  }

  // Memory ---------------------------------------------------------------------------------------------------------

  /** Places for the activations of so many sequences. */
  #room(count: number, width: number): Scratch {
    if (this.#scratch && this.#scratch.count >= count && this.#scratch.width === width) return this.#scratch;
    this.kernel.release(this.#begin);
    const { n_heads, d_head, d_model, d_mlp, d_input, d_output } = this.shape;
    const take = (size: number): number => this.kernel.take(count * width * size);
    const heads = n_heads * d_head;
    this.#scratch = {
      count,
      width,
      resid: take(d_model),
      x: take(Math.max(d_model, d_input)),
      some: take(d_model),
      q: take(heads),
      k: take(heads),
      v: take(heads),
      z: take(heads),
      hidden: take(d_mlp),
      patterns: take(n_heads * width),
      out: take(d_output),
    };
    return this.#scratch;
  }

  #layer(weights: Weights, layer: number): Layer {
    const { n_heads, d_head, d_model, d_mlp, attention, positions, n_positions } = this.shape;
    const name = `blocks.${layer}`;
    const heads = n_heads * d_head;
    const read = (own: string, ...sizes: number[]): Float32Array => numbers(weights, `${name}.${own}`, sizes);
    const qkv = read("attn.W_QKV", 3, n_heads, d_model, d_head);
    const biases = read("attn.b_QKV", 3, n_heads, d_head);
    const part = (i: number): Linear => {
      const own = qkv.subarray(i * heads * d_model, (i + 1) * heads * d_model);
      return this.#linear(byColumn(own, n_heads, d_model, d_head), d_model, heads, biases.subarray(i * heads));
    };
    const shifts = attention.name === "kv_shift";
    const beta = positions.name === "relative" ? read("attn.positions.beta", n_heads, n_positions) : null;
    const scale = positions.name === "relative" ? positions.scale : 1;
    return {
      ln1: this.#norm(weights, `${name}.ln1`),
      q: part(0),
      k: part(1),
      v: part(2),
      o: this.#linear(read("attn.W_O", n_heads, d_head, d_model), heads, d_model, read("attn.b_O", d_model)),
      key_mix: shifts ? read("attn.variant.key_mix", n_heads, 2) : null,
      value_mix: shifts ? read("attn.variant.value_mix", n_heads, 2) : null,
      bias: beta?.map((value) => scale * value) ?? null,
      ln2: d_mlp ? this.#norm(weights, `${name}.ln2`) : null,
      mlp_in: d_mlp ? this.#linear(read("mlp.W_in", d_model, d_mlp), d_model, d_mlp, read("mlp.b_in", d_mlp)) : null,
      mlp_out: d_mlp
        ? this.#linear(read("mlp.W_out", d_mlp, d_model), d_mlp, d_model, read("mlp.b_out", d_model))
        : null,
    };
  }

  #norm(weights: Weights, name: string): Norm | null {
    if (!this.shape.layer_norm) return null;
    const sizes = [this.shape.d_model];
    return { w: numbers(weights, `${name}.w`, sizes), b: numbers(weights, `${name}.b`, sizes) };
  }

  /** A row-major (d_in, d_out) matrix, packed in panels of eight columns, and its biases. */
  #linear(matrix: Float32Array, d_in: number, d_out: number, biases: Float32Array): Linear {
    const weight = this.kernel.take(packedSize(d_in, d_out));
    const bias = this.kernel.take(padded(d_out));
    const { floats } = this.kernel;
    floats.set(biases.subarray(0, d_out), bias);
    for (let i = 0; i < d_in; i++) {
      for (let j = 0; j < d_out; j++) floats[weight + ((j >> 3) * d_in + i) * 8 + (j & 7)] = matrix[i * d_out + j]!;
    }
    return { weight, bias, d_in, d_out };
  }
}

/** Weights (head, d_model, d_head) as one matrix (d_model, head·d_head). */
function byColumn(values: Float32Array, n_heads: number, d_model: number, d_head: number): Float32Array {
  const found = new Float32Array(values.length);
  for (let head = 0; head < n_heads; head++) {
    for (let i = 0; i < d_model; i++) {
      const from = (head * d_model + i) * d_head;
      found.set(values.subarray(from, from + d_head), (i * n_heads + head) * d_head);
    }
  }
  return found;
}

/** A parameter in float32. Throws an Error if it is missing or of another shape. */
function numbers(weights: Weights, name: string, sizes: readonly number[]): Float32Array {
  const found: Parameter | undefined = weights[name];
  if (!found) throw new Error(`The weights have no ${name}: they are not of this model.`);
  if (found.shape.join() !== sizes.join()) {
    throw new Error(`${name} should be of shape ${sizes.join(" × ")} and is of ${found.shape.join(" × ")}.`);
  }
  return found.values instanceof Uint16Array ? halves(found.values) : found.values;
}
