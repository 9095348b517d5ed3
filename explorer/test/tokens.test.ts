import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run, Typing } from "../src/bundle.ts";
import { exampleTokens, typedTokens, unknown } from "../src/engine/tokens.ts";

const run = (typing: Typing, n_positions: number): Run =>
  ({
    task: { n_positions, query_positions: [n_positions - 1, n_positions], hop_names: ["x1"], ideal_over: "even" },
    batch: { typing },
  }) as unknown as Run;

const letters = run(
  { kind: "tokens", names: [["a"], ["b"], ["~"], ["k=0"], ["k=1"]], free: false, example: [4, 0, 1] },
  3,
);
const plain = run({ kind: "tokens", names: [["t0"], ["t1"], ["t2"], ["t3"]], free: true, example: [0, 1, 0] }, 3);

test("a sequence is read by the task's names", () => {
  assert.equal(exampleTokens(letters), "k=1 a b");
  const { tokens, symbols, named } = typedTokens(" k=0\n b a ", letters);
  assert.deepEqual(tokens, [3, 1, 0]);
  assert.deepEqual(symbols, ["k=0", "b", "a"]);
  assert.equal(named(2), "~");
  assert.equal(named(-1), "nothing");
});

test("a token of two names stands under the first, and answers to the last", () => {
  const both = run(
    {
      kind: "tokens",
      names: [
        ["x0", "y0"],
        ["x1", "y1"],
      ],
      free: false,
      example: [1],
    },
    1,
  );
  assert.equal(exampleTokens(both), "x1");
  assert.deepEqual(typedTokens("x1", both).tokens, [1]);
  assert.equal(typedTokens("x1", both).named(0), "y0");
});

test("words of one's own stand for tokens that are not typed, the same for the same seed", () => {
  const one = typedTokens("ann t1 ann", plain, 1);
  assert.equal(one.tokens[0], one.tokens[2]);
  assert.equal(one.tokens[1], 1);
  assert.notEqual(one.tokens[0], 1);
  assert.equal(one.named(one.tokens[0]!), "ann");
  assert.deepEqual(typedTokens("ann t1 ann", plain, 1).tokens, one.tokens);
  const drawn = new Set(Array.from({ length: 20 }, (_, seed) => typedTokens("ann t1 ann", plain, seed).tokens[0]));
  assert.deepEqual([...drawn].sort(), [0, 2, 3]);
});

test("what is no sequence of the task is told in one sentence", () => {
  assert.throws(() => typedTokens("k=1 a", letters), /has 3 symbols; 2 are typed\.$/);
  assert.throws(() => typedTokens("k=1 a z", letters), /^BundleError: z is no symbol|^Error: z is no symbol/);
  assert.throws(() => typedTokens("a b c d e", plain), /e is no symbol of this task; it has t0, t1, t2, t3\./);
  assert.throws(() => typedTokens("</script>".repeat(900), letters), /no symbol/);
});

test("without Python nothing is known to be right", () => {
  const batch = unknown(letters, typedTokens("k=1 a b", letters));
  assert.deepEqual([...batch.inputs], [4, 0, 1]);
  assert.deepEqual([...batch.targets], [-100]);
});
