/** The circuit's paths, each live, knocked out or held ideal; and all other paths of the model, by name. */
import { useState } from "preact/hooks";
import type { Path, Run } from "../bundle.ts";
import { useStore } from "../store.ts";
import { nameOf } from "./strengths.ts";
import { hueOf, kindOf } from "./words.ts";

const MOST = 12; // other paths shown at once
const STATES = [
  ["live", "live", "as the model computes it"],
  ["off", "off", "knocked out of the whole model: a null pattern in its place"],
  ["ideal", "ideal", "held ideal: attends to its target alone"],
] as const;

export function PathList({ run, strengths }: { run: Run; strengths: Float32Array | undefined }) {
  const store = useStore();
  const [wanted, setWanted] = useState("");
  const ours = new Set((run.circuit?.paths ?? []).map(nameOf));
  const { off, ideal } = store.choice.value;
  const live = store.fresh.value?.changed.scores?.strengths;
  const now = new Map((run.circuit?.paths ?? []).map((path, i) => [nameOf(path), live?.[i]]));
  const strength = (path: Path): number => now.get(path.name) ?? strengths?.[run.paths.indexOf(path)] ?? Number.NaN;
  const circuit = run.paths.filter((path) => ours.has(path.name));
  const touched = run.paths.filter(({ name }) => !ours.has(name) && (off.includes(name) || ideal.includes(name)));
  const others = run.paths
    .filter((path) => !ours.has(path.name) && !touched.includes(path) && fits(path, wanted))
    .sort((one, other) => (strength(other) || 0) - (strength(one) || 0));
  return (
    <section class="card paths">
      <h2>Paths</h2>
      {!circuit.length && <p class="hint">No circuit is known of this run; all of its paths are below.</p>}
      {[...circuit, ...touched].map((path) => (
        <PathRow key={path.name} run={run} path={path} strength={strength(path)} />
      ))}
      <details open={!circuit.length}>
        <summary>All other paths</summary>
        <input
          type="search"
          class="search"
          placeholder="Find a path, such as L1H0 query"
          aria-label="Find a path"
          value={wanted}
          onInput={(event) => setWanted(event.currentTarget.value.slice(0, 80))}
        />
        {others.slice(0, MOST).map((path) => (
          <PathRow key={path.name} run={run} path={path} strength={strength(path)} />
        ))}
        <p class="hint">
          {others.length > MOST ? `The ${MOST} strongest of ${others.length}.` : `${others.length} paths.`}
        </p>
      </details>
    </section>
  );
}

function fits(path: Path, wanted: string): boolean {
  const text = `${path.name} ${kindOf(path)}`.toLowerCase();
  return wanted
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function PathRow({ run, path, strength }: { run: Run; path: Path; strength: number }) {
  const store = useStore();
  const state = store.stateOf(path.name);
  const fed = feeders(run, path);
  return (
    <fieldset class={`path ${state}`}>
      <legend class="hidden">{path.name}</legend>
      <div class="path-name">
        <b class="mono">{`L${path.layer}H${path.head}`}</b> <span>{kindOf(path)}</span>
        <span class="path-strength num">{Number.isFinite(strength) ? strength.toFixed(2) : ""}</span>
        <span class="meter" aria-hidden="true">
          <i style={{ width: `${100 * (Math.min(1, Math.max(0, strength)) || 0)}%`, background: hueOf(run, path) }} />
        </span>
        {fed && <small class="hint">{fed}</small>}
      </div>
      <div class="segments">
        {STATES.map(([value, word, meaning]) => (
          <label key={value} title={meaning} class={state === value ? "on" : ""}>
            <input
              type="radio"
              name={`state ${path.name}`}
              checked={state === value}
              aria-label={`${word}: ${path.name}`}
              onChange={() => store.put(path.name, value)}
            />
            {word}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

interface Supply {
  path: Omit<Path, "name">;
  by: Omit<Path, "name">;
  supplies: string;
}

/** What a path attends with, or by: `fed by L0H0 value[1] reads key[1]`. */
function feeders(run: Run, path: Path): string {
  const all = (run.circuit?.supplies ?? []) as Supply[];
  const found = all.filter((supply) => nameOf(supply.path) === path.name);
  const words = [...new Set(found.map(({ by }) => `L${by.layer}H${by.head} ${kindOf(by)}`))];
  return words.length ? `fed by ${words.slice(0, 2).join(", ")}${words.length > 2 ? " …" : ""}` : "";
}
