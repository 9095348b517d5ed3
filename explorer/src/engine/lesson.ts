// What a model in the page learns, and how: the knobs, and the run that follows from them, as a bundle would have it.
import type { Run, Task } from "../bundle.ts";
import { shapeOf } from "./bundled.ts";
import { type Init, shapesOf, sizeOf } from "./parameters.ts";
import { pathName } from "./paths.ts";
import { type Sheet, sheetOf } from "./sheet.ts";
import type { Shape } from "./types.ts";

export type Curriculum = "implicit" | "none";

/** All that a model trained in the page depends on. */
export interface Lesson {
  hops: number;
  layers: number;
  /** Whether the first layer begins with attention to the token before. */
  prior: boolean;
  curriculum: Curriculum;
  seed: number;
}

export const FIRST: Lesson = { hops: 2, layers: 3, prior: true, curriculum: "implicit", seed: 0 };
export const MOST = { hops: 3, layers: 4, seed: 999_999 };
/** How a lesson's weights begin and its scores count the token before, as in `hopscope/configuration/presets.py`. */
export const PRIOR = { start: 4, scale: 10 };
/** A hop counts as learnt below this loss. */
export const LEARNT = 0.2;

const [CHAINS, WIDTH] = [4, 4]; // chains of a sequence, and numbers of a symbol and of a position's code

export function keyOf({ hops, layers, prior, curriculum, seed }: Lesson): string {
  return `lesson ${hops} ${layers} ${prior} ${curriculum} ${seed}`;
}

export const initOf = ({ prior }: Lesson): Init => (prior ? "early_layers" : "gpt2");

/** Sequences of a step; three hops want a wider model and larger batches. */
export const batchSize = ({ hops }: Lesson): number => (hops > 2 ? 128 : 64);

/** Steps between two looks at the model: each some tenths of a second. */
export const pace = ({ hops }: Lesson): number => (hops > 2 ? 2 : 5);

/** Hops that so many layers of one head can learn: ⌈log2(2D + 1)⌉ layers for D (docs/theory.md). */
export const within = (layers: number): number => Math.floor((2 ** layers - 1) / 2);

/** Steps after which a lesson is given up. */
export function limit(lesson: Lesson): number {
  if (lesson.hops > within(lesson.layers)) return lesson.prior ? 200 : 600;
  return lesson.prior ? 600 : 2000;
}

/** A run of what is learnt, without checkpoints. */
export function runOf(lesson: Lesson): Run {
  const task = taskOf(lesson);
  const partial = { task, batch: { typing: { kind: "facts" }, instances: [] } } as unknown as Run;
  const { roles } = sheetOf(partial);
  const run: Run = {
    ...partial,
    ...{ identity: keyOf(lesson), name: "trained in the page", done: true, error: null, warnings: [] },
    model: modelOf(lesson),
    ...{ checkpoints: [], onsets: {}, learnt: {}, circuit: null, decoders: null, emergence: null },
    batch: { ...partial.batch, roles, attended: roles },
    paths: pathsOf(lesson.layers, roles),
  };
  const shapes = [...shapesOf(shapeOf(run))];
  run.model.tensors = shapes.map(([name, shape]) => ({ name, shape }));
  run.model.parameters = shapes.reduce((sum, [, shape]) => sum + sizeOf(shape), 0);
  return run;
}

function taskOf({ hops, prior, curriculum }: Lesson): Task {
  const all = Array.from({ length: hops }, (_, hop) => `x${hop + 1}`);
  const asked = curriculum === "none" ? all.slice(-1) : all;
  const facts = 2 * hops * CHAINS;
  return {
    name: "retrieval",
    settings: {
      ...{ n_chains: CHAINS, order: "deepest_first", curriculum, d_symbol: WIDTH, position_code: "token" },
      ...{ position_base: prior ? 100 : 10_000, n_hops: hops },
    },
    ...{ kind: "vector", n_positions: facts + CHAINS, d_input: 2 * WIDTH, d_vocab: null, d_symbol: WIDTH },
    ...{ d_output: WIDTH * asked.length, hop_names: asked, query_positions: [facts, facts + CHAINS] },
    ...{ floor: 0, chance: 1, learnt_below: LEARNT, solved_below: LEARNT },
    baselines: { "answer zero": 1, "mean of four": 1 - 1 / CHAINS },
    ...{ ideal_over: "even", null: "uniform", carries_position: true },
    scoring: {
      ...{ kind: "vectors", hops: asked, width: WIDTH, shared: false, unscored: [], counted: true, scale: 1 },
      ...{ total: asked.length > 1 ? "hops" : "answers", right_below: 0, by_place: false },
    },
  };
}

function modelOf({ hops, layers, prior }: Lesson): Run["model"] {
  const width = hops > 2 ? 128 : 64;
  return {
    ...{ name: "transformer", settings: {}, n_layers: layers, n_heads: 1, d_model: width, d_head: width, d_mlp: 0 },
    attention: { name: "softmax", settings: {} },
    positions: prior
      ? { name: "relative", settings: { scale: PRIOR.scale, start: `L0 1:${PRIOR.start}` } }
      : { name: "learned", settings: {} },
    ...{ causal: true, layer_norm: true, mlp: false, parameters: 0, native: true, fallback: null, tensors: [] },
  };
}

/** The paths between different positions of a chain: those that may carry what an answer needs. */
function pathsOf(layers: number, roles: readonly string[]): Run["paths"] {
  return Array.from({ length: layers }, (_, layer) =>
    roles.flatMap((query) =>
      roles.flatMap((key) => {
        const path = { layer, head: 0, query, key, chain: "same" as const };
        return query === key ? [] : [{ ...path, name: pathName(path) }];
      }),
    ),
  ).flat();
}

/** The shape of a lesson's model, and the sheet of its sequences. */
export function madeOf(run: Run): { shape: Shape; sheet: Sheet } {
  return { shape: shapeOf(run), sheet: sheetOf(run) };
}
