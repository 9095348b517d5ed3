import assert from "node:assert/strict";
import { test } from "node:test";
import { decades, logScale, placeOf, ticks } from "../src/parts/axis.ts";
import { byPlace, short, signed, symbolOf } from "../src/parts/words.ts";
import { parsed } from "../src/views/claims.tsx";

test("numbers have three digits that matter", () => {
  const said = [0, 0.00432, 0.0723, 0.5, 1.729, 12.34, 1234, Number.NaN, null].map(short);
  assert.deepEqual(said, ["0", "0.00432", "0.0723", "0.500", "1.73", "12.3", "1234", "–", "–"]);
  assert.deepEqual([signed(0.5), signed(-0.5)], ["+0.500", "−0.500"]);
});

test("a step lies between its checkpoints in proportion", () => {
  const steps = [0, 20, 40, 140];
  assert.deepEqual(
    [-5, 0, 10, 40, 90, 140, 999].map((step) => placeOf(step, steps)),
    [0, 0, 0.5, 2, 2.5, 3, 3],
  );
});

test("ticks are few, and the last step is among them", () => {
  const steps = Array.from({ length: 27 }, (_, i) => 20 * i);
  const chosen = ticks(steps, 6);
  assert.ok(chosen.length <= 6 && chosen[0] === 0 && chosen.at(-1) === 520);
  assert.deepEqual(ticks([0, 5], 6), [0, 5]);
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

test("CSV with quotes, commas and lines in cells", () => {
  const rows = parsed('a,b\r\n"x, ""y""",2\n"two\nlines",\n');
  assert.deepEqual(rows, [
    ["a", "b"],
    ['x, "y"', "2"],
    ["two\nlines", ""],
  ]);
});
