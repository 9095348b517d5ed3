/** The shell: what run this is, the views, the slider over training, and keys that work everywhere. */
import { useEffect, useRef } from "preact/hooks";
import { sceneable, VIEWS, type View } from "./choice.ts";
import { Sharing } from "./parts/sharing.tsx";
import { called, name } from "./parts/words.ts";
import { type Store, StoreProvider, useStore } from "./store.ts";
import { Transport } from "./transport.tsx";
import { Census } from "./views/census.tsx";
import { CircuitView } from "./views/circuit.tsx";
import { Claims } from "./views/claims.tsx";
import { Compare } from "./views/compare.tsx";
import { Heads } from "./views/heads.tsx";
import { RunView } from "./views/run.tsx";
import { SceneView } from "./views/scene.tsx";
import { Train } from "./views/train.tsx";
import { Try } from "./views/try.tsx";

const TITLES: Record<View, string> = {
  scene: "Scene",
  train: "Train",
  run: "Run",
  circuit: "Circuit",
  heads: "Heads",
  try: "Try",
  compare: "Compare",
  census: "Census",
  claims: "Claims",
};
const PAGES: Record<View, () => preact.JSX.Element | null> = {
  scene: SceneView,
  train: Train,
  run: RunView,
  circuit: CircuitView,
  heads: Heads,
  try: Try,
  compare: Compare,
  census: Census,
  claims: Claims,
};
/** Views over one run at one step; the others are about several. */
const STEPPED: readonly View[] = ["run", "circuit", "heads", "try", "compare"];

export function App({ store }: { store: Store }) {
  return (
    <StoreProvider value={store}>
      <Shell />
    </StoreProvider>
  );
}

function Shell() {
  const store = useStore();
  const manifest = store.manifest.value;
  const { view } = store.choice.value;
  const run = store.run.value;
  const main = useRef<HTMLElement>(null);
  const began = useRef(false);
  if (!manifest) {
    return (
      <main class="alone">
        <p role={store.trouble.value ? "alert" : "status"}>{store.trouble.value || "Loading …"}</p>
      </main>
    );
  }
  useEffect(() => {
    if (document.activeElement === document.body && began.current) main.current?.focus({ preventScroll: true });
    began.current ||= Boolean(manifest);
  }, [view, Boolean(manifest)]); // what had led here is gone: focus goes on from the view's beginning
  const Page = PAGES[view === "scene" && !sceneable(run) ? "run" : view];
  const shown = run && !run.error ? true : ["claims", "census", "train"].includes(view);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys that work wherever one is, beside controls that do the same
    <div class="shell" onKeyDown={(event) => keys(event, store)}>
      <button type="button" class="hidden" onClick={() => main.current?.focus()}>
        Skip to the view
      </button>
      <Header />
      <Notes />
      <main id="view" tabindex={-1} ref={main}>
        {shown ? <Page /> : <p class="empty">{run?.error ?? "There is no run in this page: look at its claims."}</p>}
      </main>
      {run && !run.error && STEPPED.includes(view) && <Transport />}
    </div>
  );
}

function Header() {
  const store = useStore();
  const manifest = store.manifest.value!;
  const { view, run: identity } = store.choice.value;
  const run = store.run.value;
  const views = VIEWS.filter((one) =>
    one === "claims"
      ? manifest.claims
      : run && (one !== "scene" || sceneable(run)) && (one !== "census" || manifest.runs.length > 1),
  );
  useEffect(() => {
    if (run && !document.title.startsWith(called(run))) document.title = `${called(run)} · hopscope explorer`;
  }, [run?.name, run]);
  return (
    <header class="top">
      <div class="brand">
        <span class="mark" aria-hidden="true">
          <i />
          <i />
          <i />
        </span>
        <h1>
          <span class="hidden">hopscope explorer: </span>
          {manifest.runs.length > 1 ? (
            <select aria-label="Run" value={identity} onChange={(event) => store.chooseRun(event.currentTarget.value)}>
              {manifest.runs.map((one) => (
                <option key={one.identity} value={one.identity}>
                  {called(one)}
                </option>
              ))}
            </select>
          ) : (
            <bdi>{run ? called(run) : "claims"}</bdi>
          )}
        </h1>
      </div>
      <nav aria-label="Views">
        {views.map((one) => (
          <button
            key={one}
            type="button"
            class={one === "train" ? "tab first" : "tab"}
            data-view={one}
            aria-current={one === view ? "page" : undefined}
            onClick={() => store.show(one)}
          >
            {TITLES[one]}
          </button>
        ))}
      </nav>
      <div class="tools">
        <Sharing />
      </div>
    </header>
  );
}

/** What people should know: progress, what was ignored, what is not as it should be. */
function Notes() {
  const store = useStore();
  const { progress } = store.manifest.value!;
  const run = store.run.value;
  const here = run?.checkpoints?.find((one) => one.step === store.choice.value.step);
  const told = [...store.told.value, ...(run?.warnings ?? []), ...(here?.told ? [here.told] : [])];
  if (progress.complete && !told.length) return null;
  return (
    <div class="notes" role="status">
      {!progress.complete && (
        <p>
          <progress max={progress.of || 1} value={progress.done} aria-label="Measured checkpoints" />{" "}
          {name(progress.told || "Measuring …", 160)}
        </p>
      )}
      {told.map((one) => (
        <p key={one}>{name(one, 300)}</p>
      ))}
      {store.told.value.length > 0 && (
        <button type="button" class="quiet" onClick={() => (store.told.value = [])}>
          Dismiss
        </button>
      )}
    </div>
  );
}

const TYPED = "input:not([type=range]):not([type=radio]):not([type=checkbox]), textarea, select";

/** Arrows and Home and End go over training, Space plays, z undoes; but never where they mean something else. */
function keys(event: KeyboardEvent, store: Store): void {
  const target = event.target as Element;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest(TYPED)) return;
  if (event.key === "z") store.undo();
  if (store.choice.value.view === "train") return;
  if (target.closest("input:not(#step), button, [role=button], a, summary, [role=grid]")) return;
  const steps = store.run.value?.checkpoints?.map((one) => one.step) ?? [];
  const at = steps.indexOf(store.choice.value.step);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 }[event.key];
  if (to !== undefined && steps[to] !== undefined) store.choose({ step: steps[to] });
  else if (event.key === " ") store.playing.value = !store.playing.value;
  else return;
  event.preventDefault();
}
