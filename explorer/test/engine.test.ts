// The engine by itself: changes worked out by hand, the worker's manners, and what the page is told. Its agreement with
// PyTorch is tested from Python (tests/explorer/test_engine_parity.py).
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Answer, Ask, Manifest, Run, Source } from "../src/bundle.ts";
import { apply, firstLayer } from "../src/engine/changes.ts";
import { engine, type Port } from "../src/engine/client.ts";
import { Ground } from "../src/engine/ground.ts";
import { kernel } from "../src/engine/kernel.ts";
import { Live } from "../src/engine/live.ts";
import { parsePath, pathName } from "../src/engine/paths.ts";
import { Session } from "../src/engine/session.ts";
import { difference, summary } from "../src/engine/summed.ts";
import type { Batch, Change, Scores, Shape, Weights } from "../src/engine/types.ts";
import { type Side, serve } from "../src/worker.ts";

const near = (one: ArrayLike<number>, other: ArrayLike<number>): void => {
  assert.equal(one.length, other.length);
  for (let i = 0; i < one.length; i++)
    assert.ok(Math.abs(one[i]! - other[i]!) < 1e-6, `${i}: ${one[i]}, not ${other[i]}`);
};

// Three positions: key, value, query of one chain. One head, causal.
const BATCH: Batch = {
  n: 2,
  n_positions: 3,
  inputs: Int32Array.from([0, 1, 2, 1, 0, 2]),
  queries: { start: 2, end: 3 },
  targets: Int32Array.from([1, 0]),
  roles: {
    names: ["query", "key[1]", "value[1]"],
    // sequence role position
    chain: Int16Array.from(
      [
        [-1, -1, 0],
        [0, -1, -1],
        [-1, 0, -1],
        [-1, -1, 0],
        [-1, 1, -1],
        [-1, -2, -1],
      ].flat(),
    ),
  },
  ideal_over: "even",
};
const BEFORE = [1, 0, 0, 0.25, 0.75, 0, 0.2, 0.3, 0.5];

function changed(change: Change, sequence = 0): number[] {
  const floats = Float32Array.from(BEFORE);
  const setting = { ground: new Ground(BATCH, true), normalised: true };
  const patterns = { layer: 0, floats, place: 0, n_heads: 1, first: sequence, count: 1, rows: { start: 0, end: 3 } };
  apply([change], patterns, setting);
  return Array.from(floats);
}

const path = (name: string) => parsePath(name)!;
const OWN = path("L0H0 query->key[1]");

test("a silenced path's attention falls evenly on the rest of its row", () => {
  near(changed({ kind: "silenced", units: [OWN], null: "uniform" }), [1, 0, 0, 0.25, 0.75, 0, 0, 0.4, 0.6]);
});

test("with the identity as null it falls on oneself", () => {
  near(changed({ kind: "silenced", units: [OWN], null: "identity" }), [1, 0, 0, 0.25, 0.75, 0, 0, 0.3, 0.7]);
});

test("a silenced row is null", () => {
  const row = { layer: 0, head: 0, query: "query" };
  near(changed({ kind: "silenced", units: [row], null: "uniform" }), [1, 0, 0, 0.25, 0.75, 0, 1 / 3, 1 / 3, 1 / 3]);
});

test("a path that is off leaves its row to the rest, in proportion", () => {
  near(changed({ kind: "off", paths: [OWN], null: "uniform" }), [1, 0, 0, 0.25, 0.75, 0, 0, 0.375, 0.625]);
});

test("a path held ideal has its row to itself, and rows without a target stay", () => {
  near(changed({ kind: "held ideal", paths: [OWN] }), [1, 0, 0, 0.25, 0.75, 0, 1, 0, 0]);
  near(changed({ kind: "held ideal", paths: [OWN] }, 1), BEFORE); // the second sequence's key is of another chain
});

test("by hand all else is null, and paths share a row by their weights", () => {
  const paths = [
    { path: OWN, weight: 3 },
    { path: path("L0H0 query->value[1]"), weight: 1 },
  ];
  near(changed({ kind: "by hand", paths, null: "identity" }), [1, 0, 0, 0, 1, 0, 0.75, 0.25, 0]);
});

test("what is kept stays, and its row's rest falls where a null pattern has it", () => {
  near(changed({ kind: "kept", units: [OWN], null: "uniform" }), [1, 0, 0, 0.5, 0.5, 0, 0.2, 0.4, 0.4]);
});

test("a path between chains is one between any two that are not of the same", () => {
  const other = path("L0H0 query->key[1] (other)");
  near(changed({ kind: "held ideal", paths: [other] }), BEFORE);
  near(changed({ kind: "held ideal", paths: [other] }, 1), [1, 0, 0, 0.25, 0.75, 0, 0, 1, 0]);
  const none = path("L0H0 query->value[1] (other)"); // a value of no chain
  near(changed({ kind: "held ideal", paths: [none] }, 1), [1, 0, 0, 0.25, 0.75, 0, 0, 1, 0]);
});

test("a role that is not there is told", () => {
  assert.throws(() => changed({ kind: "held ideal", paths: [path("L0H0 query->nobody")] }), /no role nobody/);
});

test("changes begin where their first path is", () => {
  const deep = path("L2H0 query->key[1]");
  assert.equal(firstLayer([{ kind: "silenced", units: [deep], null: "uniform" }]), 2);
  assert.equal(firstLayer([{ kind: "by hand", paths: [{ path: deep, weight: 1 }], null: "uniform" }]), 0);
  assert.equal(firstLayer([]), Number.POSITIVE_INFINITY);
});

test("a path's name is read back", () => {
  for (const name of ["L0H0 query->key[1]", "L11H7 value[2]->key[3,2] (other)"])
    assert.equal(pathName(path(name)), name);
  for (const name of ["", "L0 query->key[1]", "L0H0 query", "L0H0 a->b (same)"]) assert.equal(parsePath(name), null);
});

// Kernel ------------------------------------------------------------------------------------------------------------

for (const plain of [false, true]) {
  test(`a product is that of the sums, ${plain ? "plain" : "with SIMD"}, whatever its size`, () => {
    for (const [rows, k, n] of [
      [1, 1, 1],
      [4, 8, 8],
      [5, 3, 13],
      [9, 17, 31],
    ] as const) {
      const own = kernel(plain);
      const [a, b, bias, c] = [own.take(rows * k), own.take(k * 32), own.take(32), own.take(rows * n)];
      const wanted = new Float64Array(rows * n);
      const at = (i: number): number => Math.sin(i * 1.7);
      for (let i = 0; i < rows * k; i++) own.floats[a + i] = at(i);
      for (let j = 0; j < n; j++) own.floats[bias + j] = at(j + 100);
      for (let i = 0; i < k; i++)
        for (let j = 0; j < n; j++) own.floats[b + ((j >> 3) * k + i) * 8 + (j & 7)] = at(i * n + j);
      for (let row = 0; row < rows; row++) {
        for (let j = 0; j < n; j++) {
          wanted[row * n + j] = own.floats[bias + j]!;
          for (let i = 0; i < k; i++) wanted[row * n + j]! += at(row * k + i) * at(i * n + j);
        }
      }
      own.product(a, b, bias, c, rows, k, n, false);
      near(own.floats.subarray(c, c + rows * n), wanted);
      own.product(a, b, bias, c, rows, k, n, true);
      near(
        own.floats.subarray(c, c + rows * n).map((x) => x / 2),
        wanted,
      );
    }
  });

  test(`GELU is its tanh form, ${plain ? "plain" : "with SIMD"}, far out, too`, () => {
    const own = kernel(plain);
    const x = Float32Array.from([-200, -30, -3, -1, -1e-4, 0, 1e-4, 0.5, 1, 3, 30, 200]);
    const place = own.take(x.length);
    own.floats.set(x, place);
    own.gelu(place, x.length);
    const wanted = x.map((v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3))));
    near(own.floats.subarray(place, place + x.length), wanted);
  });
}

test("memory grows, and what was there stays", () => {
  for (const plain of [false, true]) {
    const own = kernel(plain);
    const first = own.take(3);
    own.floats.set([1, 2, 3], first);
    const far = own.take(5_000_000);
    own.floats[far + 4_999_999] = 4;
    near(own.floats.subarray(first, first + 3), [1, 2, 3]);
    assert.equal((first % 8) + (far % 8), 0);
  }
});

// Losses ------------------------------------------------------------------------------------------------------------

const scores = (totals: number[], sums: number[], counts: number[]): Scores => ({
  n: totals.length,
  hops: ["x1"],
  totals: Float64Array.from(totals),
  sums: Float64Array.from(sums),
  counts: Float64Array.from(counts),
  right: Float64Array.from(counts.map(() => 1)),
  scored: Float64Array.from(counts),
  strengths: new Float64Array(),
});

test("a mean has the interval of a normal approximation", () => {
  const { total, hops, accuracy } = summary(scores([1, 2, 3, 6], [2, 4, 6, 12], [2, 2, 2, 2]));
  const margin = (1.96 * Math.sqrt(14 / 3)) / 2;
  near([total.mean, total.low, total.high], [3, 3 - margin, 3 + margin]);
  near([hops.x1!.mean, hops.x1!.low], [3, 3 - margin]); // equal counts: the same
  assert.equal(accuracy.x1, 0.5);
});

test("a difference is taken sequence by sequence, and only of equally many", () => {
  const base = scores([1, 5, 9], [1, 5, 9], [1, 1, 1]);
  const found = difference(scores([2, 6, 10], [2, 6, 10], [1, 1, 1]), base);
  near([found.total.mean, found.total.low, found.hops.x1!.high], [1, 1, 1]);
  assert.throws(() => difference(scores([1], [1], [1]), base), /not to be compared/);
});

// A small model, and the worker -------------------------------------------------------------------------------------

const SHAPE: Shape = {
  ...{ n_layers: 2, n_heads: 1, d_model: 4, d_head: 2, d_mlp: 0, layer_norm: false, causal: true },
  attention: { name: "softmax" },
  positions: { name: "none" },
  ...{ tokens: true, d_input: 3, d_output: 3, n_positions: 3 },
};
const SHAPES: Record<string, number[]> = {
  W_E: [3, 4],
  W_U: [4, 3],
  b_U: [3],
  ...Object.fromEntries(
    [0, 1].flatMap((layer) =>
      Object.entries({ W_QKV: [3, 1, 4, 2], b_QKV: [3, 1, 2], W_O: [1, 2, 4], b_O: [4] }).map(([name, shape]) => [
        `blocks.${layer}.attn.${name}`,
        shape,
      ]),
    ),
  ),
};
const SCORING = {
  kind: "tokens",
  hops: ["x1"],
  width: 3,
  shared: false,
  unscored: [],
  counted: true,
  total: "answers",
  scale: 1,
  right_below: 0,
  by_place: false,
} as const;

function weights(seed = 0): Weights {
  const size = (shape: number[]): number => shape.reduce((one, other) => one * other, 1);
  const values = (name: string, shape: number[]): Float32Array =>
    Float32Array.from({ length: size(shape) }, (_, i) => Math.sin(seed + name.length + 3 * i));
  return Object.fromEntries(
    Object.entries(SHAPES).map(([name, shape]) => [name, { shape, values: values(name, shape) }]),
  );
}

test("weights that do not fit are told", () => {
  const session = new Session();
  session.give("b", BATCH);
  const ask = { model: "m", batch: "b", changes: [], sizes: [2], paths: [] };
  session.open("m", {
    shape: SHAPE,
    scoring: SCORING,
    weights: { ...weights(), W_U: { shape: [4, 2], values: new Float32Array(8) } },
  });
  assert.throws(() => [...session.losses(ask)], /W_U should be of shape 4 × 3/);
  const { b_U, ...fewer } = weights();
  assert.ok(b_U);
  session.open("m", { shape: SHAPE, scoring: SCORING, weights: fewer });
  assert.throws(() => [...session.losses(ask)], /have no b_U/);
  assert.throws(() => [...session.losses({ ...ask, model: "nobody" })], /nobody/);
  session.open("m", { shape: SHAPE, scoring: SCORING, weights: weights() });
  const units = [path("L2H0 query->key[1]")];
  assert.throws(
    () => [...session.losses({ ...ask, changes: [{ kind: "silenced", units, null: "uniform" }] })],
    /no L2H0/,
  );
});

/** A page's port and a worker's side, joined; messages go through `structuredClone`, one per turn. */
function joined(): { port: Port; side: Side } {
  const side: Side = {
    postMessage: (data) => setTimeout(() => port.onmessage?.({ data: structuredClone(data) })),
    onmessage: null,
  };
  const port: Port = {
    postMessage: (data) => setTimeout(() => side.onmessage?.({ data: structuredClone(data) })),
    onmessage: null,
    terminate: () => {},
  };
  return { port, side };
}

function many(n: number): Batch {
  const repeat = <T extends Int32Array | Int16Array>(values: T): T => {
    const found = new (values.constructor as new (length: number) => T)((values.length / 2) * n);
    for (let i = 0; i < found.length; i++) found[i] = values[i % values.length]!;
    return found;
  };
  const { inputs, targets, roles } = BATCH;
  return {
    ...BATCH,
    n,
    inputs: repeat(inputs as Int32Array),
    targets: repeat(targets as Int32Array),
    roles: { ...roles, chain: repeat(roles.chain) },
  };
}

test("the worker answers size by size, and not at all what is cancelled", async () => {
  const { port, side } = joined();
  const own = engine(port);
  serve(side);
  assert.equal(await own.simd, true);
  own.open("m", { shape: SHAPE, scoring: SCORING, weights: weights() });
  own.give("b", many(1000));
  const request = { model: "m", batch: "b", changes: [], sizes: [8, 64, 1000] };
  const seen: [number, boolean][] = [];
  await own.losses(request, (found, last) => seen.push([found.n, last]));
  assert.deepEqual(seen, [
    [8, false],
    [64, false],
    [1000, true],
  ]);

  const stopped = new AbortController();
  const told: number[] = [];
  const going = own.losses(
    request,
    (found) => {
      told.push(found.n);
      stopped.abort(new Error("enough"));
    },
    stopped.signal,
  );
  await assert.rejects(going, /enough/);
  await own.losses(request, () => {}); // the worker is free
  assert.deepEqual(told, [8]);
  await assert.rejects(
    own.losses(request, () => {}, AbortSignal.abort(new Error("before"))),
    /before/,
  );
  await assert.rejects(
    own.losses({ ...request, batch: "nobody" }, () => {}),
    /nobody/,
  );
});

test("a worker that may not run is told, to those who wait and to those who ask later", async () => {
  const { port } = joined(); // nobody serves
  const own = engine(port);
  const request = { model: "m", batch: "b", changes: [], sizes: [8] };
  const waiting = own.losses(request, () => {});
  port.onerror?.(undefined as never);
  await assert.rejects(waiting, /web worker stopped/);
  await assert.rejects(
    own.losses(request, () => {}),
    /web worker stopped/,
  );
});

test("rapid scrubbing with a knock-out ends in the last step's answer", async () => {
  const { port, side } = joined();
  const own = engine(port);
  serve(side);
  own.give("b", many(64));
  const changes: Change[] = [{ kind: "silenced", units: [OWN], null: "uniform" }];
  const found: [number, number][] = [];
  let before: AbortController | null = null;
  const asked = Array.from({ length: 27 }, async (_, step) => {
    own.open(`m@${step}`, { shape: SHAPE, scoring: SCORING, weights: weights(step) });
    before?.abort(new Error("superseded"));
    before = new AbortController();
    const request = { model: `m@${step}`, batch: "b", changes, sizes: [8, 64] };
    await own
      .losses(request, (scores) => found.push([step, summary(scores).total.mean]), before.signal)
      .catch(() => {});
  });
  await Promise.all(asked);
  const session = new Session();
  session.open("m", { shape: SHAPE, scoring: SCORING, weights: weights(26) });
  session.give("b", many(64));
  const [last] = [...session.losses({ model: "m", batch: "b", changes, sizes: [64], paths: [] })];
  assert.deepEqual(found.at(-1), [26, summary(last!.scores).total.mean]);
  assert.ok(found.every(([step]) => step === 26));
});

// What the page is told ---------------------------------------------------------------------------------------------

function bundled(loss: number): { manifest: Manifest; source: Source } {
  const names = Object.entries(SHAPES).map(([name, shape]) => ({ name, shape }));
  const flat = Float32Array.from(names.flatMap(({ name }) => Array.from(weights()[name]!.values)));
  const chain = Int8Array.from(BATCH.roles.chain);
  const blocks: Record<string, { dtype: string; data: ArrayBuffer }> = {
    weights: { dtype: "float32", data: flat.buffer },
    inputs: { dtype: "int32", data: (BATCH.inputs as Int32Array<ArrayBuffer>).buffer },
    targets: { dtype: "int32", data: (BATCH.targets as Int32Array<ArrayBuffer>).buffer },
    chain: { dtype: "int8", data: chain.buffer },
    asked: { dtype: "int32", data: (BATCH.targets as Int32Array<ArrayBuffer>).buffer },
  };
  const run = {
    identity: "0123456789ab",
    task: {
      ...{ name: "small", settings: {}, n_positions: 3, d_input: null, d_vocab: 3, d_output: 3, hop_names: ["x1"] },
      ...{ query_positions: [2, 3], ideal_over: "even", scoring: SCORING },
    },
    model: {
      ...{ ...SHAPE, mlp: false, native: true, fallback: null, tensors: names },
      attention: { name: "softmax", settings: {} },
      positions: { name: "none", settings: {} },
    },
    batch: {
      n: 2,
      sizes: [2],
      inputs: "inputs",
      targets: "targets",
      chain: "chain",
      candidates: null,
      asked: "asked",
      roles: BATCH.roles.names,
    },
    checkpoints: [
      {
        step: 10,
        state: "ready",
        told: null,
        weights: "weights",
        reference: { 2: { loss, hop_losses: { x1: loss } } },
      },
      { step: 20, state: "damaged", told: "Step 20 is damaged.", weights: null, reference: null },
      { step: 30, state: "ready", told: null, weights: null, reference: { 2: { loss, hop_losses: {} } } },
    ],
    circuit: null,
  };
  const entries = Object.entries(blocks).map(([name, { dtype, data }]) => [
    name,
    { dtype, shape: [data.byteLength], bytes: data.byteLength, sha256: name, scale: null },
  ]);
  const manifest = { runs: [run], blocks: Object.fromEntries(entries) } as unknown as Manifest;
  const source: Source = {
    kind: "file",
    manifest: async () => manifest,
    bytes: async (name) => blocks[name]!.data.slice(0),
    compute: null,
  };
  return { manifest, source };
}

function reference(): number {
  const session = new Session();
  session.open("m", { shape: SHAPE, scoring: SCORING, weights: weights() });
  session.give("b", BATCH);
  const [found] = [...session.losses({ model: "m", batch: "b", changes: [], sizes: [2], paths: [] })];
  return summary(found!.scores).total.mean;
}

const CHANGE: Ask["change"] = { hand: false, off: [], ideal: [], null: "uniform" };
const ASK = { run: "0123456789ab", step: 10, change: CHANGE, instance: 1 };

function worked(): Port {
  const { port, side } = joined();
  setTimeout(() => serve(side));
  return port;
}

test("the page shows what reproduces the reference, with patterns and answers", async () => {
  const { manifest, source } = bundled(reference());
  const live = new Live(source, worked());
  const found: Answer[] = [];
  await live.losses(manifest, ASK, [2], (answer) => found.push(answer));
  const off = { ...ASK, change: { ...CHANGE, off: ["L0H0 query->key[1] (other)"] } };
  await live.losses(manifest, off, [2], (answer) => found.push(answer));
  assert.ok(Math.abs(found[0]!.loss - reference()) < 1e-9);
  assert.ok(Math.abs(found[1]!.loss - found[0]!.loss) > 1e-6);
  assert.equal(found[0]!.instance!.patterns.length, 2);
  near(found[0]!.instance!.patterns[0]![0]!.slice(0, 3), [1, 0, 0]);
  assert.equal(found[0]!.instance!.answers[0]![0]!.named >= 0, true);
});

test("what does not reproduce the reference shows no live numbers, or the server's", async () => {
  const { manifest, source } = bundled(reference() + 0.01);
  const alone = new Live(source, worked());
  await assert.rejects(
    alone.losses(manifest, ASK, [2], () => {}),
    /no live numbers/,
  );
  const answer = { ...ASK, n: 2, loss: 7, low: 6, high: 8, hop_losses: {}, accuracy: {}, instance: null };
  const served = new Live({ ...source, compute: async () => answer }, worked());
  let told: { by: string; loss: number } | null = null;
  await served.losses(manifest, ASK, [2], (found) => {
    told = found;
  });
  assert.deepEqual([told!.by, told!.loss], ["server", 7]);
});

test("why there are no live numbers is one sentence", () => {
  const { manifest, source } = bundled(1);
  const run = manifest.runs[0] as Run;
  const live = new Live(source, worked());
  assert.equal(live.refusal(run, 10), null);
  assert.equal(live.refusal(run, 20), "Step 20 is damaged.");
  assert.match(live.refusal(run, 30)!, /weights of step 30 are not in this file/);
  assert.match(live.refusal(run, 40)!, /no checkpoint at step 40/);
  assert.match(new Live(source, null).refusal(run, 10)!, /web worker/);
  const foreign = { ...run, model: { ...run.model, native: false, fallback: "Not ours." } };
  assert.equal(live.refusal(foreign, 10), "Not ours.");
});

test("a hand-written address with a path that is none is refused", async () => {
  const { manifest, source } = bundled(reference());
  const live = new Live(source, worked());
  const ask = { ...ASK, change: { ...CHANGE, off: ["<script>"] } };
  await assert.rejects(
    live.losses(manifest, ask, [2], () => {}),
    /A path is written such as/,
  );
  const nobody = { ...ASK, change: { ...CHANGE, off: ["L7H0 query->key[1]"] } };
  await assert.rejects(
    live.losses(manifest, nobody, [2], () => {}),
    /no L7H0/,
  );
  await assert.rejects(
    live.losses(manifest, { ...ASK, run: "else" }, [2], () => {}),
    /no run else/,
  );
});
