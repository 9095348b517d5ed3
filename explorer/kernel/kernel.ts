// The engine's inner loops, in AssemblyScript: matrix products, GELU, and attention's scores and mixtures, four numbers
// at a time. `kernel.mjs` compiles it; `src/engine/kernel.ts` runs it, and holds the same functions in plain TypeScript.
// Addresses are in bytes; matrices are row-major float32. Weights come in panels of eight columns (`packed`). What only
// training needs is in `training.ts`.

export { adamw, attend, attendBack, columns, gradient, normalise, normaliseBack, pack } from "./training";

const FLOAT: usize = 4;
const FOUR: usize = 16;
const PANEL: usize = 32; // eight floats

// c = a b + bias, or c + a b + bias: a is (rows, k), b is k times `panels` panels, c is (rows, n).
export function product(
  a: usize, b: usize, bias: usize, c: usize, rows: i32, k: i32, n: i32, add: i32,
): void {
  const strideA = (k as usize) * FLOAT;
  const strideC = (n as usize) * FLOAT;
  const panels = (n + 7) >> 3;
  for (let panel = 0; panel < panels; panel++) {
    const from = b + (panel as usize) * strideA * 8;
    const width = min(8, n - panel * 8);
    const biasAt = bias + (panel as usize) * PANEL;
    let at = a;
    let to = c + (panel as usize) * PANEL;
    let row = 0;
    for (; row + 4 <= rows; row += 4) {
      four(at, from, biasAt, to, strideA, strideC, width, add);
      at += 4 * strideA;
      to += 4 * strideC;
    }
    for (; row < rows; row++) {
      one(at, from, biasAt, to, strideA, width, add);
      at += strideA;
      to += strideC;
    }
  }
}

// Four rows of one panel.
// @ts-ignore: AssemblyScript's decorators
@inline
function four(
  a: usize, b: usize, bias: usize, c: usize, strideA: usize, strideC: usize, width: i32, add: i32,
): void {
  let s00 = f32x4.splat(0), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  const end = a + strideA;
  const a1 = strideA, a2 = 2 * strideA, a3 = 3 * strideA;
  while (a < end) {
    const b0 = v128.load(b);
    const b1 = v128.load(b, FOUR);
    let x = v128.load_splat<f32>(a);
    s00 = f32x4.add(s00, f32x4.mul(x, b0));
    s01 = f32x4.add(s01, f32x4.mul(x, b1));
    x = v128.load_splat<f32>(a + a1);
    s10 = f32x4.add(s10, f32x4.mul(x, b0));
    s11 = f32x4.add(s11, f32x4.mul(x, b1));
    x = v128.load_splat<f32>(a + a2);
    s20 = f32x4.add(s20, f32x4.mul(x, b0));
    s21 = f32x4.add(s21, f32x4.mul(x, b1));
    x = v128.load_splat<f32>(a + a3);
    s30 = f32x4.add(s30, f32x4.mul(x, b0));
    s31 = f32x4.add(s31, f32x4.mul(x, b1));
    a += FLOAT;
    b += PANEL;
  }
  store(c, s00, s01, bias, width, add);
  store(c + strideC, s10, s11, bias, width, add);
  store(c + 2 * strideC, s20, s21, bias, width, add);
  store(c + 3 * strideC, s30, s31, bias, width, add);
}

// One row of one panel.
function one(a: usize, b: usize, bias: usize, c: usize, strideA: usize, width: i32, add: i32): void {
  let s0 = f32x4.splat(0), s1 = s0;
  const end = a + strideA;
  while (a < end) {
    const x = v128.load_splat<f32>(a);
    s0 = f32x4.add(s0, f32x4.mul(x, v128.load(b)));
    s1 = f32x4.add(s1, f32x4.mul(x, v128.load(b, FOUR)));
    a += FLOAT;
    b += PANEL;
  }
  store(c, s0, s1, bias, width, add);
}

// Eight sums, with bias, into c; the last panel of a row may be narrower. Biases are padded to whole panels.
function store(c: usize, s0: v128, s1: v128, bias: usize, width: i32, add: i32): void {
  s0 = f32x4.add(s0, v128.load(bias));
  s1 = f32x4.add(s1, v128.load(bias, FOUR));
  if (width == 8) {
    if (add) {
      s0 = f32x4.add(s0, v128.load(c));
      s1 = f32x4.add(s1, v128.load(c, FOUR));
    }
    v128.store(c, s0);
    v128.store(c, s1, FOUR);
    return;
  }
  for (let i = 0; i < width; i++) {
    const sum = f32x4.extract_lane(s0, 0);
    f32.store(c, add ? f32.load(c) + sum : sum);
    s0 = v128.shuffle<f32>(s0, s1, 1, 2, 3, 4); // the next of the eight moves to the front
    s1 = v128.shuffle<f32>(s1, s1, 1, 2, 3, 3);
    c += FLOAT;
  }
}

// GELU in its tanh form, in place: x σ(2u) with u = √(2/π) (x + 0.044715 x³). `n` is rounded up to fours.
export function gelu(x: usize, n: i32): void {
  const end = x + (n as usize) * FLOAT;
  const cube = f32x4.splat(0.044715);
  const slope = f32x4.splat(-1.5957691216057308);
  const unit = f32x4.splat(1);
  while (x < end) {
    const at = v128.load(x);
    const inner = f32x4.add(at, f32x4.mul(cube, f32x4.mul(at, f32x4.mul(at, at))));
    v128.store(x, f32x4.div(at, f32x4.add(unit, exp(f32x4.mul(slope, inner)))));
    x += FOUR;
  }
}

// e^x to 2 in 10⁷: 2^i times a polynomial in the rest (Cephes, expf; Moshier, 1989).
// @ts-ignore
@inline
export function exp(given: v128): v128 {
  const x = f32x4.min(f32x4.max(given, f32x4.splat(-87)), f32x4.splat(88));
  const whole = f32x4.nearest(f32x4.mul(x, f32x4.splat(1.44269504088896341)));
  let rest = f32x4.sub(x, f32x4.mul(whole, f32x4.splat(0.693359375)));
  rest = f32x4.sub(rest, f32x4.mul(whole, f32x4.splat(-2.12194440e-4)));
  let y = f32x4.splat(1.9875691500e-4);
  y = f32x4.add(f32x4.mul(y, rest), f32x4.splat(1.3981999507e-3));
  y = f32x4.add(f32x4.mul(y, rest), f32x4.splat(8.3334519073e-3));
  y = f32x4.add(f32x4.mul(y, rest), f32x4.splat(4.1665795894e-2));
  y = f32x4.add(f32x4.mul(y, rest), f32x4.splat(1.6666665459e-1));
  y = f32x4.add(f32x4.mul(y, rest), f32x4.splat(5.0000001201e-1));
  y = f32x4.add(f32x4.add(f32x4.mul(y, f32x4.mul(rest, rest)), rest), f32x4.splat(1));
  const power = i32x4.shl(i32x4.add(i32x4.trunc_sat_f32x4_s(whole), i32x4.splat(127)), 23);
  return f32x4.mul(y, power);
}

// out[k] = scale q·k for `keys` keys that stand `stride` bytes apart.
export function scores(q: usize, k: usize, stride: usize, out: usize, keys: i32, width: i32, scale: f32): void {
  const body = ((width as usize) & ~3) * FLOAT;
  for (let key = 0; key < keys; key++) {
    let sums = f32x4.splat(0);
    for (let i: usize = 0; i < body; i += FOUR) {
      sums = f32x4.add(sums, f32x4.mul(v128.load(q + i), v128.load(k + i)));
    }
    let sum = f32x4.extract_lane(sums, 0) + f32x4.extract_lane(sums, 1);
    sum += f32x4.extract_lane(sums, 2) + f32x4.extract_lane(sums, 3);
    for (let i = body; i < (width as usize) * FLOAT; i += FLOAT) sum += f32.load(q + i) * f32.load(k + i);
    f32.store(out, sum * scale);
    out += FLOAT;
    k += stride;
  }
}

// z = Σ pattern[k] v[k] over `keys` values that stand `stride` bytes apart.
export function mix(pattern: usize, v: usize, stride: usize, z: usize, keys: i32, width: i32): void {
  const body = ((width as usize) & ~3) * FLOAT;
  const end = pattern + (keys as usize) * FLOAT;
  for (let i: usize = 0; i < body; i += FOUR) {
    let sums = f32x4.splat(0);
    let from = v + i;
    for (let at = pattern; at < end; at += FLOAT) {
      sums = f32x4.add(sums, f32x4.mul(v128.load_splat<f32>(at), v128.load(from)));
      from += stride;
    }
    v128.store(z + i, sums);
  }
  for (let i = body; i < (width as usize) * FLOAT; i += FLOAT) {
    let sum: f32 = 0;
    let from = v + i;
    for (let at = pattern; at < end; at += FLOAT) {
      sum += f32.load(at) * f32.load(from);
      from += stride;
    }
    f32.store(z + i, sum);
  }
}
