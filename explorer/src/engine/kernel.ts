// The engine's inner loops over one block of memory, in WebAssembly where there is SIMD and in plain TypeScript elsewhere.
// Places are indices of floats into `floats`; matrices are row-major. `kernel/kernel.ts` is the WebAssembly's source.
import bytes from "kernel:";

/** Columns of a panel: weights are packed in panels, so that a product reads them in order. */
export const PANEL = 8;
/** Floats in a page of WebAssembly's memory. */
const PAGE = 65536 / 4;

export interface Kernel {
  readonly simd: boolean;
  /** What training needs (`kernel/training.ts`), of the very same memory and by the same places; null without SIMD. */
  readonly training: Training | null;
  /** All memory. Another array after every `take`, so it must not be kept. */
  readonly floats: Float32Array;
  /** Room for so many floats, at a place divisible by eight. */
  take(count: number): number;
  /** Gives back all room from a place on. */
  release(place: number): void;
  /** c = a b + bias, or with `add` c + a b + bias: a (rows, k); b packed (k, n); bias n, padded to panels; c (rows, n). */
  product(a: number, b: number, bias: number, c: number, rows: number, k: number, n: number, add: boolean): void;
  /** GELU in its tanh form, in place. */
  gelu(x: number, count: number): void;
  /** out[i] = scale · (q · k_i) for keys that stand `stride` floats apart. */
  scores(q: number, k: number, stride: number, out: number, keys: number, width: number, scale: number): void;
  /** z = Σ pattern[i] v_i for values that stand `stride` floats apart. */
  mix(pattern: number, v: number, stride: number, z: number, keys: number, width: number): void;
}

/** The functions of `kernel/training.ts`, which says what they take. */
export type Training = Record<
  "adamw" | "attend" | "attendBack" | "columns" | "gradient" | "normalise" | "normaliseBack" | "pack",
  (...given: number[]) => void
>;

/** The number of floats that a packed (k, n) matrix takes. */
export function packedSize(k: number, n: number): number {
  return k * padded(n);
}

/** n, rounded up to whole panels. */
export function padded(n: number): number {
  return Math.ceil(n / PANEL) * PANEL;
}

let compiled: WebAssembly.Module | null | undefined;

/** The kernel of a block of memory of its own; plain TypeScript on request, or where there is no SIMD. */
export function kernel(plain = false): Kernel {
  return !plain && module() ? new Simd() : new Plain();
}

/** The compiled module; null where it cannot be. */
function module(): WebAssembly.Module | null {
  if (compiled === undefined) {
    try {
      compiled = WebAssembly.validate(bytes) ? new WebAssembly.Module(bytes) : null;
    } catch {
      compiled = null; // a policy that forbids WebAssembly
    }
  }
  return compiled;
}

type Exports = Record<"product" | "gelu" | "scores" | "mix", (...given: number[]) => void>;

class Simd implements Kernel {
  readonly simd = true;
  readonly training: Training;
  floats: Float32Array;
  #used = 0;
  readonly #memory = new WebAssembly.Memory({ initial: 16 });
  readonly #run: Exports;

  constructor() {
    const instance = new WebAssembly.Instance(module()!, { env: { memory: this.#memory } });
    this.#run = instance.exports as unknown as Exports;
    this.training = instance.exports as unknown as Training;
    this.floats = new Float32Array(this.#memory.buffer);
  }

  take(count: number): number {
    const place = this.#used;
    this.#used += padded(count);
    const lacking = this.#used - this.floats.length;
    if (lacking > 0) {
      this.#memory.grow(Math.ceil(lacking / PAGE));
      this.floats = new Float32Array(this.#memory.buffer);
    }
    return place;
  }

  release(place: number): void {
    this.#used = place;
  }

  product(a: number, b: number, bias: number, c: number, rows: number, k: number, n: number, add: boolean): void {
    this.#run.product(4 * a, 4 * b, 4 * bias, 4 * c, rows, k, n, add ? 1 : 0);
  }

  gelu(x: number, count: number): void {
    this.#run.gelu(4 * x, count);
  }

  scores(q: number, k: number, stride: number, out: number, keys: number, width: number, scale: number): void {
    this.#run.scores(4 * q, 4 * k, 4 * stride, 4 * out, keys, width, scale);
  }

  mix(pattern: number, v: number, stride: number, z: number, keys: number, width: number): void {
    this.#run.mix(4 * pattern, 4 * v, 4 * stride, 4 * z, keys, width);
  }
}

class Plain implements Kernel {
  readonly simd = false;
  readonly training = null;
  floats = new Float32Array(16 * PAGE);
  #used = 0;
  readonly #sums = new Float64Array(PANEL);

  take(count: number): number {
    const place = this.#used;
    this.#used += padded(count);
    if (this.#used > this.floats.length) {
      const larger = new Float32Array(Math.max(this.#used, 2 * this.floats.length));
      larger.set(this.floats);
      this.floats = larger;
    }
    return place;
  }

  release(place: number): void {
    this.#used = place;
  }

  product(a: number, b: number, bias: number, c: number, rows: number, k: number, n: number, add: boolean): void {
    for (let first = 0; first < n; first += PANEL) {
      const width = Math.min(PANEL, n - first);
      for (let row = 0; row < rows; row++) {
        const sums = this.#eight(a + row * k, b + first * k, bias + first, k);
        const to = c + row * n + first;
        for (let j = 0; j < width; j++) this.floats[to + j] = sums[j]! + (add ? this.floats[to + j]! : 0);
      }
    }
  }

  /** One row of one panel: sums in variables of their own, which the compiler keeps in registers. */
  #eight(a: number, b: number, bias: number, k: number): Float64Array {
    const { floats } = this;
    let [s0, s1, s2, s3, s4, s5, s6, s7] = [0, 0, 0, 0, 0, 0, 0, 0];
    for (let at = b, from = a; from < a + k; from++, at += PANEL) {
      const x = floats[from]!;
      s0 += x * floats[at]!;
      s1 += x * floats[at + 1]!;
      s2 += x * floats[at + 2]!;
      s3 += x * floats[at + 3]!;
      s4 += x * floats[at + 4]!;
      s5 += x * floats[at + 5]!;
      s6 += x * floats[at + 6]!;
      s7 += x * floats[at + 7]!;
    }
    const sums = this.#sums;
    [sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]] = [s0, s1, s2, s3, s4, s5, s6, s7];
    for (let j = 0; j < PANEL; j++) sums[j]! += floats[bias + j]!;
    return sums;
  }

  gelu(x: number, count: number): void {
    const { floats } = this;
    for (let i = x; i < x + count; i++) {
      const at = floats[i]!;
      floats[i] = at / (1 + Math.exp(-1.5957691216057308 * (at + 0.044715 * at ** 3)));
    }
  }

  scores(q: number, k: number, stride: number, out: number, keys: number, width: number, scale: number): void {
    const { floats } = this;
    for (let key = 0; key < keys; key++) {
      let sum = 0;
      for (let i = 0; i < width; i++) sum += floats[q + i]! * floats[k + key * stride + i]!;
      floats[out + key] = sum * scale;
    }
  }

  mix(pattern: number, v: number, stride: number, z: number, keys: number, width: number): void {
    const { floats } = this;
    for (let i = 0; i < width; i++) {
      let sum = 0;
      for (let key = 0; key < keys; key++) sum += floats[pattern + key]! * floats[v + key * stride + i]!;
      floats[z + i] = sum;
    }
  }
}
