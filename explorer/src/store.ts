/** The page's state: the bundle, what is chosen, and the live numbers that follow from both. One store for each page. */
import { computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { type BlockEntry, BundleError, type Change, type Manifest, numbers, type Run, type Source } from "./bundle.ts";
import { type Choice, NOTHING, read, runOf, type View, written } from "./choice.ts";
import type { Lesson } from "./engine/lesson.ts";
import { Live, type LiveAnswer } from "./engine/live.ts";
import { start } from "./starting.ts";
import { Training } from "./training.ts";

/** Changes to attention: the part of a choice that can be undone. */
type Edit = Pick<Choice, "off" | "ideal" | "hand">;

/** Losses as they are and as they become, on the same sequences. */
export interface Numbers {
  /** Of the choice that they are about (`Store.key`). */
  key: string;
  base: LiveAnswer;
  changed: LiveAnswer;
}

export class Store {
  readonly manifest: Signal<Manifest | null> = signal(null);
  readonly choice: Signal<Choice> = signal(NOTHING);
  /** Why there is nothing to show, in one sentence. */
  readonly trouble: Signal<string> = signal("");
  /** What people should know once: values of the address that were ignored, and the like. */
  readonly told: Signal<string[]> = signal([]);
  readonly undoable: Signal<Edit[]> = signal([]);
  readonly playing: Signal<boolean> = signal(false);
  readonly numbers: Signal<Numbers | null> = signal(null);
  readonly busy: Signal<boolean> = signal(false);
  /** The numbers of what is chosen now; null while they are being computed, and where there are none. */
  readonly fresh: ReadonlySignal<Numbers | null> = computed(() =>
    this.numbers.value?.key === this.key.value ? this.numbers.value : null,
  );
  /** Why there are no live numbers, in one sentence. */
  readonly refusal: Signal<string> = signal("");
  readonly run: ReadonlySignal<Run | undefined> = computed(() => {
    const manifest = this.manifest.value;
    return manifest ? runOf(manifest, this.choice.value.run) : undefined;
  });
  readonly edited: ReadonlySignal<boolean> = computed(() => {
    const { off, ideal, hand } = this.choice.value;
    return hand || off.length + ideal.length > 0;
  });
  readonly live: Live;
  readonly training: Training;
  readonly #blocks = new Map<string, Promise<Float32Array>>();
  readonly #bases = new Map<string, LiveAnswer>();
  readonly #ends: (() => void)[] = [];

  constructor(readonly source: Source) {
    this.live = new Live(source, start());
    this.training = new Training(this.live.local);
  }

  /** Reads the bundle, and again as long as it grows; `address` is what stands behind # at first. */
  async open(address: string): Promise<void> {
    try {
      const manifest = await this.source.manifest();
      const { choice, told } = read(address, manifest);
      this.choice.value = choice;
      this.told.value = told;
      this.manifest.value = manifest;
      this.#ends.push(effect(() => this.#follow()));
      if (!manifest.progress.complete) this.#grow();
    } catch (error) {
      this.trouble.value = said(error);
    }
  }

  stop(): void {
    for (const end of this.#ends) end();
    this.playing.value = false;
    this.training.pause();
    this.live.stop();
  }

  /** Choose something else; what is not named stays. */
  choose(change: Partial<Choice>): void {
    this.choice.value = { ...this.choice.value, ...change };
  }

  /** Another view; what is knocked out of a run is not of the model that is trained in the page, nor the other way. */
  show(view: View): void {
    const apart = view === "train" || this.choice.value.view === "train";
    if (apart) this.undoable.value = [];
    this.choose(apart ? { view, off: [], ideal: [], hand: false } : { view });
  }

  /** To the view where this lesson is trained from its beginning. */
  learn(lesson: Lesson): void {
    this.show("train");
    this.choose({ lesson, trained: 0 });
  }

  /** Another run keeps none of the changes to this one's paths. */
  chooseRun(identity: string, more: Partial<Choice> = {}): void {
    const manifest = this.manifest.value!;
    const { choice } = read(`run=${identity}`, manifest);
    this.undoable.value = [];
    const { view, lesson, trained, find, verdict, study, paper, scale, claim } = this.choice.value; // which are of no run
    this.choice.value = { ...choice, view, lesson, trained, find, verdict, study, paper, scale, claim, ...more };
  }

  /** Change attention, so that it can be undone. */
  edit(change: Partial<Edit>): void {
    const { off, ideal, hand } = this.choice.value;
    this.undoable.value = [...this.undoable.value.slice(-99), { off, ideal, hand }];
    this.choose(change);
  }

  /** What becomes of one path. */
  put(path: string, state: "live" | "off" | "ideal"): void {
    const { off, ideal } = this.choice.value;
    const without = (list: readonly string[]) => list.filter((one) => one !== path);
    this.edit({
      off: state === "off" ? [...without(off), path] : without(off),
      ideal: state === "ideal" ? [...without(ideal), path] : without(ideal),
    });
  }

  stateOf(path: string): "live" | "off" | "ideal" {
    const { off, ideal } = this.choice.value;
    return off.includes(path) ? "off" : ideal.includes(path) ? "ideal" : "live";
  }

  undo(): void {
    const last = this.undoable.value.at(-1);
    if (!last) return;
    this.undoable.value = this.undoable.value.slice(0, -1);
    this.choose(last);
  }

  reset(): void {
    if (this.edited.value) this.edit({ off: [], ideal: [], hand: false });
  }

  address(): string {
    const manifest = this.manifest.value;
    return manifest ? written(this.choice.value, manifest) : "";
  }

  /** Another state from an address, such as a link or the browser's Back. */
  goTo(address: string): void {
    const manifest = this.manifest.value;
    if (!manifest || address.replace(/^#/, "") === this.address()) return;
    const { choice, told } = read(address, manifest);
    this.choice.value = choice;
    this.told.value = told;
  }

  change(): Change {
    const { off, ideal, hand } = this.choice.value;
    return { off: [...off], ideal: [...ideal], hand, null: this.run.value?.task.null ?? "uniform" };
  }

  /** A block as numbers; read once. */
  block(name: string): Promise<Float32Array> {
    const entry = this.manifest.value?.blocks[name];
    if (!entry) return Promise.reject(new BundleError(`The bundle is cut short: it has no block ${name}.`));
    return this.#read(name, entry, (data) => numbers(entry, data));
  }

  bytes(name: string): Promise<ArrayBuffer> {
    const entry = this.manifest.value?.blocks[name];
    if (!entry) return Promise.reject(new BundleError(`The bundle is cut short: it has no block ${name}.`));
    return this.source.bytes(name, entry);
  }

  #read(name: string, entry: BlockEntry, decode: (data: ArrayBuffer) => Float32Array): Promise<Float32Array> {
    const key = `${name} ${entry.sha256}`;
    let found = this.#blocks.get(key);
    if (!found) {
      found = this.source.bytes(name, entry).then(decode);
      found.catch(() => this.#blocks.delete(key));
      this.#blocks.set(key, found);
    }
    return found;
  }

  /** Asks for the manifest once more, until it is whole. */
  #grow(): void {
    const timer = setInterval(async () => {
      try {
        const next = await this.source.manifest();
        const now = this.manifest.value!;
        if (next.revision !== now.revision) this.#replace(next, now);
        if (next.progress.complete) clearInterval(timer);
      } catch (error) {
        clearInterval(timer);
        this.told.value = [...this.told.value, said(error)];
      }
    }, 1000);
    this.#ends.push(() => clearInterval(timer));
  }

  /** Who looks at the newest checkpoint goes on looking at the newest. */
  #replace(next: Manifest, now: Manifest): void {
    const { run, step } = this.choice.value;
    const [before, after] = [runOf(now, run), runOf(next, run)];
    const newest = (one?: Run) => one?.checkpoints?.filter(({ state }) => state === "ready").at(-1)?.step;
    this.manifest.value = next;
    if (!after) this.choice.value = read("", next).choice;
    else if (step === -1 || (before && !before.done && newest(before) === step)) {
      this.choose({ step: newest(after) ?? step });
    }
  }

  // Live numbers ---------------------------------------------------------------------------------------------------

  #asked = "";
  #stop = new AbortController();

  /** What live numbers depend on; numbers with another key are old. */
  readonly key: ReadonlySignal<string> = computed(() => {
    const { run: identity, step, off, ideal, hand } = this.choice.value;
    const checkpoint = this.run.value?.checkpoints?.find((one) => one.step === step);
    const sha = this.manifest.value?.blocks[checkpoint?.weights ?? ""]?.sha256 ?? "";
    return [identity, step, checkpoint?.state, sha, hand, off.join(), "|", ideal.join()].join(" ");
  });

  /** Runs whenever the choice changes: whatever was being computed is dropped. */
  #follow(): void {
    const key = this.key.value;
    if (this.choice.value.view === "train") return; // what is changed there is of another model
    const [manifest, run] = [this.manifest.peek(), this.run.peek()];
    if (!manifest || !run?.model || key === this.#asked) return;
    this.#asked = key;
    this.#stop.abort();
    this.#stop = new AbortController();
    void this.#compute(manifest, run, key, this.#stop.signal);
  }

  async #compute(manifest: Manifest, run: Run, key: string, signal: AbortSignal): Promise<void> {
    const { step } = this.choice.peek();
    const why = this.live.refusal(run, step);
    this.refusal.value = why ?? "";
    this.busy.value = !why;
    if (why) {
      this.numbers.value = null;
      return;
    }
    try {
      for (const n of run.batch.sizes) {
        const base = await this.#base(manifest, run, step, n, signal);
        const changed = this.edited.peek() ? await this.#answer(manifest, run, step, n, this.change(), signal) : base;
        if (signal.aborted) return;
        this.numbers.value = { key, base, changed };
      }
      this.busy.value = false;
    } catch (error) {
      if (signal.aborted) return;
      this.busy.value = false;
      this.numbers.value = null;
      this.refusal.value = said(error);
    }
  }

  async #base(manifest: Manifest, run: Run, step: number, n: number, signal: AbortSignal): Promise<LiveAnswer> {
    const weights = run.checkpoints.find((one) => one.step === step)?.weights ?? "";
    const key = `${run.identity} ${step} ${n} ${manifest.blocks[weights]?.sha256}`;
    const plain: Change = { off: [], ideal: [], hand: false, null: run.task.null };
    const found = this.#bases.get(key) ?? (await this.#answer(manifest, run, step, n, plain, signal));
    this.#bases.set(key, found);
    return found;
  }

  async #answer(
    manifest: Manifest,
    run: Run,
    step: number,
    n: number,
    change: Change,
    signal: AbortSignal,
  ): Promise<LiveAnswer> {
    let answer: LiveAnswer | null = null;
    const ask = { run: run.identity, step, change, instance: null, paths: run.circuit?.paths ?? [] };
    await this.live.losses(
      manifest,
      ask,
      [n],
      (found) => {
        answer = found;
      },
      signal,
    );
    return answer!;
  }
}

/** What went wrong, in the sentence that says so. */
export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const Context = createContext<Store | null>(null);
export const StoreProvider = Context.Provider;

export function useStore(): Store {
  return useContext(Context)!;
}
