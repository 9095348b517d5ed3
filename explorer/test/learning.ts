// Training as a command, for tests/explorer/test_learning.py: reads cases (JSON) and prints what became of them (JSON). A
// model and batches give gradients on the first batch, losses before each update, and weights after all of them; a lesson
// gives its run, and its losses and weights after some steps.
import { readFileSync } from "node:fs";
import { kernel } from "../src/engine/kernel.ts";
import { Learner } from "../src/engine/learner.ts";
import { type Lesson, runOf } from "../src/engine/lesson.ts";
import { School, type Trained } from "../src/engine/school.ts";
import { Session } from "../src/engine/session.ts";
import type { Shape, Weights } from "../src/engine/types.ts";
import { packed } from "../src/saving.ts";
import { batchOf, type Coded, weightsOf } from "./given.ts";

interface Given {
  shape: Shape;
  weights: Record<string, Coded>;
  batches: Record<string, unknown>[];
  hops: number;
}

interface Taught {
  lesson: Lesson;
  /** Up to which steps it is trained, one after the other. */
  steps: number[];
}

function learnt({ shape, weights, batches, hops }: Given): unknown {
  const learner = new Learner(shape, weightsOf(weights), kernel());
  const given = batches.map(batchOf);
  learner.gradients(given[0]!, hops);
  const gradient = coded(learner.gradient());
  const cpu = process.cpuUsage();
  const losses = given.map((batch) => learner.update(batch, hops));
  const { user, system } = process.cpuUsage(cpu);
  return { gradient, losses, weights: coded(learner.weights()), cpu: (user + system) / 1000 };
}

async function taught({ lesson, steps }: Taught): Promise<unknown> {
  const school = new School(new Session());
  const also = ["decoders", "weights"] as const;
  const cpu = process.cpuUsage();
  const found = steps.flatMap((until) => [...school.train({ lesson, until, also })].filter((one) => one !== null));
  const { user, system } = process.cpuUsage(cpu);
  const { losses, weights, decoders } = found.at(-1) as Trained;
  const cells = decoders!.map(({ layer, role, hop, accuracy }) => ({ layer, role, hop, accuracy }));
  const run = runOf(lesson);
  const hop_losses = Object.fromEntries(run.task.hop_names.map((hop) => [hop, [0.5]]));
  const metrics = { step: [steps.at(-1)!], train_loss: [null], val_loss: [0.5], hop_losses };
  const { name, bytes } = await packed(lesson, { ...run, metrics }, weights!);
  return {
    run,
    losses,
    cells,
    name,
    tar: Buffer.from(bytes).toString("base64"),
    weights: coded(weights!),
    cpu: (user + system) / 1000,
  };
}

function coded(weights: Weights): Record<string, string> {
  const text = Object.entries(weights).map(([name, { values }]) => [
    name,
    Buffer.from(values.buffer).toString("base64"),
  ]);
  return Object.fromEntries(text) as Record<string, string>;
}

const cases = JSON.parse(readFileSync(process.argv[2]!, "utf8")) as (Given | Taught)[];
const found = cases.map((one) => ("lesson" in one ? taught(one) : learnt(one)));
console.log(JSON.stringify(await Promise.all(found)));
