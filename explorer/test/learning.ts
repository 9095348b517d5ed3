// Training as a command: reads cases (JSON: a model and batches) and prints the gradients on the first batch, the losses
// before each update, and the weights after all of them (JSON). tests/explorer/test_learning.py makes the cases.
import { readFileSync } from "node:fs";
import { kernel } from "../src/engine/kernel.ts";
import { Learner } from "../src/engine/learner.ts";
import type { Shape, Weights } from "../src/engine/types.ts";
import { batchOf, type Coded, weightsOf } from "./given.ts";

interface Case {
  shape: Shape;
  weights: Record<string, Coded>;
  batches: Record<string, unknown>[];
  hops: number;
}

function learnt({ shape, weights, batches, hops }: Case): unknown {
  const learner = new Learner(shape, weightsOf(weights), kernel());
  const given = batches.map(batchOf);
  learner.gradients(given[0]!, hops);
  const gradient = coded(learner.gradient());
  const losses = given.map((batch) => learner.update(batch, hops));
  return { gradient, losses, weights: coded(learner.weights()) };
}

function coded(weights: Weights): Record<string, string> {
  const text = Object.entries(weights).map(([name, { values }]) => [name, Buffer.from(values.buffer).toString("base64")]);
  return Object.fromEntries(text) as Record<string, string>;
}

const cases = JSON.parse(readFileSync(process.argv[2]!, "utf8")) as Case[];
console.log(JSON.stringify(cases.map(learnt)));
