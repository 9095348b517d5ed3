import assert from "node:assert/strict";
import { test } from "node:test";

test("the runner runs TypeScript", () => {
  const twice = (n: number): number => 2 * n;
  assert.equal(twice(21), 42);
});
