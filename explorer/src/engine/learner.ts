// Training in the page: gradients of the transformer's squared error, and AdamW. The model is attention only, with a
// LayerNorm before every layer, one causal head a layer, and learnt or relative positions; inputs are vectors.
import { type Kernel, packedSize, padded, type Training } from "./kernel.ts";
import { shapesOf, sizeOf } from "./parameters.ts";
import { type Kept, type Room, roomFor, rowsOf } from "./room.ts";
import type { Batch, Shape, Weights } from "./types.ts";

/** The settings of AdamW. */
export interface Recipe {
  rate: number;
  decay: number;
  beta1: number;
  beta2: number;
}

export const RECIPE: Recipe = { rate: 1e-3, decay: 0.1, beta1: 0.9, beta2: 0.999 };

export class Learner {
  /** Updates so far. */
  step = 0;
  readonly #run: Training;
  readonly #places = new Map<string, number>();
  readonly #begin: number;
  readonly #size: number;
  /** Of every parameter: its value, gradient and moments stand equally far from these. */
  readonly #values: number;
  readonly #gradients: number;
  readonly #moments: number;
  readonly #squares: number;
  readonly #packed: number;
  readonly #nothing: number;
  readonly #bias: number;
  #room: Room | null = null;

  /** Throws an Error, one sentence, where there is no WebAssembly. */
  constructor(
    readonly shape: Shape,
    weights: Weights,
    readonly kernel: Kernel,
    readonly recipe: Recipe = RECIPE,
  ) {
    if (!kernel.training) throw new Error("Training needs WebAssembly with SIMD, which this browser does not offer.");
    this.#run = kernel.training;
    let size = 0;
    for (const [name, sizes] of shapesOf(shape)) {
      this.#places.set(name, size);
      size += padded(sizeOf(sizes));
    }
    this.#size = size;
    const { d_model, d_output, n_positions } = shape;
    const take = (count: number): number => {
      const place = kernel.take(count);
      kernel.floats.fill(0, place, place + padded(count));
      return place;
    };
    this.#values = take(size);
    this.#gradients = take(size);
    this.#moments = take(size);
    this.#squares = take(size);
    this.#packed = take(packedSize(Math.max(d_model, d_output), Math.max(d_model, d_output)));
    this.#nothing = take(Math.max(d_model, n_positions));
    this.#bias = take(2 * n_positions);
    for (const [name, place] of this.#places) {
      const { values } = weights[name]!;
      kernel.floats.set(values as Float32Array, this.#values + place);
    }
    this.#begin = kernel.take(0);
  }

  /** One update on a batch; the squared error of each of `hops` equal parts of the outputs before it. */
  update(batch: Batch, hops: number): number[] {
    const losses = this.gradients(batch, hops);
    const { rate, decay, beta1, beta2 } = this.recipe;
    const step = ++this.step;
    const rest = [rate, decay, beta1, beta2, 1 - beta1 ** step, 1 - beta2 ** step];
    this.#run.adamw(this.#values, this.#gradients, this.#moments, this.#squares, this.#size, ...rest);
    return losses;
  }

  /** The gradients of the mean squared error of a batch, which then stand in `gradient`; returns the hops' losses. */
  gradients(batch: Batch, hops: number): number[] {
    const room = this.#roomFor(batch);
    const { floats } = this.kernel;
    floats.fill(0, this.#gradients, this.#gradients + this.#size);
    floats.set(batch.inputs as Float32Array, room.inputs);
    this.#forward(batch, room);
    const losses = this.#errors(batch, room, hops);
    this.#back(batch, room);
    return losses;
  }

  /** The weights as they are now. */
  weights(): Weights {
    return this.#read(this.#values);
  }

  /** The gradients that were computed last. */
  gradient(): Weights {
    return this.#read(this.#gradients);
  }

  // Forward --------------------------------------------------------------------------------------------------------

  #forward(batch: Batch, room: Room): void {
    const { kernel } = this;
    const { d_model, d_input, d_output, n_layers, positions } = this.shape;
    const [all, few] = rowsOf(batch);
    const first = room.kept[0]!.stream;
    this.#multiply(room.inputs, "W_E", "b_E", first, all, d_input, d_model);
    if (positions.name === "learned") this.#addPositions(first, batch);
    room.kept.forEach((kept, layer) => {
      const { stream } = room.kept[layer + 1] ?? { stream: room.last };
      const asking = layer === n_layers - 1 ? few : all;
      this.#attend(layer, kept, batch, asking);
      if (asking === all) kernel.floats.copyWithin(stream, kept.stream, kept.stream + all * d_model);
      else this.#gather(kept.stream, stream, batch);
      this.#multiply(kept.z, `blocks.${layer}.attn.W_O`, `blocks.${layer}.attn.b_O`, stream, asking, d_model, d_model, {
        add: true,
      });
    });
    this.#normalise(room.last, room.lastX, "ln_final", room.lastStats, few);
    this.#multiply(room.lastX, "W_U", "b_U", room.out, few, d_model, d_output);
  }

  #attend(layer: number, kept: Kept, batch: Batch, asking: number): void {
    const { d_model } = this.shape;
    const [all] = rowsOf(batch);
    const name = `blocks.${layer}`;
    this.#normalise(kept.stream, kept.x, `${name}.ln1`, kept.stats, all);
    if (asking < all) this.#gather(kept.x, kept.asking, batch);
    const qkv = [`${name}.attn.W_QKV`, `${name}.attn.b_QKV`] as const;
    this.#multiply(kept.asking, ...qkv, kept.q, asking, d_model, d_model, { part: 0 });
    this.#multiply(kept.x, ...qkv, kept.k, all, d_model, d_model, { part: 1 });
    this.#multiply(kept.x, ...qkv, kept.v, all, d_model, d_model, { part: 2 });
    const first = asking < all ? batch.queries.start : 0;
    const { q, k, v, p, z } = kept;
    this.#run.attend(q, k, v, this.#biasOf(name), p, z, batch.n, batch.n_positions, first, d_model);
  }

  /** What positions add to a layer's scores, by distance. */
  #biasOf(layer: string): number {
    const { positions, n_positions } = this.shape;
    const { floats } = this.kernel;
    if (positions.name !== "relative") return this.#nothing;
    const beta = this.#at(`${layer}.attn.positions.beta`);
    for (let i = 0; i < n_positions; i++) floats[this.#bias + i] = positions.scale * floats[beta + i]!;
    return this.#bias;
  }

  #addPositions(stream: number, { n, n_positions }: Batch): void {
    const { floats } = this.kernel;
    const size = n_positions * this.shape.d_model;
    const table = this.#at("W_pos");
    for (let i = 0; i < n; i++) for (let j = 0; j < size; j++) floats[stream + i * size + j]! += floats[table + j]!;
  }

  /** The hops' losses; the gradient of their mean stands where outputs' gradients do. */
  #errors(batch: Batch, room: Room, hops: number): number[] {
    const { floats } = this.kernel;
    const { d_output } = this.shape;
    const losses = new Array<number>(hops).fill(0);
    const count = rowsOf(batch)[1] * d_output;
    for (let i = 0; i < count; i++) {
      const error = floats[room.out + i]! - batch.targets[i]!;
      losses[Math.floor(((i % d_output) * hops) / d_output)]! += (error * error * hops) / count;
      floats[room.dout + i] = (2 * error) / count;
    }
    return losses;
  }

  // Back -----------------------------------------------------------------------------------------------------------

  #back(batch: Batch, room: Room): void {
    const { floats } = this.kernel;
    const { d_model, d_input, d_output, positions } = this.shape;
    const [all, few] = rowsOf(batch);
    this.#credit(room.lastX, room.dout, "W_U", "b_U", few, d_model, d_output);
    this.#multiplyBack(room.dout, "W_U", room.dx, few, d_model, d_output);
    floats.fill(0, room.dlast, room.dlast + few * d_model);
    this.#normaliseBack(room.last, room.dx, "ln_final", room.lastStats, room.dlast, few);
    floats.fill(0, room.dstream, room.dstream + all * d_model);
    this.#scatter(room.dlast, room.dstream, batch);
    for (let layer = room.kept.length - 1; layer >= 0; layer--) {
      const last = layer === room.kept.length - 1 && few < all;
      this.#attendBack(layer, room.kept[layer]!, batch, room, last);
    }
    this.#credit(room.inputs, room.dstream, "W_E", "b_E", all, d_input, d_model);
    if (positions.name === "learned") {
      this.#run.columns(room.dstream, this.#grad("W_pos"), batch.n, batch.n_positions * d_model);
    }
  }

  #attendBack(layer: number, kept: Kept, batch: Batch, room: Room, last: boolean): void {
    const { d_model, n_positions, positions } = this.shape;
    const { floats } = this.kernel;
    const name = `blocks.${layer}.attn`;
    const [all, few] = rowsOf(batch);
    const [asking, dy] = last ? [few, room.dlast] : [all, room.dstream];
    this.#credit(kept.z, dy, `${name}.W_O`, `${name}.b_O`, asking, d_model, d_model);
    this.#multiplyBack(dy, `${name}.W_O`, room.dz, asking, d_model, d_model);
    const { q, k, v, p } = kept;
    const { dz, ds, dq, dk, dv } = room;
    const dbias = this.#bias + n_positions;
    floats.fill(0, dbias, dbias + n_positions);
    const first = last ? batch.queries.start : 0;
    this.#run.attendBack(q, k, v, p, dz, ds, dbias, dq, dk, dv, batch.n, batch.n_positions, first, d_model);
    if (positions.name === "relative") {
      const beta = this.#grad(`${name}.positions.beta`);
      for (let i = 0; i < n_positions; i++) floats[beta + i] = positions.scale * floats[dbias + i]!;
    }
    const qkv = [`${name}.W_QKV`, `${name}.b_QKV`] as const;
    this.#credit(kept.asking, dq, ...qkv, asking, d_model, d_model, 0);
    this.#credit(kept.x, dk, ...qkv, all, d_model, d_model, 1);
    this.#credit(kept.x, dv, ...qkv, all, d_model, d_model, 2);
    this.#multiplyBack(dk, qkv[0], room.dx, all, d_model, d_model, { part: 1 });
    this.#multiplyBack(dv, qkv[0], room.dx, all, d_model, d_model, { part: 2, add: true });
    this.#multiplyBack(dq, qkv[0], last ? room.dz : room.dx, asking, d_model, d_model, { part: 0, add: !last });
    if (last) this.#scatter(room.dz, room.dx, batch);
    this.#normaliseBack(kept.stream, room.dx, `blocks.${layer}.ln1`, kept.stats, room.dstream, all);
  }

  // Parts ----------------------------------------------------------------------------------------------------------

  /** y = x W + b, or with `add` y + x W + b; `part`: which of the matrices that stand one behind the other. */
  #multiply(
    x: number,
    weight: string,
    bias: string,
    y: number,
    rows: number,
    n: number,
    m: number,
    { part = 0, add = false } = {},
  ): void {
    this.#run.pack(this.#at(weight) + part * n * m, this.#packed, n, m, m, 1);
    this.kernel.product(x, this.#packed, this.#at(bias) + part * m, y, rows, n, m, add);
  }

  /** dx = dy Wᵀ, or dx + dy Wᵀ. */
  #multiplyBack(
    dy: number,
    weight: string,
    dx: number,
    rows: number,
    n: number,
    m: number,
    { part = 0, add = false } = {},
  ): void {
    this.#run.pack(this.#at(weight) + part * n * m, this.#packed, m, n, 1, m);
    this.kernel.product(dy, this.#packed, this.#nothing, dx, rows, m, n, add);
  }

  /** The gradients of a matrix and its biases. */
  #credit(x: number, dy: number, weight: string, bias: string, rows: number, n: number, m: number, part = 0): void {
    this.#run.gradient(x, dy, this.#grad(weight) + part * n * m, rows, n, m);
    this.#run.columns(dy, this.#grad(bias) + part * m, rows, m);
  }

  #normalise(x: number, to: number, name: string, stats: number, rows: number): void {
    this.#run.normalise(x, to, this.#at(`${name}.w`), this.#at(`${name}.b`), stats, rows, this.shape.d_model);
  }

  #normaliseBack(x: number, dy: number, name: string, stats: number, dx: number, rows: number): void {
    const [w, gw, gb] = [this.#at(`${name}.w`), this.#grad(`${name}.w`), this.#grad(`${name}.b`)];
    this.#run.normaliseBack(x, dy, w, stats, gw, gb, dx, rows, this.shape.d_model);
  }

  /** The rows that answer, one behind the other. */
  #gather(from: number, to: number, batch: Batch): void {
    for (const [one, all, size] of this.#answering(batch)) {
      this.kernel.floats.copyWithin(to + one, from + all, from + all + size);
    }
  }

  /** Adds them to where they came from. */
  #scatter(from: number, to: number, batch: Batch): void {
    const { floats } = this.kernel;
    for (const [one, all, size] of this.#answering(batch)) {
      for (let i = 0; i < size; i++) floats[to + all + i]! += floats[from + one + i]!;
    }
  }

  *#answering({ n, n_positions, queries }: Batch): Generator<[number, number, number]> {
    const { d_model } = this.shape;
    const size = (queries.end - queries.start) * d_model;
    for (let i = 0; i < n; i++) yield [i * size, (i * n_positions + queries.start) * d_model, size];
  }

  // Memory ---------------------------------------------------------------------------------------------------------

  #at(name: string): number {
    return this.#values + this.#places.get(name)!;
  }

  #grad(name: string): number {
    return this.#gradients + this.#places.get(name)!;
  }

  #read(from: number): Weights {
    const found: Weights = Object.create(null);
    for (const [name, sizes] of shapesOf(this.shape)) {
      const place = from + this.#places.get(name)!;
      Object.assign(found, {
        [name]: { shape: sizes, values: this.kernel.floats.slice(place, place + sizeOf(sizes)) },
      });
    }
    return found;
  }

  #roomFor(batch: Batch): Room {
    if (this.#room?.n === batch.n && this.#room.width === batch.n_positions) return this.#room;
    this.kernel.release(this.#begin);
    this.#room = roomFor(this.shape, batch, this.kernel);
    return this.#room;
  }
}
