import assert from "node:assert/strict";
import { test } from "node:test";
import { decoded, decodersOf } from "../src/engine/decoding.ts";

test("a decoder names the candidate that its map points to", () => {
  // two features, two numbers: the map exchanges them; by hand, (0, 1) is read as (1, 0)
  const cells = [
    { layer: 1, role: "query", hop: 1, accuracy: 0.99 },
    { layer: 1, role: "query", hop: 2, accuracy: 0.5 },
  ];
  const row = Float32Array.from([0, 1, 1, 0, 0, 0, 0, 0, 1]);
  const [decoder, ...more] = decodersOf({ step: 0, n: 1, least: 0.95, cells, block: "" }, row, 2);
  assert.equal(more.length, 0);
  assert.deepEqual([decoder!.layer, decoder!.role, decoder!.hop, decoder!.slope], [1, "query", 1, 1]);
  const candidates = Float32Array.from([0, 1, 1, 0, -1, 0]);
  assert.equal(decoded(decoder!, Float32Array.from([0, 1]), candidates), 1);
  assert.equal(decoded(decoder!, Float32Array.from([1, 0]), candidates), 0);
  assert.equal(decoded(decoder!, Float32Array.from([0, -1]), candidates), 2);
});

test("a decoder that knows little does not name the longest candidate", () => {
  const cells = [{ layer: 0, role: "query", hop: 1, accuracy: 1 }];
  const weak = decodersOf({ step: 0, n: 1, least: 0.95, cells, block: "" }, Float32Array.from([0.1, 0, 0, 0.1]), 1);
  // the prediction is a tenth of the truth: of 1 and 5 it means 1, though 5 lies in the same direction
  assert.equal(decoded(weak[0]!, Float32Array.from([1]), Float32Array.from([1, 5])), 0);
});
