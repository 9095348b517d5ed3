/** A tour of a run in six steps: each sets the page as it should be seen, and says what to look at. */
import { useEffect, useRef } from "preact/hooks";
import type { Run } from "./bundle.ts";
import type { Choice } from "./choice.ts";
import { nameOf } from "./parts/strengths.ts";
import { short, whole } from "./parts/words.ts";
import { useStore } from "./store.ts";

interface Stop {
  title: string;
  text: string;
  choice: Partial<Choice>;
}

/** Whether a run shows what the tour tells: a circuit, and several hops. */
export function hasTour(run: Run): boolean {
  return Boolean(run.tour);
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
  const [start, plateau, pairs, first, last, trained] = run.tour as [number, number, number, number, number, number];
  const hops = run.task.hop_names;
  const learnt = hops.map((hop) => run.learnt[hop]?.step ?? Number.POSITIVE_INFINITY);
  const firstHop = hops[learnt.indexOf(Math.min(...learnt))]!;
  const lastHop = hops[learnt.lastIndexOf(Math.max(...learnt))]!;
  const [premises, conclusion] = run.batch.instances[0]?.facts[0] ?? [["a"], "b"];
  const victim = run.circuit!.paths.reduce((most, one) => (one.silenced_loss > most.silenced_loss ? one : most));
  const learns = (hop: string): string => {
    const step = run.learnt[hop]?.step;
    return step === null || step === undefined ? "" : ` below ${run.task.learnt_below} at about step ${whole(step)}`;
  };
  return [
    {
      title: "The problem",
      text: `The model reads facts such as ${premises.join(" + ")} → ${conclusion}, shuffled, and then a query. It must say what follows from the query after one fact, after two, and so on. Here are its losses over training, one line for each of ${hops.length} hops.`,
      choice: { view: "run", step: start },
    },
    {
      title: "The plateau",
      text: `For a while nothing seems to happen: the losses lie where an answer without any fact lies. But attention is already moving; see the rows below the curves.`,
      choice: { view: "run", step: plateau },
    },
    {
      title: "Pairs join",
      text: `To follow a hop, the two tokens of a fact must meet: a head lets the second attend to the first, from value to key. ${joined(run)} See the arrows of the first layer.`,
      choice: { view: "circuit", step: pairs },
    },
    {
      title: `The first hop, ${firstHop}`,
      text: `Now the query can find its fact: it attends to the value of the fact whose key it is, and the loss of ${firstHop} falls${learns(firstHop)}.`,
      choice: { view: "circuit", step: first },
    },
    {
      title: `The last hop, ${lastHop}`,
      text: `A later layer does the same with what the earlier one fetched. Heads are stacked: each hop stands on the one before it, and the loss of ${lastHop} falls${learns(lastHop)}.`,
      choice: { view: "circuit", step: last },
    },
    {
      title: "Knock out, and see",
      text: `Here ${nameOf(victim)} is knocked out of the trained model, which runs in this page: the loss goes up to ${short(victim.silenced_loss)}. See what each hop loses. Press Undo, or click any arrow. A circuit counts if, with all else taken away, the loss stays below ${run.circuit!.threshold}.`,
      choice: { view: "circuit", step: trained, off: [nameOf(victim)] },
    },
  ];
}

/** When the first path between the two tokens of a fact came, in a sentence. */
function joined(run: Run): string {
  const pairs = run.circuit!.paths.filter(({ query, key }) => query.startsWith("value") && key.startsWith("key"));
  const onsets = pairs.flatMap((path) => run.onsets[nameOf(path)] ?? []);
  if (onsets.some(({ status }) => status === "already")) {
    return "Here a head of the first layer does so from the start: it was set up to attend to the token before.";
  }
  const steps = onsets.flatMap(({ step }) => (step === null ? [] : [step]));
  return steps.length ? `Here that attention passes one half at about step ${whole(Math.min(...steps))}.` : "";
}
