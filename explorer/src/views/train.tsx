/** Train a model here: the knobs, its losses as they fall, and the circuit as it grows over the tokens of a question. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import { keyOf, type Lesson, MOST } from "../engine/lesson.ts";
import { expected, verdict } from "../lessons.ts";
import { Curves, Legend } from "../parts/curves.tsx";
import { Drawing } from "../parts/diagram.tsx";
import type { Shown } from "../parts/layout.ts";
import { save } from "../parts/sharing.tsx";
import { whole } from "../parts/words.ts";
import { packed } from "../saving.ts";
import { said, useStore } from "../store.ts";
import type { Seen } from "../training.ts";
import { Answers, chipsOf, Question } from "./scene.tsx";

const GROWN = 0.3; // mean attention from which a path is drawn
const RANGE = { low: 0.02, high: 1.3 }; // of losses

export function Train() {
  const store = useStore();
  const { training } = store;
  const { lesson, trained, draw, off } = store.choice.value;
  const key = keyOf(lesson);
  useEffect(() => {
    const now = training.lesson.peek();
    const same = now && keyOf(now) === key;
    if (!same || (trained && trained !== training.step && !training.running.peek())) training.begin(lesson, trained);
  }, [key, trained]);
  useEffect(() => training.look(draw, off), [draw, off]);
  useEffect(() => {
    const hidden = (): void => {
      if (document.hidden) training.pause();
    };
    document.addEventListener("visibilitychange", hidden);
    return () => {
      document.removeEventListener("visibilitychange", hidden);
      training.pause();
    };
  }, []);
  const { running } = training;
  const step = training.seen.value?.step ?? 0;
  useEffect(() => {
    if (!running.value && step && store.choice.peek().lesson === training.lesson.peek())
      store.choose({ trained: step });
  }, [running.value, step]);
  const run = training.run.value;
  return (
    <div class="view train-view">
      <Knobs lesson={lesson} />
      {run && <Losses run={run} step={step} />}
      {run && <Circuit run={run} />}
    </div>
  );
}

function Knobs({ lesson }: { lesson: Lesson }) {
  const store = useStore();
  const { training } = store;
  const running = training.running.value;
  const step = training.seen.value?.step ?? 0;
  const set = (change: Partial<Lesson>): void => {
    store.choose({ lesson: { ...lesson, ...change }, trained: 0, off: [] });
  };
  return (
    <section class="card knobs">
      <h2>Train a model from random weights</h2>
      <div class="knob-row">
        <Choose of="Hops" most={MOST.hops} value={lesson.hops} set={(hops) => set({ hops })} />
        <Choose of="Layers" most={MOST.layers} value={lesson.layers} set={(layers) => set({ layers })} />
        <label>
          <input
            type="checkbox"
            checked={lesson.prior}
            onChange={({ currentTarget: { checked } }) =>
              set(checked ? { prior: true } : { prior: false, layers: MOST.layers })
            }
          />{" "}
          Prior for the token before
        </label>
        <label>
          <input
            type="checkbox"
            checked={lesson.curriculum === "implicit"}
            onChange={({ currentTarget: { checked } }) => set({ curriculum: checked ? "implicit" : "none" })}
          />{" "}
          Ask every hop (curriculum)
        </label>
        <label>
          Seed{" "}
          <input
            type="number"
            min="0"
            max={MOST.seed}
            value={lesson.seed}
            onChange={({ currentTarget: { value } }) => {
              const seed = Math.round(Number(value));
              if (seed >= 0 && seed <= MOST.seed) set({ seed });
            }}
          />
        </label>
      </div>
      <p class="hint">{expected(lesson)}</p>
      <div class="actions">
        <button
          type="button"
          class="main"
          data-train={running ? "running" : "paused"}
          onClick={() => (running ? training.pause() : training.start())}
        >
          {running ? "Pause" : step ? "Go on" : "Train"}
        </button>
        <button type="button" disabled={running} onClick={() => training.once()}>
          One step
        </button>
        <button type="button" disabled={!step} onClick={() => set({})}>
          Start over
        </button>
        <Save />
      </div>
      {training.trouble.value && (
        <p class="refusal" role="alert">
          {training.trouble.value}
        </p>
      )}
      <p class="outcome" role="status">
        {verdict(lesson, training.losses, step, running)}
      </p>
    </section>
  );
}

function Choose({ of, most, value, set }: { of: string; most: number; value: number; set: (value: number) => void }) {
  return (
    <fieldset class="choose">
      <legend>{of}</legend>
      {Array.from({ length: most }, (_, i) => i + 1).map((one) => (
        <label key={one}>
          <input type="radio" name={of} checked={one === value} onChange={() => set(one)} /> {one}
        </label>
      ))}
    </fieldset>
  );
}

/** Offers the model as a run's folder. */
function Save() {
  const { training } = useStore();
  const [told, setTold] = useState("");
  const offer = async (): Promise<void> => {
    try {
      const { name, bytes } = await packed(training.lesson.peek()!, training.run.peek()!, await training.weights());
      save(name, "application/x-tar", bytes);
      setTold(
        `Saved as ${name}. Unpack it with tar -xf ${name}, and look at it with hopscope show ${name.slice(0, -4)}.`,
      );
    } catch (error) {
      setTold(said(error));
    }
  };
  return (
    <>
      <button type="button" disabled={training.running.value || !training.seen.value?.step} onClick={offer}>
        Save as a run
      </button>
      <span class="hint" role="status">
        {told}
      </span>
    </>
  );
}

function Losses({ run, step }: { run: Run; step: number }) {
  const { training } = useStore();
  const steps = [0, Math.max(100, step)].map((one) => ({ step: one }) as Run["checkpoints"][number]);
  const shown = { ...run, checkpoints: steps };
  return (
    <section class="card" data-step={step} data-settled={training.busy.value ? "no" : "yes"}>
      <div class="card-head">
        <h2>Loss of each hop at step {whole(step)}</h2>
        <Legend run={run} step={step} />
      </div>
      <Curves run={shown} step={step} pick={() => {}} height={190} range={RANGE} left={44} />
    </section>
  );
}

function Circuit({ run }: { run: Run }) {
  const store = useStore();
  const { training } = store;
  const { draw, off } = store.choice.value;
  const seen = training.seen.value;
  const problem = training.problem;
  const met = useRef({ key: "", names: new Set<string>() });
  if (!seen || !problem || !run.decoders) return null;
  if (met.current.key !== run.identity) met.current = { key: run.identity, names: new Set() };
  run.paths.forEach((path, i) => {
    if (seen.strengths[i]! >= GROWN) met.current.names.add(path.name);
  });
  return (
    <section class="card">
      <Question problem={problem} />
      <Answers run={run} problem={problem} scene={seen.scene} />
      <Grown run={run} seen={seen} met={met.current.names} off={off} />
      <div class="card-foot">
        <p class="hint">
          Arrows are paths between the positions of a chain with a mean attention of {GROWN} or more on 64 sequences, as
          strong as on this one. A name on a line is read by a linear decoder, fitted anew as the model learns (last at
          step {run.decoders.step}), that names the right symbol in at least {Math.round(100 * run.decoders.least)} % of{" "}
          {run.decoders.n} other sequences; “?” is read less surely. Once training is paused, click an arrow to knock it
          out.
        </p>
        <button type="button" onClick={() => store.choose({ draw: draw + 1 })}>
          Ask again, shuffled anew
        </button>
        <button type="button" class="quiet" disabled={!store.edited.value} onClick={() => store.reset()}>
          Put all arrows back
        </button>
      </div>
    </section>
  );
}

function Grown({ run, seen, met, off }: { run: Run; seen: Seen; met: Set<string>; off: readonly string[] }) {
  const { symbols, roles } = seen.scene.sequence;
  const chain = useMemo(() => ({ symbols, roles, letter: "a" }), [symbols.join(), roles.join()]);
  const told = (one: Run["paths"][number]): Shown => {
    const gone = off.includes(one.name);
    const label = `L${one.layer}H0 ${gone ? "off" : seen.scene.attention(one).toFixed(2)}`;
    return { path: one, ours: true, label, notes: [] };
  };
  const known = run.paths.filter(({ name }) => met.has(name));
  const all = [known.map(told)];
  const strong = new Set(run.paths.filter((_, i) => seen.strengths[i]! >= GROWN).map(({ name }) => name));
  const shown = known.filter(({ name }) => strong.has(name) || off.includes(name)).map(told);
  const chips = (layers: number, role: string) => chipsOf(run, seen.held, layers, role);
  return <Drawing run={run} chain={chain} all={all} shown={shown} chips={chips} />;
}
