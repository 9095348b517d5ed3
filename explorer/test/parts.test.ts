import assert from "node:assert/strict";
import { test } from "node:test";
import type { Instance, Run } from "../src/bundle.ts";
import { decades, edges, logScale, placeOf, stepAt, ticks } from "../src/parts/axis.ts";
import { told } from "../src/parts/example.ts";
import { byPlace, short, signed, symbolOf } from "../src/parts/words.ts";
import { parsed } from "../src/views/claims.tsx";

test("numbers have three digits that matter", () => {
  const said = [0, 0.00432, 0.0723, 0.5, 1.729, 12.34, 1234, Number.NaN, null].map(short);
  assert.deepEqual(said, ["0", "0.00432", "0.0723", "0.500", "1.73", "12.3", "1234", "–", "–"]);
  assert.deepEqual([signed(0.5), signed(-0.5)], ["+0.500", "−0.500"]);
});

test("time is even: a step stands in proportion, and its column reaches half-way to its neighbours", () => {
  const steps = [0, 20, 40, 140];
  assert.deepEqual(
    [-5, 0, 35, 140, 999].map((step) => placeOf(step, steps)),
    [0, 0, 0.25, 1, 1],
  );
  assert.deepEqual(edges(steps), [0, 10 / 140, 30 / 140, 90 / 140, 1]);
  assert.deepEqual(
    [-1, 0.06, 0.08, 0.6, 0.7, 2].map((place) => stepAt(place, steps)),
    [0, 0, 20, 40, 140, 140],
  );
});

test("ticks are few, round and even", () => {
  assert.deepEqual(ticks([0, 60, 80, 1000], 6), [0, 200, 400, 600, 800, 1000]);
  assert.deepEqual(ticks([0, 5], 6), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(ticks([30, 840], 5), [500]);
  assert.ok([3, 4, 5, 9].every((most) => ticks([0, 7, 777], most).length <= most));
});

test("a logarithmic scale is linear in powers, and keeps inside", () => {
  const scale = logScale(0.01, 100);
  assert.deepEqual([0, 0.01, 1, 100, 1e9].map(scale), [0, 0, 0.5, 1, 1]);
  assert.deepEqual(decades(0.005, 20), [0.01, 0.1, 1, 10]);
});

test("roles stand as in the sequence, and hold their chain's symbol", () => {
  const roles = ["query", "value[2]", "key[10]", "key[1]", "value[1]", "key[2]"].sort(byPlace);
  assert.deepEqual(roles, ["key[1]", "value[1]", "key[2]", "value[2]", "key[10]", "query"]);
  assert.deepEqual(["query", "key[1]", "value[1]", "key[2]", "value[2]", "fact"].map(symbolOf), [0, 0, 1, 1, 2, -1]);
});

test("who is asked about first is ann, in every view; sequences that are no chains keep their words", () => {
  const run = { batch: { typing: { kind: "facts" } }, task: { settings: {} } } as unknown as Run;
  const sequence = {
    symbols: ["a1", "a2", "b0", "b1", "a0", "a1", "b1", "b2", "b0", "a0"],
    roles: ["a key[2]", "a value[2]", "b key[1]", "b value[1]", "a key[1]", "a value[1]", "b key[2]", "b value[2]"],
    queries: ["b0", "a0"],
  } as unknown as Instance;
  assert.deepEqual(told(run, sequence).symbols, "eve flo ann bob dee eve bob cy ann dee".split(" "));
  assert.deepEqual(told(run, sequence).roles.slice(0, 3), ["key[2]", "value[2]", "key[1]"]);
  const tokens = { ...run, batch: { typing: { kind: "tokens" } } } as unknown as Run;
  assert.equal(told(tokens, sequence), sequence);
});

test("CSV with quotes, commas and lines in cells", () => {
  const rows = parsed('a,b\r\n"x, ""y""",2\n"two\nlines",\n');
  assert.deepEqual(rows, [
    ["a", "b"],
    ['x, "y"', "2"],
    ["two\nlines", ""],
  ]);
});
