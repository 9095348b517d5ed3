/** Train a model here: the knobs, its losses as they fall, and the circuit as it grows over the tokens of a question. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import { keyOf, LEARNT, type Lesson, MOST } from "../engine/lesson.ts";
import { expected, verdict, warning } from "../lessons.ts";
import { Curves, Legend } from "../parts/curves.tsx";
import { Drawing } from "../parts/diagram.tsx";
import type { Shown } from "../parts/layout.ts";
import { save } from "../parts/sharing.tsx";
import { whole } from "../parts/words.ts";
import { learned, routesOf } from "../routes.ts";
import { packed } from "../saving.ts";
import { said, useStore } from "../store.ts";
import type { Seen, Training } from "../training.ts";
import { Answers, Asking, COUNTED, chipsOf, HowToRead, MARKED, Question } from "./scene.tsx";

const GROWN = 0.3; // mean attention from which a path is drawn
const STRONG = 0.5; // from which it is counted to a way of hopping
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
      <Circuit run={run} />
      {run && <Losses run={run} step={step} />}
    </div>
  );
}

function Knobs({ lesson }: { lesson: Lesson }) {
  const store = useStore();
  const { training } = store;
  const running = training.running.value;
  const { trained } = store.choice.value;
  const step = training.seen.value?.step ?? 0;
  const told = verdict(lesson, training.losses, step, running, trained);
  const warned = warning(lesson);
  const set = (change: Partial<Lesson>): void => {
    store.choose({ lesson: { ...lesson, ...change }, trained: 0, off: [] });
  };
  return (
    <section class="card knobs">
      <h2>Train a model here</h2>
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
          Prior: layer 0 begins by reading the token before
        </label>
        <label>
          <input
            type="checkbox"
            checked={lesson.curriculum === "implicit"}
            onChange={({ currentTarget: { checked } }) => set({ curriculum: checked ? "implicit" : "none" })}
          />{" "}
          Curriculum: every hop is asked, not the last alone
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
      <p class="hint">
        {lesson.prior ? "All other weights are random." : "All weights are random."} {expected(lesson)}
      </p>
      {warned && <p class="refusal">{warned}</p>}
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
        {told} {told.startsWith("Learnt") && learned(strong(training))}
      </p>
    </section>
  );
}

/** The paths that are strong by now. */
function strong({ run, seen }: Training): Run["paths"] {
  const { strengths } = seen.value ?? {};
  return run.value?.paths.filter((_, i) => (strengths?.[i] ?? 0) >= STRONG) ?? [];
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
    <section class="card falls" data-step={step} data-settled={training.busy.value ? "no" : "yes"}>
      <div class="card-head">
        <h2>Loss of each hop at step {whole(step)}</h2>
        <Legend run={run} step={step} />
      </div>
      <Curves run={shown} step={step} pick={() => {}} height={190} range={RANGE} left={44} />
      <p class="hint">
        {run.task.hop_names
          .map((hop) => `${hop}: the answer after ${COUNTED[Number(hop.slice(1))]} ${hop === "x1" ? "step" : "steps"}`)
          .join(". ")}
        . On 64 sequences that are not trained on. Dotted: what it costs to answer with zeros, or with the mean of the
        four symbols of that step; and {LEARNT}, below which a hop is learnt.
      </p>
    </section>
  );
}

function Circuit({ run }: { run: Run | null }) {
  const store = useStore();
  const { training } = store;
  const { off } = store.choice.value;
  const seen = training.seen.value;
  const problem = training.problem;
  const met = useRef({ key: "", names: new Set<string>() });
  if (!run || !seen || !problem || !run.decoders) {
    return <section class="card picture waiting">{training.trouble.value || "Loading the model …"}</section>;
  }
  if (met.current.key !== run.identity) met.current = { key: run.identity, names: new Set() };
  run.paths.forEach((path, i) => {
    if (seen.strengths[i]! >= GROWN) met.current.names.add(path.name);
  });
  return (
    <section class="card picture ask">
      <Question problem={problem} />
      <Answers problem={problem} scene={seen.scene} />
      <Grown run={run} seen={seen} met={met.current.names} off={off} />
      <Asking />
      <HowToRead>
        Arrows are paths between the positions of a chain with a mean attention of {GROWN} or more on 64 sequences;
        click one once training is paused. A name on a line is read by a linear decoder, fitted anew as the model learns
        (last at step {run.decoders.step}), that is right in at least {Math.round(100 * run.decoders.least)} % of{" "}
        {run.decoders.n} other sequences. {MARKED}
      </HowToRead>
    </section>
  );
}

function Grown({ run, seen, met, off }: { run: Run; seen: Seen; met: Set<string>; off: readonly string[] }) {
  const { training } = useStore();
  const { symbols, roles } = seen.scene.sequence;
  const chain = useMemo(() => ({ symbols, roles, letter: "a" }), [symbols.join(), roles.join()]);
  const told = (one: Run["paths"][number]): Shown => {
    const gone = off.includes(one.name);
    const strength = seen.scene.attention(one);
    const label = `L${one.layer}H0 ${gone ? "off" : strength.toFixed(2)}`;
    return { path: one, ours: true, label, strength, notes: [] };
  };
  const known = run.paths.filter(({ name }) => met.has(name));
  const all = [known.map(told)];
  const now = new Set(run.paths.filter((_, i) => seen.strengths[i]! >= GROWN).map(({ name }) => name));
  const shown = known.filter(({ name }) => now.has(name) || off.includes(name)).map(told);
  const held = { ...seen.held, answers: seen.scene.answers };
  const chips = (layers: number, role: string) =>
    chipsOf(run, training.problem!, held, { layers, role, edited: off.length > 0 });
  const { joins, again, joined } = routesOf(strong(training));
  const way = training.learnt && !off.length ? [...again, ...joined] : [];
  const lit = way.length ? [...joins, ...way].map(({ name }) => name) : [];
  return <Drawing run={run} chain={chain} all={all} shown={shown} chips={chips} lit={lit} />;
}
