// Where models learn: one lesson at a time, from its beginning up to the step that is asked for. Equal lessons give equal
// models, however they are cut into requests.
import { fit, type Judged } from "./fitting.ts";
import { type Kernel, kernel } from "./kernel.ts";
import { Learner } from "./learner.ts";
import { batchSize, initOf, keyOf, type Lesson, madeOf, PRIOR, runOf } from "./lesson.ts";
import { initial } from "./parameters.ts";
import { generator, normal } from "./random.ts";
import type { Session } from "./session.ts";
import { type Drawn, rendered, type Sheet, shuffled } from "./sheet.ts";
import type { Batch, Weights } from "./types.ts";

/** Under which keys the session holds a lesson's model, and the sequences that it is measured on. */
export const MODEL = "lesson";
export const MEASURED = "lesson measured";
/** Sequences that losses and strengths are measured on; others fit decoders, and judge them. */
export const VALIDATION = 64;
const [FITTED, JUDGED] = [128, 128];
const HELD_OUT = 0x5eed; // seed of all that is not trained on

/** What is asked: updates up to a step; and what streams then hold, or the weights. */
export interface TrainRequest {
  lesson: Lesson;
  until: number;
  also: readonly ("decoders" | "weights")[];
}

export interface Trained {
  step: number;
  /** The hops' losses on the sequences of each step that was made, before its update. */
  losses: number[][];
  decoders: Judged[] | null;
  judged: number;
  weights: Weights | null;
}

interface Course {
  key: string;
  learner: Learner;
  draw: (n: number) => Batch;
  sheet: Sheet;
  probed: Batch;
}

export class School {
  #course: Course | null = null;
  #kernel: Kernel | null = null;

  constructor(readonly session: Session) {}

  /** Trains; null between updates. Throws an Error, one sentence. */
  *train({ lesson, until, also }: TrainRequest): Generator<Trained | null> {
    const course = this.#at(lesson, until);
    const { learner, draw, sheet } = course;
    const hops = runOf(lesson).task.hop_names.length;
    const losses: number[][] = [];
    while (learner.step < until) {
      losses.push(learner.update(draw(batchSize(lesson)), hops));
      yield null;
    }
    const run = runOf(lesson);
    this.session.open(MODEL, { shape: learner.shape, scoring: run.task.scoring!, weights: learner.weights() });
    const wanted = also.includes("decoders") && run.task.d_symbol;
    yield {
      ...{ step: learner.step, losses, judged: JUDGED },
      decoders: wanted ? this.#decoders(course, sheet, wanted) : null,
      weights: also.includes("weights") ? learner.weights() : null,
    };
  }

  /** The lesson as it stands, begun anew if it is another, or further than is asked for. */
  #at(lesson: Lesson, until: number): Course {
    const key = keyOf(lesson);
    if (this.#course?.key === key && this.#course.learner.step <= until) return this.#course;
    const run = runOf(lesson);
    const { shape, sheet } = madeOf(run);
    const drawn = (random: () => number) => (n: number) => {
      const all = Array.from({ length: n }, (): Drawn => {
        const order = shuffled(sheet, random);
        return {
          order,
          symbols: Float32Array.from({ length: sheet.n_symbols * run.task.d_symbol! }, () => normal(random)),
        };
      });
      return rendered(run, sheet, all);
    };
    this.#kernel ??= kernel(this.session.plain);
    this.#kernel.release(0);
    const random = generator(lesson.seed);
    const weights = initial(shape, initOf(lesson), PRIOR.start, random);
    const held = drawn(generator(HELD_OUT));
    this.session.give(MEASURED, held(VALIDATION));
    const probed = held(FITTED + JUDGED);
    const learner = new Learner(shape, weights, this.#kernel);
    this.#course = { key, learner, draw: drawn(random), sheet, probed };
    return this.#course;
  }

  #decoders({ probed, learner }: Course, sheet: Sheet, d_symbol: number): Judged[] {
    const streams = this.session.streams(MODEL, probed);
    const { d_model } = learner.shape;
    return fit({ batch: probed, streams, sheet, d_model, d_symbol, fitted: FITTED }, this.#kernel!);
  }
}
