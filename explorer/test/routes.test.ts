import assert from "node:assert/strict";
import { test } from "node:test";
import { within } from "../src/engine/lesson.ts";
import { verdict, warning } from "../src/lessons.ts";
import { kindOf, symbolOf } from "../src/parts/words.ts";
import { DOUBLED, heldIn, hopByHop, JOINED, learned, routesOf, type Wire } from "../src/routes.ts";

const AGAIN = hopByHop(2);

const wire = (layer: number, query: string, key: string, chain: "same" | "other" = "same"): Wire => ({
  ...{ layer, query, key, chain },
});

test("each sketch is told as the way that it draws", () => {
  const [again, joined] = [routesOf(AGAIN), routesOf(JOINED)];
  assert.deepEqual([again.again.length, again.joined.length], [2, 0]);
  assert.deepEqual([joined.again.length, joined.joined.length], [0, 2]);
  assert.match(
    learned(AGAIN),
    /the query reads again \(.*value\[1\] in layer 1 and the query reads value\[2\] in layer 2\)/,
  );
  assert.match(
    learned(JOINED),
    /facts join first \(value\[1\] reads value\[2\] in layer 1 and the query reads value\[1\]/,
  );
  assert.match(learned([...AGAIN, ...JOINED]), /reads again .*; and facts join first/);
  assert.equal(learned(AGAIN.slice(0, 3)), "");
});

test("a look counts only above what it needs, and in its own chain", () => {
  const turned = AGAIN.map((one) => ({ ...one, layer: 2 - one.layer }));
  assert.deepEqual([routesOf(turned).finds, routesOf(turned).again], [[], []]);
  assert.deepEqual(routesOf(AGAIN.map((one) => ({ ...one, chain: "other" as const }))).joins, []);
});

test("by hand: what positions hold in the sketches, whose query ends with both answers", () => {
  const after = (wires: readonly Wire[], layers: number, role: string) => heldIn(wires, symbolOf, layers, role);
  assert.deepEqual(
    [1, 2, 3].map((layers) => after(AGAIN, layers, "query")),
    [[0], [0, 1], [0, 1, 2]],
  );
  assert.deepEqual(
    [1, 2, 3].map((layers) => after(JOINED, layers, "query")),
    [[0], [0], [0, 1, 2]],
  );
  assert.deepEqual(
    [0, 1, 2].map((layers) => after(JOINED, layers, "value[1]")),
    [[1], [0, 1], [0, 1, 2]],
  );
  assert.deepEqual(
    [1, 2, 3, 4].map((layers) => after(hopByHop(3), layers, "query")),
    [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]],
  );
  assert.deepEqual(
    [1, 2, 3].map((layers) => after(DOUBLED, layers, "query")),
    [[0], [0, 1], [0, 1, 2, 3]],
  );
});

test("what cannot be learnt is said before, and with the least number of layers", () => {
  const lesson = { hops: 1, layers: 1, prior: true, curriculum: "implicit" as const, seed: 0 };
  assert.deepEqual([1, 2, 3, 4].map(within), [0, 1, 3, 7]);
  const warned = [1, 2, 3].map((hops) => [1, 2, 3, 4].map((layers) => warning({ ...lesson, hops, layers }) !== ""));
  assert.deepEqual(warned, [
    [true, false, false, false],
    [true, true, false, false],
    [true, true, false, false],
  ]);
  assert.match(
    warning({ ...lesson, hops: 3, layers: 2 }),
    /^Two layers cannot learn three hops, which take at least three layers/,
  );
  assert.match(verdict(lesson, [0.7], 200, false), /the query holds at most token 1, and one hop would take token 2/);
  assert.match(
    verdict({ ...lesson, hops: 3, layers: 2 }, [0.1, 0.7, 0.7], 999, false),
    /at most token 3, and two hops would take token 4/,
  );
  assert.match(verdict(lesson, [0.9], 20, true, 160), /names step 160: the same model is trained again/);
});

test("who reads whom is said in one order", () => {
  assert.equal(kindOf(wire(0, "value[1]", "key[1]")), "value[1] reads key[1]");
  assert.equal(kindOf(wire(1, "query", "key[1]", "other")), "query reads key[1] of others");
});
