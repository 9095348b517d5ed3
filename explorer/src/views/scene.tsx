/** The landing view: one question in names, the model's answer, and the circuit over these very tokens. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import { type Decoder, decodersOf } from "../engine/decoding.ts";
import { CHAIN, nameOf, type Scene } from "../engine/scene.ts";
import { type Problem, problem } from "../engine/typed.ts";
import { type Chip, Drawing } from "../parts/diagram.tsx";
import { exampleOf } from "../parts/example.ts";
import type { Shown } from "../parts/layout.ts";
import { WayBack } from "../parts/losses.tsx";
import { nameOf as pathName } from "../parts/strengths.ts";
import { hue, name } from "../parts/words.ts";
import { said, useStore } from "../store.ts";
import { type Paragraph, paragraphs } from "../told.ts";

const MOST = 8; // chips in one place are never more; two or three are usual
export const COUNTED = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

export function SceneView() {
  const store = useStore();
  const run = store.run.value!;
  const { draw, tell } = store.choice.value;
  const asked = useMemo(() => problem(exampleOf(run, Number(run.task.settings.n_chains)), run), [run.identity]);
  const { scene, told } = useScene(run, asked, draw);
  const parts = paragraphs(run, asked);
  const at = parts[tell - 1] ?? parts[0]!;
  return (
    <div class="view scene-view">
      <section class="card ask">
        <Question problem={asked} />
        <Answers run={run} problem={asked} scene={scene} />
        <div class="actions">
          <button type="button" onClick={() => store.choose({ draw: draw + 1 })}>
            Ask again, shuffled anew
          </button>
          <button type="button" class="quiet" disabled={!store.edited.value} onClick={() => store.reset()}>
            Put all arrows back
          </button>
          <button type="button" class="main" onClick={() => store.show("train")}>
            Train one here, from random weights
          </button>
        </div>
        {told && (
          <>
            <p class="refusal" role="status">
              {told}
            </p>
            <WayBack />
          </>
        )}
      </section>
      <section class="card">
        {scene && <Tokens run={run} scene={scene} paragraph={tell ? at : null} />}
        <p class="hint">
          Each column is a position of the sequence, and layers go up. An arrow carries information to the position that
          attends; it is as strong as the attention on this very sequence. A name on a line is what that position holds
          after the layer, as read by a linear decoder that names the right symbol in at least{" "}
          {Math.round(100 * run.decoders!.least)} % of {run.decoders!.n.toLocaleString("en-US")} other sequences; “?” is
          read less surely. Click an arrow, or press Enter on it, to knock it out.
        </p>
      </section>
      <Told parts={parts} tell={tell} />
    </div>
  );
}

/** The scene of what is chosen, computed anew when that is another; the old one stays until the new one is there. */
function useScene(run: Run, asked: Problem, draw: number): { scene: Scene | null; told: string } {
  const store = useStore();
  const [state, setState] = useState<{ scene: Scene | null; told: string }>({ scene: null, told: "" });
  const decoders = useMemo(() => read(store, run), [run.identity]);
  useEffect(() => {
    const stop = new AbortController();
    const { step } = store.choice.value;
    const find = async (): Promise<Scene> => {
      const good = await decoders;
      const ask = { run: run.identity, step, change: store.change() };
      const known = step === run.decoders?.step ? good : [];
      return store.live.scene(store.manifest.value!, ask, asked, { seed: draw, decoders: known, signal: stop.signal });
    };
    find().then(
      (scene) => !stop.signal.aborted && setState({ scene, told: "" }),
      (error) => !stop.signal.aborted && setState((before) => ({ ...before, told: said(error) })),
    );
    return () => stop.abort();
  }, [store.key.value, draw, asked]);
  return state;
}

async function read(store: ReturnType<typeof useStore>, run: Run): Promise<Decoder[]> {
  return run.decoders ? decodersOf(run.decoders, await store.block(run.decoders.block), run.task.d_symbol!) : [];
}

export function Question({ problem: asked }: { problem: Problem }) {
  const hops = asked.sheet.steps.length;
  const steps = COUNTED[hops] ?? String(hops);
  const facts = Array.from({ length: hops }, (_, hop) => [nameOf(asked, hop, CHAIN), nameOf(asked, hop + 1, CHAIN)]);
  return (
    <>
      <p class="facts-told">
        {facts.map(([from, to], i) => (
          <span key={from}>
            {i > 0 && ", "}
            <b>
              {from} → {to}
            </b>
          </span>
        ))}
        , shuffled among {asked.sheet.facts.length - hops} other facts.
      </p>
      <p class="question">
        Who is {steps} {hops === 1 ? "step" : "steps"} from <b>{nameOf(asked, 0, CHAIN)}</b>?
      </p>
    </>
  );
}

export function Answers({ run, problem: asked, scene }: { run: Run; problem: Problem; scene: Scene | null }) {
  const last = asked.sheet.steps.length;
  const unasked = last - run.task.hop_names.length;
  const said = (scene?.answers ?? []).map((one) => ({ ...one, hop: unasked + one.hop + 1 }));
  return (
    <p class="said" role="status" data-answered={scene ? "yes" : "no"}>
      <span class="saying">The model answers</span>
      {said.reverse().map(({ hop, named, right }) => (
        <span key={hop} class={`saying ${named === right ? "fine" : "wrong"}${hop === last ? " asked" : ""}`}>
          {hop < last && `${COUNTED[hop]} ${hop > 1 ? "steps" : "step"}: `}
          <b class="named" style={{ borderColor: hue(hop) }} data-hop={hop}>
            <bdi>{name(named, 16)}</bdi> <i aria-hidden="true">{named === right ? "✓" : "✗"}</i>
          </b>
          <span class="hidden">{named === right ? "right" : `wrong, it is ${nameOf(asked, hop, CHAIN)}`}</span>
        </span>
      ))}
    </p>
  );
}

/** The circuit over the tokens of this sequence. */
function Tokens({ run, scene, paragraph }: { run: Run; scene: Scene; paragraph: Paragraph | null }) {
  const store = useStore();
  const { off, ideal } = store.choice.value;
  const chain = useMemo(() => ({ symbols: scene.sequence.symbols, roles: scene.sequence.roles, letter: "a" }), [scene]);
  const shown = useMemo(() => shownOf(store, run, scene), [scene, off, ideal]);
  const chips = useMemo(() => (layers: number, role: string) => chipsOf(run, scene, layers, role), [scene]);
  const all = useMemo(() => [shown], [shown]);
  const faint = (layer: number): boolean => paragraph?.layers !== undefined && !paragraph.layers.includes(layer);
  return <Drawing run={run} chain={chain} all={all} shown={shown} chips={chips} faint={faint} />;
}

function shownOf(store: ReturnType<typeof useStore>, run: Run, scene: Scene): Shown[] {
  const ours = new Set(run.circuit?.paths.map(pathName));
  return run.paths.flatMap((path): Shown[] => {
    const state = store.stateOf(path.name);
    if (!ours.has(path.name) && state === "live") return [];
    const said = { off: "off", ideal: "ideal", live: scene.attention(path).toFixed(2) }[state];
    const notes = path.chain === "other" ? [`their ${path.key}`] : [];
    return [{ path, ours: true, label: `L${path.layer}H${path.head} ${said}`, notes }];
  });
}

/** What a stream holds that it did not hold before the first layer; a question mark where that is read less surely. */
export function chipsOf(run: Run, scene: Scene, layers: number, role: string): Chip[] {
  const from = run.decoders!.cells.filter((one) => one.layer === 0 && one.role === role);
  const own = from.find(({ accuracy }) => accuracy >= run.decoders!.least)?.hop;
  const held = scene.holds(layers, role).filter(({ hop }) => hop !== own);
  const chips = held.map(({ name: text, hop, right }): Chip => ({ text, symbol: hop, right }));
  const unsure = run.decoders!.cells.some(
    (one) => one.layer === layers && one.role === role && one.accuracy > 0.5 && one.accuracy < run.decoders!.least,
  );
  return [...chips, ...(unsure ? [{ text: "?", symbol: -1, right: true }] : [])].slice(0, MOST);
}

/** The tour in paragraphs, which move the same picture. */
function Told({ parts, tell }: { parts: Paragraph[]; tell: number }) {
  const store = useStore();
  const at = Math.max(1, tell);
  const { title, text } = parts[at - 1]!;
  const go = (to: number): void => {
    const next = parts[to - 1]!;
    store.choose({ tell: to });
    if (store.edited.value || next.off.length) store.edit({ off: next.off, ideal: [], hand: false });
  };
  return (
    <section class="card told" aria-label={`How it works, ${at} of ${parts.length}`}>
      <p class="tour-count">
        {at} of {parts.length}
      </p>
      <h2>{title}</h2>
      {text.map((one) => (
        <p key={one}>{one}</p>
      ))}
      <div class="tour-steps">
        <button type="button" disabled={at === 1} onClick={() => go(at - 1)}>
          Back
        </button>
        <button type="button" class="main" onClick={() => go(at === parts.length ? 1 : at + 1)}>
          {at === parts.length ? "From the start" : "Next"}
        </button>
      </div>
    </section>
  );
}
