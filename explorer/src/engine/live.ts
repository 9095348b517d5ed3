// Live numbers, whoever computes them: the worker where it can, else the served Python. Before a model's first number the
// worker must reproduce its reference losses, which PyTorch computed from the very weights.
import {
  type Answer,
  type Ask,
  type BlockEntry,
  BundleError,
  type Checkpoint,
  type InstanceAnswer,
  type Manifest,
  type Run,
  type Source,
  type TypedAnswer,
} from "../bundle.ts";
import { batchOf, changesOf, scoringOf, shapeOf, weightsOf } from "./bundled.ts";
import { engine, type Port } from "./client.ts";
import type { Decoder } from "./decoding.ts";
import type { LocalEngine } from "./index.ts";
import { type Scene, sceneOf } from "./scene.ts";
import { type Estimate, summary } from "./summed.ts";
import { type Typed, unknown } from "./tokens.ts";
import { type Problem, posed, type Sequence, standing } from "./typed.ts";
import type { Look, Path, Scores } from "./types.ts";

/** An answer, with more where the page computed it. */
export interface LiveAnswer extends Answer {
  by: "page" | "server";
  /** Each hop's loss with its interval. */
  hops: Record<string, Estimate> | null;
  /** By sequence: `difference` of two is what a change costs. */
  scores: Scores | null;
}

/** What is asked: as of a server, with the paths whose strengths under the change are wanted (`scores.strengths`). */
export interface LiveAsk extends Omit<Ask, "n"> {
  paths?: readonly Path[];
}

/** What a model makes of what was typed: facts in several poses of the same problem, or one sequence. */
export interface Attempt {
  by: "page" | "server";
  sequences: Sequence[];
  /** Of each sequence, by query and hop. */
  answers: Answered[][];
}

/** An answer with the names of what it names. */
export interface Answered {
  query: number;
  hop: number;
  named: string;
  /** Null: it is not asked, or nobody here knows. */
  right: string | null;
  /** Euclidean, or −log p in nats; of the runner-up, too. */
  distance: number;
  runner_up: string;
  runner_up_distance: number;
}

/** Models that are open in the worker. */
const OPEN = 16;
/** How near the page must come to PyTorch: relative, and absolute for losses near 0. */
const NEAR = { relative: 1e-5, absolute: 1e-6 };

export class Live {
  readonly #engine: LocalEngine | null;
  readonly #models = new Map<string, Promise<void>>();
  readonly #batches = new Map<string, Promise<void>>();

  /** `port`: a worker that runs `worker.ts`; null where none can be started. */
  constructor(
    readonly source: Source,
    port: Port | null,
  ) {
    this.#engine = port && engine(port);
  }

  /** The worker itself, for what is no run of a bundle; null where none can be started. */
  get local(): LocalEngine | null {
    return this.#engine;
  }

  /** Why there are no live numbers at a step, in one sentence; null: there are. */
  refusal(run: Run, step: number): string | null {
    const checkpoint = run.checkpoints.find((one) => one.step === step);
    if (!checkpoint) return `There is no checkpoint at step ${step}.`;
    if (checkpoint.state !== "ready") return checkpoint.told ?? `Step ${step} is not measured yet.`;
    if (this.source.compute) return null;
    if (!run.model.native) return run.model.fallback ?? "The page does not compute this model.";
    if (!this.#engine) return "This page cannot start a web worker, so it shows what was measured beforehand.";
    if (!checkpoint.weights)
      return `The weights of step ${step} are not in this file: it shows what was measured beforehand.`;
    return null;
  }

  /** Answers for growing numbers of sequences, as `Engine.losses` gives them. Rejects with a BundleError. */
  async losses(
    manifest: Manifest,
    ask: LiveAsk,
    sizes: readonly number[],
    found: (answer: LiveAnswer, last: boolean) => void,
    signal?: AbortSignal,
  ): Promise<void> {
    const { run, checkpoint } = this.#asked(manifest, ask);
    if (!(await this.#local(manifest, run, checkpoint, signal))) return this.#remote(ask, sizes, found, signal);
    const request = {
      model: key(manifest, run, checkpoint),
      batch: run.identity,
      changes: changesOf(ask.change, run.circuit),
    };
    const instance = ask.instance === null ? null : await this.#look(request, ask.instance, run, signal);
    const tell = (scores: Scores, last: boolean): void => found(answerOf(ask, scores, instance), last);
    await this.#engine!.losses({ ...request, sizes, paths: ask.paths ?? [] }, tell, signal);
  }

  /** One sequence under changes: its patterns and answers. Rejects with a BundleError. */
  async look(manifest: Manifest, ask: LiveAsk & { instance: number }, signal?: AbortSignal): Promise<InstanceAnswer> {
    const { run, checkpoint } = this.#asked(manifest, ask);
    if (await this.#local(manifest, run, checkpoint, signal)) {
      const request = {
        model: key(manifest, run, checkpoint),
        batch: run.identity,
        changes: changesOf(ask.change, run.circuit),
      };
      return this.#look(request, ask.instance, run, signal);
    }
    const answer = await this.source.compute!({ ...ask, n: Math.min(...run.batch.sizes) });
    signal?.throwIfAborted();
    if (!answer.instance) throw new BundleError("The server gave no patterns.");
    return answer.instance;
  }

  /** Typed facts, posed `n` times. Rejects with a BundleError. */
  async attempt(
    manifest: Manifest,
    ask: Omit<LiveAsk, "instance">,
    problem: Problem,
    { n = 20, seed = 0, signal }: { n?: number; seed?: number; signal?: AbortSignal } = {},
  ): Promise<Attempt> {
    const { run, checkpoint } = this.#asked(manifest, { ...ask, instance: null });
    if (!(await this.#local(manifest, run, checkpoint, signal))) {
      const found = await this.#typed({ ...ask, fresh: n, seed }, signal);
      const names = (_: number, symbol: number): string => problem.names[symbol] ?? "nothing";
      const sequences = found.map(({ order }) => standing(problem, order!));
      return { by: "server", sequences, answers: found.map(({ answers }, row) => answered(answers, row, names)) };
    }
    const pose = posed(problem, run, n, seed);
    const batch = `${run.identity} typed`;
    this.#engine!.give(batch, pose.batch);
    const request = { model: key(manifest, run, checkpoint), batch, changes: changesOf(ask.change, run.circuit) };
    const rows = Array.from({ length: n }, (_, row) => this.#engine!.look({ ...request, row }, signal));
    const looks = await Promise.all(rows);
    const answers = looks.map((look, row) => answered(look.answers, row, pose.named));
    return { by: "page", sequences: pose.sequences, answers };
  }

  /** A problem's chain asked about, and all that the scene shows of it. Rejects with a BundleError. */
  async scene(
    manifest: Manifest,
    ask: Omit<LiveAsk, "instance">,
    problem: Problem,
    { seed, decoders, signal }: { seed: number; decoders: Decoder[]; signal: AbortSignal },
  ): Promise<Scene> {
    const { run, checkpoint } = this.#asked(manifest, { ...ask, instance: null });
    if (!(await this.#local(manifest, run, checkpoint, signal)))
      throw new BundleError("The page itself cannot run this model, so there is no scene: see the lab.");
    const pose = posed(problem, run, 1, seed);
    const batch = `${run.identity} scene`;
    this.#engine!.give(batch, pose.batch);
    const request = { model: key(manifest, run, checkpoint), batch, changes: changesOf(ask.change, run.circuit) };
    const look = await this.#engine!.look({ ...request, row: 0, streams: true }, signal);
    return sceneOf(run, problem, pose, look, answered(look.answers, 0, pose.named), decoders);
  }

  /** Whether typed tokens are asked of Python, which knows what is right and can change attention. */
  get knowsTasks(): boolean {
    return this.source.compute !== null;
  }

  /** A typed sequence. Without Python the model is asked as it is, and nobody says what is right. */
  async sequence(
    manifest: Manifest,
    ask: Omit<LiveAsk, "instance">,
    typed: Typed,
    signal?: AbortSignal,
  ): Promise<Attempt> {
    const { run, checkpoint } = this.#asked(manifest, { ...ask, instance: null });
    const name = (_: number, token: number): string => typed.named(token);
    const { symbols } = typed;
    if (this.source.compute) {
      const [found] = await this.#typed({ ...ask, typed: typed.tokens }, signal);
      const sequences = [{ symbols, roles: found!.roles, queries: [] }];
      return { by: "server", sequences, answers: [answered(found!.answers, 0, name)] };
    }
    await this.#local(manifest, run, checkpoint, signal);
    const batch = `${run.identity} typed`;
    this.#engine!.give(batch, unknown(run, typed));
    const request = { model: key(manifest, run, checkpoint), batch, changes: [], row: 0 };
    const { answers } = await this.#engine!.look(request, signal);
    return { by: "page", sequences: [{ symbols, roles: [], queries: [] }], answers: [answered(answers, 0, name)] };
  }

  async #typed(ask: Omit<Ask, "n" | "instance">, signal?: AbortSignal): Promise<TypedAnswer[]> {
    const { typed } = await this.source.compute!({ ...ask, n: 8, instance: null });
    signal?.throwIfAborted();
    if (!typed) throw new BundleError("The server gave no answers.");
    return typed;
  }

  stop(): void {
    this.#engine?.stop();
  }

  // Who computes ---------------------------------------------------------------------------------------------------

  #asked(manifest: Manifest, ask: LiveAsk): { run: Run; checkpoint: Checkpoint } {
    const run = manifest.runs.find((one) => one.identity === ask.run);
    if (!run) throw new BundleError(`There is no run ${ask.run.slice(0, 40)} here.`);
    const why = this.refusal(run, ask.step);
    if (why) throw new BundleError(why);
    return { run, checkpoint: run.checkpoints.find((one) => one.step === ask.step)! };
  }

  /** Whether the worker has the model and agrees with PyTorch; else the server must, or this throws a BundleError. */
  async #local(manifest: Manifest, run: Run, checkpoint: Checkpoint, signal?: AbortSignal): Promise<boolean> {
    if (!run.model.native || !checkpoint.weights || !this.#engine) return false;
    try {
      await this.#opened(manifest, run, checkpoint);
    } catch (error) {
      if (!this.source.compute) throw error;
      return false;
    }
    signal?.throwIfAborted();
    return true;
  }

  /** Opens a model and its sequences, once, and holds it against its reference. */
  #opened(manifest: Manifest, run: Run, checkpoint: Checkpoint): Promise<void> {
    const name = key(manifest, run, checkpoint);
    const found = this.#models.get(name) ?? this.#open(name, manifest, run, checkpoint);
    this.#models.delete(name); // the one used last stands last
    this.#models.set(name, found);
    for (const old of [...this.#models.keys()].slice(0, -OPEN)) {
      this.#models.delete(old);
      this.#engine!.close(old);
    }
    return found;
  }

  async #open(name: string, manifest: Manifest, run: Run, checkpoint: Checkpoint): Promise<void> {
    try {
      const [{ entry, data }] = await Promise.all([
        this.#block(manifest, checkpoint.weights!),
        this.#sequences(manifest, run),
      ]);
      this.#engine!.open(name, { shape: shapeOf(run), scoring: scoringOf(run), weights: weightsOf(run, entry, data) });
      await this.#check(name, run, checkpoint);
    } catch (error) {
      this.#models.delete(name); // what failed may be tried again
      throw error instanceof BundleError
        ? error
        : new BundleError(error instanceof Error ? error.message : String(error));
    }
  }

  #sequences(manifest: Manifest, run: Run): Promise<void> {
    const name = run.identity;
    const found =
      this.#batches.get(name) ??
      batchOf(run, (block) => this.#block(manifest, block)).then((batch) => this.#engine!.give(name, batch));
    this.#batches.set(name, found);
    found.catch(() => this.#batches.delete(name));
    return found;
  }

  /** The self-check: the reference losses of the smallest number of sequences. */
  async #check(name: string, run: Run, { reference, step }: Checkpoint): Promise<void> {
    const n = Math.min(...run.batch.sizes);
    const known = reference?.[n];
    if (!known)
      throw new BundleError(`There is no reference loss for step ${step}, so the page shows no live numbers.`);
    let own = Number.NaN;
    const request = { model: name, batch: run.identity, changes: [], sizes: [n] };
    await this.#engine!.losses(request, (scores) => {
      own = summary(scores).total.mean;
    });
    if (Math.abs(own - known.loss) <= NEAR.relative * Math.abs(known.loss) + NEAR.absolute) return;
    throw new BundleError(
      `At step ${step} the page computes a loss of ${own.toPrecision(5)} where PyTorch has ${known.loss.toPrecision(5)}, ` +
        "so it shows no live numbers.",
    );
  }

  async #block(manifest: Manifest, name: string): Promise<{ entry: BlockEntry; data: ArrayBuffer }> {
    const entry = manifest.blocks[name];
    if (!entry) throw new BundleError(`The bundle is cut short: it has no block ${name}.`);
    return { entry, data: await this.source.bytes(name, entry) };
  }

  async #look(
    request: { model: string; batch: string; changes: ReturnType<typeof changesOf> },
    row: number,
    run: Run,
    signal?: AbortSignal,
  ): Promise<InstanceAnswer> {
    const look = await this.#engine!.look({ ...request, row, n: Math.min(...run.batch.sizes) }, signal);
    return instanceOf(look, row, run);
  }

  async #remote(
    ask: LiveAsk,
    sizes: readonly number[],
    found: (answer: LiveAnswer, last: boolean) => void,
    signal?: AbortSignal,
  ): Promise<void> {
    for (const [i, n] of sizes.entries()) {
      const { paths: _, ...asked } = ask;
      const answer = await this.source.compute!({ ...asked, n });
      signal?.throwIfAborted();
      found({ ...answer, by: "server", hops: null, scores: null }, i === sizes.length - 1);
    }
  }
}

/** What a model is called in the worker; weights that were replaced are another model. */
function key(manifest: Manifest, run: Run, { step, weights }: Checkpoint): string {
  return `${run.identity}@${step} ${manifest.blocks[weights ?? ""]?.sha256 ?? ""}`;
}

function answerOf(ask: LiveAsk, scores: Scores, instance: InstanceAnswer | null): LiveAnswer {
  const { n, total, hops, accuracy } = summary(scores);
  const losses = Object.fromEntries(Object.entries(hops).map(([name, { mean }]) => [name, mean]));
  const { run, step } = ask;
  return {
    ...{ run, step, n, accuracy, instance, hops, scores },
    ...{ loss: total.mean, low: total.low, high: total.high },
    hop_losses: losses,
    by: "page",
  };
}

/** A look in the words that the server has for it. */
function instanceOf(look: Look, instance: number, run: Run): InstanceAnswer {
  const answers: InstanceAnswer["answers"] = [];
  for (const { query, named, distance, runner_up, runner_up_distance } of look.answers) {
    answers[query] ??= [];
    answers[query].push({ named, distance, runner_up, margin: runner_up_distance - distance });
  }
  return { instance, patterns: patternsOf(look, run), answers };
}

function patternsOf(look: Look, { model, task }: Run): number[][][] {
  const size = task.n_positions ** 2;
  return Array.from({ length: model.n_layers }, (_, layer) =>
    Array.from({ length: model.n_heads }, (_, head) => {
      const place = (layer * model.n_heads + head) * size;
      return Array.from(look.patterns.subarray(place, place + size));
    }),
  );
}

/** Answers with the names of what they name. */
export function answered(
  answers: TypedAnswer["answers"],
  row: number,
  named: (row: number, answer: number) => string,
): Answered[] {
  return answers.map((answer) => ({
    ...answer,
    named: named(row, answer.named),
    right: answer.right < 0 ? null : named(row, answer.right),
    runner_up: named(row, answer.runner_up),
  }));
}
