/** A tour of a run in six steps: each sets the page as it should be seen, and says what to look at. */
import { useEffect, useRef } from "preact/hooks";
import type { Run } from "./bundle.ts";
import type { Choice } from "./choice.ts";
import { lastStep } from "./choice.ts";
import { nameOf } from "./parts/strengths.ts";
import { whole } from "./parts/words.ts";
import { useStore } from "./store.ts";

interface Stop {
  title: string;
  text: string;
  choice: Partial<Choice>;
}

/** Whether a run shows what the tour tells: a circuit, and hops that were learnt in turn. */
export function hasTour(run: Run): boolean {
  return Boolean(run.circuit?.paths.length && run.task.hop_names.length > 1);
}

export function Tour() {
  const store = useStore();
  const run = store.run.value;
  const { tour } = store.choice.value;
  const panel = useRef<HTMLElement>(null);
  const shown = run && !run.error && tour > 0 && hasTour(run);
  const stops = shown ? stopsOf(run) : [];
  const stop = stops[tour - 1];
  useEffect(() => {
    if (!stop) return;
    const { off, ...place } = stop.choice;
    store.choose({ off: [], ideal: [], hand: false, ...place });
    if (off) store.edit({ off });
    panel.current?.focus({ preventScroll: true });
  }, [tour, shown]); // once for each stop
  if (!stop) return null;
  const go = (to: number): void => store.choose({ tour: to });
  return (
    <aside
      class="tour"
      ref={panel}
      tabindex={-1}
      aria-label={`Tour, ${tour} of ${stops.length}`}
      onKeyDown={(event) => event.key === "Escape" && go(0)}
    >
      <p class="tour-count">
        {tour} of {stops.length}
        <button type="button" class="quiet icon" aria-label="Leave the tour" onClick={() => go(0)}>
          ✕
        </button>
      </p>
      <h2>{stop.title}</h2>
      <p>{stop.text}</p>
      <div class="tour-steps">
        <button type="button" disabled={tour === 1} onClick={() => go(tour - 1)}>
          Back
        </button>
        <button type="button" class="main" onClick={() => go(tour === stops.length ? 0 : tour + 1)}>
          {tour === stops.length ? "Explore" : "Next"}
        </button>
      </div>
    </aside>
  );
}

/** The six stops, with this run's own steps and paths. */
function stopsOf(run: Run): Stop[] {
  const hops = run.task.hop_names;
  const learnt = hops.map((hop) => run.learnt[hop]?.step ?? null);
  const steps = run.checkpoints.map((one) => one.step);
  const after = (step: number | null): number => steps.find((one) => step !== null && one >= step) ?? lastStep(run);
  const before = (step: number | null): number =>
    steps.filter((one) => step !== null && one < step * 0.75).at(-1) ?? steps[0]!;
  const circuit = run.circuit!.paths;
  const names = circuit.map(nameOf);
  const onset = (name: string): number | null => run.onsets[name]?.step ?? null;
  const pairs = names.filter((_, i) => circuit[i]!.query.startsWith("value") && circuit[i]!.key.startsWith("key"));
  const joined = earliest(pairs.map(onset));
  const given = pairs.some((name) => run.onsets[name]?.status === "already");
  const first = earliest(learnt);
  const last = learnt.reduce<number | null>(
    (most, one) => (one !== null && (most === null || one > most) ? one : most),
    null,
  );
  const firstHop = hops[learnt.indexOf(first)] ?? hops[0]!;
  const lastHop = hops[learnt.indexOf(last)] ?? hops.at(-1)!;
  const [premises, conclusion] = run.batch.instances[0]?.facts[0] ?? [["a"], "b"];
  const victim = names[circuit.findIndex((path) => path.query === "query")] ?? names[0]!;
  const at = (step: number | null): string => (step === null ? "" : ` at about step ${whole(step)}`);
  return [
    {
      title: "The problem",
      text: `The model reads facts such as ${premises.join(" + ")} → ${conclusion}, shuffled, and then a query. It must say what follows from the query after one fact, after two, and so on. Here are its losses over training, one line for each of ${hops.length} hops.`,
      choice: { view: "run", step: steps[0]! },
    },
    {
      title: "The plateau",
      text: `For long nothing seems to happen: the losses lie where an answer without any fact lies. But attention is already moving; see the rows below the curves.`,
      choice: { view: "run", step: before(first) },
    },
    {
      title: "Pairs join",
      text: `Before any hop can be followed, the two tokens of a fact must meet: a head lets the second attend to the first, from value to key${given ? ". Here a head of the first layer does so from the start: it was set up to attend to the token before" : at(joined)}. See the arrows of the first layer.`,
      choice: { view: "circuit", step: given ? steps[0]! : after(joined) },
    },
    {
      title: `The first hop, ${firstHop}`,
      text: `Now the query can find its fact: it attends to the value of the fact whose key it is, and the loss of ${firstHop} falls${at(first)}.`,
      choice: { view: "circuit", step: after(first) },
    },
    {
      title: `The last hop, ${lastHop}`,
      text: `A later layer does the same with what the earlier one fetched. Heads are stacked: each hop stands on the one before it, and the loss of ${lastHop} falls last${at(last)}.`,
      choice: { view: "circuit", step: after(last) },
    },
    {
      title: "Knock out, and see",
      text: `Here ${victim} is knocked out of the trained model, which runs in this page: see what each hop loses at the right. Press Undo, or click any arrow. A circuit counts if, with all else taken away, the loss stays below ${run.circuit!.threshold}.`,
      choice: { view: "circuit", step: lastStep(run), off: [victim] },
    },
  ];
}

function earliest(steps: (number | null)[]): number | null {
  return steps.reduce<number | null>(
    (least, one) => (one !== null && (least === null || one < least) ? one : least),
    null,
  );
}
