// What training needs beside the forward pass, in AssemblyScript: gradients of weights, LayerNorm, attention and AdamW.
// Unlike in `kernel.ts` places are indices of floats. Widths, strides and lengths are multiples of four.
import { exp, mix, scores } from "./kernel";

const FOUR: usize = 16;
const ROWS: i32 = 32; // of a chunk that stays in the nearest cache while every block of a gradient reads it

// @ts-ignore: AssemblyScript's decorators
@inline
function at(place: i32): usize {
  return (place as usize) << 2;
}

// @ts-ignore
@inline
function sum(four: v128): f32 {
  const low = f32x4.extract_lane(four, 0) + f32x4.extract_lane(four, 1);
  return low + f32x4.extract_lane(four, 2) + f32x4.extract_lane(four, 3);
}

// A (k, n) matrix in panels of eight columns; strides make it one that is stored as it is, or transposed.
export function pack(from: i32, to: i32, k: i32, n: i32, strideK: i32, strideN: i32): void {
  let place = at(to);
  for (let first = 0; first < n; first += 8) {
    for (let i = 0; i < k; i++) {
      for (let j = first; j < first + 8; j++) {
        f32.store(place, j < n ? f32.load(at(from + i * strideK + j * strideN)) : 0);
        place += 4;
      }
    }
  }
}

// g += xᵀ dy: x is (rows, n), dy (rows, m), and g (n, m), of weights by which x was multiplied.
export function gradient(x: i32, dy: i32, g: i32, rows: i32, n: i32, m: i32): void {
  for (let row = 0; row < rows; row += ROWS) {
    const some = min(ROWS, rows - row);
    for (let i = 0; i < n; i += 4) {
      let j = 0;
      for (; j + 8 <= m; j += 8) eight(at(x + row * n + i), at(dy + row * m + j), at(g + i * m + j), some, at(n), at(m));
      if (j < m) four(at(x + row * n + i), at(dy + row * m + j), at(g + i * m + j), some, at(n), at(m));
    }
  }
}

// Four rows of g, eight columns.
// @ts-ignore
@inline
function eight(x: usize, dy: usize, g: usize, rows: i32, strideX: usize, stride: usize): void {
  const g1 = g + stride, g2 = g1 + stride, g3 = g2 + stride;
  let s00 = v128.load(g), s01 = v128.load(g, FOUR), s10 = v128.load(g1), s11 = v128.load(g1, FOUR);
  let s20 = v128.load(g2), s21 = v128.load(g2, FOUR), s30 = v128.load(g3), s31 = v128.load(g3, FOUR);
  for (let row = 0; row < rows; row++) {
    const d0 = v128.load(dy), d1 = v128.load(dy, FOUR);
    let given = v128.load_splat<f32>(x);
    s00 = f32x4.add(s00, f32x4.mul(given, d0));
    s01 = f32x4.add(s01, f32x4.mul(given, d1));
    given = v128.load_splat<f32>(x, 4);
    s10 = f32x4.add(s10, f32x4.mul(given, d0));
    s11 = f32x4.add(s11, f32x4.mul(given, d1));
    given = v128.load_splat<f32>(x, 8);
    s20 = f32x4.add(s20, f32x4.mul(given, d0));
    s21 = f32x4.add(s21, f32x4.mul(given, d1));
    given = v128.load_splat<f32>(x, 12);
    s30 = f32x4.add(s30, f32x4.mul(given, d0));
    s31 = f32x4.add(s31, f32x4.mul(given, d1));
    x += strideX;
    dy += stride;
  }
  v128.store(g, s00);
  v128.store(g, s01, FOUR);
  v128.store(g1, s10);
  v128.store(g1, s11, FOUR);
  v128.store(g2, s20);
  v128.store(g2, s21, FOUR);
  v128.store(g3, s30);
  v128.store(g3, s31, FOUR);
}

// Four rows of g, four columns.
function four(x: usize, dy: usize, g: usize, rows: i32, strideX: usize, stride: usize): void {
  for (let i: usize = 0; i < FOUR; i += 4) {
    let s = v128.load(g);
    for (let row: usize = 0; row < (rows as usize); row++) {
      s = f32x4.add(s, f32x4.mul(v128.load_splat<f32>(x + i + row * strideX), v128.load(dy + row * stride)));
    }
    v128.store(g, s);
    g += stride;
  }
}

// g += the sum of the rows of dy, of biases.
export function columns(dy: i32, g: i32, rows: i32, n: i32): void {
  for (let i = 0; i < n; i += 4) {
    let s = v128.load(at(g + i));
    for (let row = 0; row < rows; row++) s = f32x4.add(s, v128.load(at(dy + row * n + i)));
    v128.store(at(g + i), s);
  }
}

// LayerNorm: (x − mean) inv w + b; each row's mean and inv = 1/√(variance + 1e-5) are kept in `stats`.
export function normalise(x: i32, to: i32, w: i32, b: i32, stats: i32, rows: i32, n: i32): void {
  for (let row = 0; row < rows; row++, x += n, to += n, stats += 2) {
    let s = f32x4.splat(0);
    for (let i = 0; i < n; i += 4) s = f32x4.add(s, v128.load(at(x + i)));
    const mean = sum(s) / (n as f32);
    s = f32x4.splat(0);
    for (let i = 0; i < n; i += 4) {
      const off = f32x4.sub(v128.load(at(x + i)), f32x4.splat(mean));
      s = f32x4.add(s, f32x4.mul(off, off));
    }
    const inv: f32 = 1 / sqrt<f32>(sum(s) / (n as f32) + 1e-5);
    f32.store(at(stats), mean);
    f32.store(at(stats + 1), inv);
    for (let i = 0; i < n; i += 4) {
      const unit = f32x4.mul(f32x4.sub(v128.load(at(x + i)), f32x4.splat(mean)), f32x4.splat(inv));
      v128.store(at(to + i), f32x4.add(f32x4.mul(unit, v128.load(at(w + i))), v128.load(at(b + i))));
    }
  }
}

// LayerNorm back: dx += inv (d − mean d − u mean(d u)) with u what was normalised and d = dy w; gw += dy u, gb += dy.
export function normaliseBack(
  x: i32, dy: i32, w: i32, stats: i32, gw: i32, gb: i32, dx: i32, rows: i32, n: i32,
): void {
  for (let row = 0; row < rows; row++, x += n, dy += n, dx += n, stats += 2) {
    const mean = v128.load_splat<f32>(at(stats));
    const inv = v128.load_splat<f32>(at(stats + 1));
    let sums = f32x4.splat(0), products = sums;
    for (let i = 0; i < n; i += 4) {
      const given = v128.load(at(dy + i));
      const unit = f32x4.mul(f32x4.sub(v128.load(at(x + i)), mean), inv);
      const d = f32x4.mul(given, v128.load(at(w + i)));
      v128.store(at(gw + i), f32x4.add(v128.load(at(gw + i)), f32x4.mul(given, unit)));
      v128.store(at(gb + i), f32x4.add(v128.load(at(gb + i)), given));
      sums = f32x4.add(sums, d);
      products = f32x4.add(products, f32x4.mul(d, unit));
    }
    const average = f32x4.splat(sum(sums) / (n as f32));
    const along = f32x4.splat(sum(products) / (n as f32));
    for (let i = 0; i < n; i += 4) {
      const unit = f32x4.mul(f32x4.sub(v128.load(at(x + i)), mean), inv);
      const d = f32x4.mul(v128.load(at(dy + i)), v128.load(at(w + i)));
      const back = f32x4.mul(inv, f32x4.sub(f32x4.sub(d, average), f32x4.mul(unit, along)));
      v128.store(at(dx + i), f32x4.add(v128.load(at(dx + i)), back));
    }
  }
}

// Causal attention of one head over `count` sequences of n positions: from position `first` on, patterns p and what
// they mix, z. `bias` is added to scores, by distance. Queries, p and z have n − first rows a sequence, k and v have n.
export function attend(
  q: i32, k: i32, v: i32, bias: i32, p: i32, z: i32, count: i32, n: i32, first: i32, width: i32,
): void {
  const scale: f32 = 1 / sqrt<f32>(width as f32);
  for (let each = 0; each < count; each++, k += n * width, v += n * width) {
    for (let row = first; row < n; row++, q += width, z += width, p += n) {
      scores(at(q), at(k), at(width), at(p), row + 1, width, scale);
      weigh(p, bias, row, n);
      mix(at(p), at(v), at(width), at(z), row + 1, width);
    }
  }
}

// A row of scores becomes one of a pattern: softmax with bias over what is seen, 0 elsewhere.
function weigh(p: i32, bias: i32, row: i32, n: i32): void {
  let top: f32 = -Infinity;
  for (let key = 0; key <= row; key++) {
    const score = f32.load(at(p + key)) + f32.load(at(bias + row - key));
    f32.store(at(p + key), score);
    top = max(top, score);
  }
  for (let key = 0; key <= row; key += 4) {
    v128.store(at(p + key), exp(f32x4.sub(v128.load(at(p + key)), f32x4.splat(top))));
  }
  memory.fill(at(p + row + 1), 0, at(n - row - 1));
  let s = f32x4.splat(0);
  for (let key = 0; key < n; key += 4) s = f32x4.add(s, v128.load(at(p + key)));
  const share = f32x4.splat(1 / sum(s));
  for (let key = 0; key < n; key += 4) v128.store(at(p + key), f32x4.mul(v128.load(at(p + key)), share));
}

// Attention back, from dz to dq, dk, dv; `dbias` += what comes to each distance; ds has room for p's gradient.
export function attendBack(
  q: i32, k: i32, v: i32, p: i32, dz: i32, ds: i32, dbias: i32, dq: i32, dk: i32, dv: i32,
  count: i32, n: i32, first: i32, width: i32,
): void {
  const scale: f32 = 1 / sqrt<f32>(width as f32);
  const rows = n - first;
  memory.fill(at(dk), 0, at(count * n * width));
  memory.fill(at(dv), 0, at(count * n * width));
  for (let each = 0; each < count; each++) {
    for (let row = first; row < n; row++) {
      const i = row - first;
      const here = ds + i * n;
      scores(at(dz + i * width), at(v), at(width), at(here), row + 1, width, 1);
      weighBack(p + i * n, here, dbias, row, n, scale);
      mix(at(here), at(k), at(width), at(dq + i * width), row + 1, width);
    }
    gradient(p, dz, dv, rows, n, width);
    gradient(ds, q, dk, rows, n, width);
    q += rows * width, dq += rows * width, dz += rows * width, p += rows * n, ds += rows * n;
    k += n * width, v += n * width, dk += n * width, dv += n * width;
  }
}

// Softmax back, in place: p (d − p·d), which goes to biases, and times `scale` to queries and keys.
function weighBack(p: i32, d: i32, dbias: i32, row: i32, n: i32, scale: f32): void {
  let along: f32 = 0;
  for (let key = 0; key <= row; key++) along += f32.load(at(p + key)) * f32.load(at(d + key));
  for (let key = 0; key <= row; key++) {
    const back = f32.load(at(p + key)) * (f32.load(at(d + key)) - along);
    f32.store(at(dbias + row - key), f32.load(at(dbias + row - key)) + back);
    f32.store(at(d + key), back * scale);
  }
  memory.fill(at(d + row + 1), 0, at(n - row - 1));
}

// AdamW (Loshchilov & Hutter, 2019) as PyTorch has it: `c1`, `c2` are 1 − βᵗ.
export function adamw(
  p: i32, g: i32, m: i32, s: i32, count: i32, rate: f32, decay: f32, beta1: f32, beta2: f32, c1: f32, c2: f32,
): void {
  const kept = f32x4.splat(1 - rate * decay);
  const step = f32x4.splat(rate / c1);
  const root = f32x4.splat(1 / sqrt<f32>(c2));
  for (let i = 0; i < count; i += 4) {
    const given = v128.load(at(g + i));
    const own = f32x4.mul(f32x4.splat(1 - beta1), given);
    const first = f32x4.add(f32x4.mul(f32x4.splat(beta1), v128.load(at(m + i))), own);
    const square = f32x4.mul(f32x4.splat(1 - beta2), f32x4.mul(given, given));
    const second = f32x4.add(f32x4.mul(f32x4.splat(beta2), v128.load(at(s + i))), square);
    v128.store(at(m + i), first);
    v128.store(at(s + i), second);
    const size = f32x4.add(f32x4.mul(f32x4.sqrt(second), root), f32x4.splat(1e-8));
    const moved = f32x4.mul(step, f32x4.div(first, size));
    v128.store(at(p + i), f32x4.sub(f32x4.mul(kept, v128.load(at(p + i))), moved));
  }
}
