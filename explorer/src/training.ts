/** A model that learns in the page: asked of the worker a few steps at a time, and looked at in between. */
import { type Signal, signal } from "@preact/signals";
import type { Run } from "./bundle.ts";
import { changesOf } from "./engine/bundled.ts";
import type { Decoder } from "./engine/decoding.ts";
import type { LocalEngine } from "./engine/index.ts";
import { LEARNT, type Lesson, limit, pace, runOf } from "./engine/lesson.ts";
import { answered } from "./engine/live.ts";
import { type Scene, sceneOf } from "./engine/scene.ts";
import { MEASURED, MODEL, type Trained, VALIDATION } from "./engine/school.ts";
import { summary } from "./engine/summed.ts";
import { type Problem, posed, problem } from "./engine/typed.ts";
import type { Scores, Weights } from "./engine/types.ts";
import { exampleOf } from "./parts/example.ts";

const LOOKS = 4; // measurements between two fits of decoders
const LEAST = 0.95; // right answers of a decoder that is shown, as in hopscope/explorer/decoders.py
const SCENE = "lesson scene";

/** What is known of the model at one step. */
export interface Seen {
  step: number;
  /** Mean attention on each of the run's paths. */
  strengths: Float64Array;
  scene: Scene;
  /** What streams held when decoders were fitted last, at most a few steps ago. */
  held: Scene;
}

export class Training {
  readonly lesson: Signal<Lesson | null> = signal(null);
  /** The run of the lesson, with the losses and decoders so far. */
  readonly run: Signal<Run | null> = signal(null);
  readonly seen: Signal<Seen | null> = signal(null);
  readonly running: Signal<boolean> = signal(false);
  readonly trouble: Signal<string> = signal("");
  #problem: Problem | null = null;
  #decoders: Decoder[] = [];
  #draw = 0;
  #off: readonly string[] = [];
  /** Whether the worker has been asked for something that is not there yet. */
  readonly busy: Signal<number> = signal(0);
  /** One thing after the other: the worker is never asked about a step that is past. */
  #queue: Promise<void> = Promise.resolve();

  constructor(readonly engine: LocalEngine | null) {}

  get step(): number {
    return this.seen.value?.step ?? 0;
  }

  /** The losses of the hops at the last step that was measured. */
  get losses(): number[] {
    const rows = Object.values(this.run.value?.metrics.hop_losses ?? {});
    return rows.map((losses) => losses.at(-1) ?? Number.NaN);
  }

  get problem(): Problem | null {
    return this.#problem;
  }

  /** Another lesson, from its beginning; up to a step, if it was trained before. */
  begin(lesson: Lesson, until: number): void {
    this.pause();
    const run = runOf(lesson);
    const hop_losses = Object.fromEntries(run.task.hop_names.map((hop) => [hop, []]));
    this.lesson.value = lesson;
    this.run.value = { ...run, metrics: { step: [], train_loss: [], val_loss: [], hop_losses } };
    this.seen.value = null;
    this.trouble.value = this.engine ? "" : "This page cannot start a web worker, so nothing can be trained in it.";
    this.#problem = problem(exampleOf(run, Number(run.task.settings.n_chains)), run);
    this.#next(0, true);
    if (until) this.start(until);
  }

  /** Trains on, until it is paused, all hops are learnt, or a limit is reached; or exactly up to a step. */
  start(until = 0): void {
    const lesson = this.lesson.peek();
    if (!lesson || this.running.peek()) return;
    this.running.value = true;
    const end = until || (this.#over() ? Number.POSITIVE_INFINITY : limit(lesson));
    const { learnt } = this;
    const go = (): void => {
      if (!this.running.peek() || this.lesson.peek() !== lesson) return;
      const to = Math.min(end, this.step + pace(lesson) - (this.step % pace(lesson)));
      const looks = to % (LOOKS * pace(lesson)) === 0;
      this.#next(to, looks).then(() => {
        if (this.lesson.peek() !== lesson) return;
        if (this.step >= end || (!until && !learnt && this.learnt)) this.pause();
        else go();
      });
    };
    this.#queue.then(go);
  }

  /** Stops after the steps that are being made; what streams hold is then read once more. */
  pause(): void {
    if (!this.running.peek()) return;
    this.running.value = false;
    this.#queue.then(() => this.#next(this.step, true));
  }

  /** One step more. */
  once(): void {
    if (!this.running.peek()) this.#queue.then(() => this.#next(this.step + 1, true));
  }

  /** Shows another draw of the sequence, or the model with paths knocked out. */
  look(draw: number, off: readonly string[]): void {
    [this.#draw, this.#off] = [draw, off];
    if (!this.running.peek() && this.seen.peek()) this.#next(this.step, false);
  }

  /** The weights as they are now. */
  async weights(): Promise<Weights> {
    await this.#queue;
    const found = await this.engine!.train({ lesson: this.lesson.peek()!, until: this.step, also: ["weights"] });
    return found.weights!;
  }

  get learnt(): boolean {
    return this.losses.every((loss) => loss < LEARNT);
  }

  #over(): boolean {
    return this.step >= limit(this.lesson.peek()!);
  }

  /** Up to a step, then all that is measured. */
  #next(step: number, looks: boolean): Promise<void> {
    const lesson = this.lesson.peek();
    const work = async (): Promise<void> => {
      if (!this.engine || !lesson || this.lesson.peek() !== lesson) return;
      try {
        const trained = await this.engine.train({ lesson, until: step, also: looks ? ["decoders"] : [] });
        await this.#measure(lesson, trained);
      } catch (error) {
        this.running.value = false;
        this.trouble.value = error instanceof Error ? error.message : String(error);
      }
    };
    this.busy.value++;
    this.#queue = this.#queue.then(work).finally(() => this.busy.value--);
    return this.#queue;
  }

  async #measure(lesson: Lesson, { step, decoders, judged }: Trained): Promise<void> {
    const run = this.run.peek()!;
    let scores: Scores | null = null;
    const request = { model: MODEL, batch: MEASURED, changes: [], sizes: [VALIDATION], paths: run.paths };
    await this.engine!.losses(request, (found) => {
      scores = found;
    });
    if (decoders) {
      this.#decoders = decoders.filter(({ accuracy }) => accuracy >= LEAST);
    }
    const cells = decoders?.map(({ layer, role, hop, accuracy }) => ({ layer, role, hop, accuracy }));
    const scene = await this.#scene(run);
    if (this.lesson.peek() !== lesson || !scores) return;
    const entry = cells ? { step, n: judged, least: LEAST, cells, block: "" } : run.decoders;
    this.run.value = { ...withLosses(run, step, scores), decoders: entry };
    const held = entry?.step === step ? scene : this.seen.peek()!.held;
    this.seen.value = { step, strengths: (scores as Scores).strengths, scene, held };
  }

  async #scene(run: Run): Promise<Scene> {
    const pose = posed(this.#problem!, run, 1, this.#draw);
    this.engine!.give(SCENE, pose.batch);
    const changes = changesOf({ off: [...this.#off], ideal: [], hand: false, null: run.task.null }, null);
    const look = await this.engine!.look({ model: MODEL, batch: SCENE, changes, row: 0, streams: true });
    return sceneOf(run, this.#problem!, pose, look, answered(look.answers, 0, pose.named), this.#decoders);
  }
}

/** A run whose metrics have one step more; a step that was measured before stays. */
function withLosses(run: Run, step: number, scores: Scores): Run {
  if (run.metrics.step.at(-1) === step) return run;
  const { total, hops } = summary(scores);
  const added = Object.entries(run.metrics.hop_losses).map(([hop, losses]) => [hop, [...losses, hops[hop]!.mean]]);
  const metrics = {
    step: [...run.metrics.step, step],
    train_loss: [...run.metrics.train_loss, null],
    val_loss: [...run.metrics.val_loss, total.mean],
    hop_losses: Object.fromEntries(added) as Record<string, number[]>,
  };
  return { ...run, metrics };
}
