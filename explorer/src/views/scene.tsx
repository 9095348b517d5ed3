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
import { hue, name, symbolOf } from "../parts/words.ts";
import { heldIn, type Wire } from "../routes.ts";
import { type Store, said, useStore } from "../store.ts";
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
  const part = parts[tell - 1];
  return (
    <div class="view scene-view">
      <section class="card ask">
        <div>
          <Question problem={asked} />
          <Answers problem={asked} scene={scene} />
        </div>
        <button type="button" class="main" onClick={() => store.show("train")}>
          Train a model here
        </button>
      </section>
      <Tour parts={parts} tell={tell} />
      <section class="card picture">
        {told && (
          <>
            <p class="refusal" role="status">
              {told}
            </p>
            <WayBack />
          </>
        )}
        {scene && part?.sketch ? (
          <Sketch run={run} scene={scene} problem={asked} wires={part.sketch} />
        ) : scene ? (
          <Tokens run={run} problem={asked} scene={scene} lit={part?.lit ?? []} />
        ) : (
          !told && <p class="waiting">Loading the model …</p>
        )}
        <Asking />
      </section>
      {!part?.sketch && (
        <section class="how">
          <HowToRead>
            A name on a line is what the position holds after the layer, read by a linear decoder that is right in at
            least {Math.round(100 * run.decoders!.least)} % of {run.decoders!.n.toLocaleString("en-US")} other
            sequences. {MARKED}
          </HowToRead>
        </section>
      )}
    </div>
  );
}

/** What one does with the question and the picture, wherever both stand. */
export function Asking() {
  const store = useStore();
  const { draw } = store.choice.value;
  return (
    <div class="actions">
      <button type="button" onClick={() => store.choose({ draw: draw + 1 })}>
        Shuffle and ask again
      </button>
      <button type="button" aria-disabled={!store.edited.value} onClick={() => store.reset()}>
        Put all arrows back
      </button>
    </div>
  );
}

export const MARKED = `With a question mark it is right in more than half of them. Struck out: it is no longer read there. At the top stands the answer: the name whose vector is nearest to the model's output.`;

export function HowToRead({ children }: { children: preact.ComponentChildren }) {
  return (
    <>
      <p class="hint">
        <b>Click an arrow, or press Enter on it, to knock it out.</b> An arrow goes from the position that is read to
        the one that reads it. It has the colour of the box that is read, and is as wide as the attention is strong.
      </p>
      <details>
        <summary>More on this picture</summary>
        <p class="hint">
          Columns are positions of the sequence, and layers go up. key[1] and value[1] are the two tokens of the first
          fact; L1H0 is head 0 of layer 1; +6 stands for six tokens of other facts and queries. {children}
        </p>
      </details>
    </>
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

async function read(store: Store, run: Run): Promise<Decoder[]> {
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

export function Answers({ problem: asked, scene }: { problem: Problem; scene: Scene | null }) {
  const last = asked.sheet.steps.length;
  return (
    <p class="said" role="status" data-answered={scene ? "yes" : "no"}>
      <span class="saying">{scene ? "The model answers" : "The model is being loaded …"}</span>
      {[...(scene?.answers ?? [])].reverse().map(({ hop, named, right }) => (
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
function Tokens(of: { run: Run; problem: Problem; scene: Scene; lit: readonly string[] }) {
  const { run, problem: asked, scene, lit } = of;
  const store = useStore();
  const { off, ideal } = store.choice.value;
  const edited = store.edited.value;
  const chain = useMemo(() => chainOf(scene), [scene]);
  const shown = useMemo(() => shownOf(store, run, scene), [scene, off, ideal]);
  const chips = useMemo(
    () => (layers: number, role: string) => chipsOf(run, asked, scene, { layers, role, edited }),
    [scene, edited],
  );
  const all = useMemo(() => [shown], [shown]);
  return <Drawing run={run} chain={chain} all={all} shown={shown} chips={chips} lit={lit} />;
}

const chainOf = ({ sequence: { symbols, roles } }: Scene) => ({ symbols, roles, letter: "a" });

function shownOf(store: Store, run: Run, scene: Scene): Shown[] {
  const ours = new Set(run.circuit?.paths.map(pathName));
  return run.paths.flatMap((path): Shown[] => {
    const state = store.stateOf(path.name);
    if (!ours.has(path.name) && state === "live") return [];
    const strength = scene.attention(path);
    const said = { off: "off", ideal: "ideal", live: strength.toFixed(2) }[state];
    const notes = path.chain === "other" ? [`others’ ${path.key}`] : [];
    return [{ path, ours: true, label: `L${path.layer}H${path.head} ${said}`, strength, notes }];
  });
}

/** A way that this model does not go, on the same tokens; it cannot be touched. */
function Sketch(of: { run: Run; problem: Problem; scene: Scene; wires: readonly Wire[] }) {
  const { run, problem: asked, scene, wires } = of;
  const small = { ...run, model: { ...run.model, n_layers: 1 + Math.max(...wires.map(({ layer }) => layer)) } };
  const shown = wires.map((wire): Shown => {
    const path = { ...wire, head: 0, name: `sketch ${wire.layer} ${wire.query}` };
    return { path, ours: true, label: "sketch", strength: 1, notes: [] };
  });
  const chips = (after: number, role: string): Chip[] =>
    heldIn(wires, symbolOf, after, role)
      .filter((symbol) => symbol !== symbolOf(role))
      .map((symbol) => ({ text: nameOf(asked, symbol, CHAIN), symbol, state: "held" }));
  return (
    <div class="sketch" inert>
      <Drawing run={small} chain={chainOf(scene)} all={[shown]} shown={shown} chips={chips} />
    </div>
  );
}

/** What a stream holds that it did not hold before the first layer; at the top of the query's, what is answered. */
export function chipsOf(
  run: Run,
  asked: Problem,
  scene: Scene,
  { layers, role, edited }: { layers: number; role: string; edited: boolean },
): Chip[] {
  if (role === "query" && layers === run.model.n_layers) {
    return scene.answers.map(({ hop, named, right }) => ({
      ...{ text: named, symbol: hop },
      state: named === right ? "held" : "wrong",
    }));
  }
  const { cells, least } = run.decoders!;
  const here = (at: number) => cells.filter((one) => one.layer === at && one.role === role);
  const own = here(0).find(({ accuracy }) => accuracy >= least)?.hop;
  const held = scene.holds(layers, role).filter(({ hop }) => hop !== own);
  const unsure = edited ? [] : here(layers).filter(({ accuracy }) => accuracy > 0.5 && accuracy < least);
  return [
    ...held.map(({ name: text, hop, right }): Chip => ({ text, symbol: hop, state: right ? "held" : "gone" })),
    ...unsure.map(({ hop }): Chip => ({ text: `${nameOf(asked, hop, CHAIN)}?`, symbol: hop, state: "unsure" })),
  ].slice(0, MOST);
}

/** The tour in paragraphs, which move the same picture. */
function Tour({ parts, tell }: { parts: Paragraph[]; tell: number }) {
  const store = useStore();
  const at = Math.min(parts.length, Math.max(1, tell));
  const { title, text, lesson } = parts[at - 1]!;
  const go = ({ currentTarget }: MouseEvent, to: number): void => {
    const { off = [] } = parts[to - 1]!;
    const picture = (currentTarget as Element).closest(".view")!.querySelector(".picture")!;
    picture.scrollIntoView({ block: "nearest" }); // on a phone it stands above the words
    store.choose({ tell: to });
    if (store.edited.value || off.length) store.edit({ off, ideal: [], hand: false });
  };
  return (
    <section class="card told" aria-label={`How it works, ${at} of ${parts.length}`}>
      <div class="tour-steps">
        <button type="button" aria-disabled={at === 1} onClick={(event) => at > 1 && go(event, at - 1)}>
          Back
        </button>
        <span>
          {at} of {parts.length}
        </span>
        <button type="button" class="main" onClick={(event) => go(event, at === parts.length ? 1 : at + 1)}>
          {at === parts.length ? "From the start" : "Next"}
        </button>
      </div>
      <h2>{title}</h2>
      {text.map((one) => (
        <p key={one}>{one}</p>
      ))}
      {lesson && (
        <button type="button" onClick={() => store.learn(lesson)}>
          Train a model of one layer, and see it fail
        </button>
      )}
    </section>
  );
}
