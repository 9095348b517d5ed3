/** View 3: what every head attends to on one sequence; one of them large, as it is, by hand, and changed. */
import { useEffect, useState } from "preact/hooks";
import type { Change, Run } from "../bundle.ts";
import { heads } from "../choice.ts";
import { BigMap, type Spot } from "../parts/big-map.tsx";
import { told } from "../parts/example.ts";
import { Thumbnail } from "../parts/map.tsx";
import { TableOf } from "../parts/table.tsx";
import { name } from "../parts/words.ts";
import { said, useStore } from "../store.ts";

/** By layer and head, a pattern, flat. */
type Patterns = ArrayLike<number>[][];

export function Heads() {
  const store = useStore();
  const run = store.run.value!;
  const { inst, head } = store.choice.value;
  const all = heads(run);
  const chosen = all.includes(head) ? head : (firstHead(run) ?? all[0]!);
  const [layer, number] = placeOf(chosen, run);
  const actual = useMeasured(run);
  const changed = useLook(run, store.edited.value ? store.change() : null);
  const ideal = useLook(run, run.circuit ? { ...store.change(), off: [], ideal: [], hand: true } : null);
  const [spot, setSpot] = useState<Spot | null>(null);
  const n = run.task.n_positions;
  const of = (patterns: Patterns | null) => patterns?.[layer]?.[number];
  const [now, byHand, after] = [of(actual), of(ideal.patterns), of(changed.patterns)];
  return (
    <div class="view heads-view">
      <section class="card">
        <div class="card-head">
          <h2>Heads</h2>
          <label class="hint">
            sequence{" "}
            <select value={inst} onChange={(event) => store.choose({ inst: Number(event.currentTarget.value) })}>
              {run.batch.instances.map((_, i) => (
                <option key={String(i)} value={i}>
                  {i + 1}
                </option>
              ))}
            </select>
          </label>
        </div>
        <Grid run={run} patterns={changed.patterns ?? actual} chosen={chosen} />
        <p class="hint">
          Rows attend to columns. Arrow keys move between heads. {changed.patterns ? "Shown as changed." : ""}
        </p>
      </section>
      <section class="card">
        <div class="card-head">
          <h2>
            <span class="mono">{chosen}</span> on sequence {inst + 1}
          </h2>
        </div>
        <Readout run={run} spot={spot} pattern={after ?? now} />
        <div class="four">
          {now && <BigMap run={run} title="as it is" pattern={now} n={n} spot={spot} set={setSpot} />}
          {byHand && <BigMap run={run} title="by hand" pattern={byHand} n={n} spot={spot} set={setSpot} />}
          {now && byHand && (
            <BigMap
              run={run}
              title="as it is − by hand"
              pattern={minus(now, byHand)}
              n={n}
              spot={spot}
              set={setSpot}
              signed
            />
          )}
          {after && <BigMap run={run} title="changed" pattern={after} n={n} spot={spot} set={setSpot} />}
        </div>
        {(changed.told || ideal.told) && <p class="refusal">{changed.told || ideal.told}</p>}
        {now && <MapTable run={run} pattern={after ?? now} />}
      </section>
    </div>
  );
}

function minus(one: ArrayLike<number>, other: ArrayLike<number>): Float32Array {
  return Float32Array.from({ length: one.length }, (_, i) => one[i]! - other[i]!);
}

function firstHead(run: Run): string | undefined {
  const path = run.circuit?.paths.find((one) => one.query === "query") ?? run.circuit?.paths[0];
  return path && `L${path.layer}H${path.head}`;
}

function placeOf(head: string, run: Run): [number, number] {
  const at = heads(run).indexOf(head);
  return [Math.floor(at / run.model.n_heads), at % run.model.n_heads];
}

function Grid({ run, patterns, chosen }: { run: Run; patterns: Patterns | null; chosen: string }) {
  const store = useStore();
  const { n_layers, n_heads } = run.model;
  const all = heads(run);
  const move = (event: KeyboardEvent): void => {
    const at = all.indexOf(chosen);
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: n_heads, ArrowDown: -n_heads }[event.key];
    const next = by === undefined ? undefined : all[at + by];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    store.choose({ head: next });
    const grid = event.currentTarget as Element;
    requestAnimationFrame(() => grid.querySelector<HTMLElement>("[aria-pressed=true]")?.focus());
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: arrow keys, beside the buttons' own
    <div class={n_heads > 4 ? "grid-of-heads many" : "grid-of-heads"} onKeyDown={move}>
      {Array.from({ length: n_layers }, (_, i) => n_layers - 1 - i).map((layer) => (
        <div key={layer} class="grid-row">
          <span class="layer-name">L{layer}</span>
          {Array.from({ length: n_heads }, (_, head) => {
            const label = `L${layer}H${head}`;
            const pattern = patterns?.[layer]?.[head];
            return (
              <button
                key={label}
                type="button"
                class="thumb"
                aria-pressed={label === chosen}
                aria-label={label}
                tabindex={label === chosen ? 0 : -1}
                onClick={() => store.choose({ head: label })}
              >
                {pattern && <Thumbnail pattern={pattern} n={run.task.n_positions} />}
                {n_heads > 1 && <span>{`H${head}`}</span>}
              </button>
            );
          })}
        </div>
      ))}
    </div>
  );
}

/** Patterns of the chosen step and sequence as measured beforehand. */
function useMeasured(run: Run): Patterns | null {
  const store = useStore();
  const { step, inst } = store.choice.value;
  const block = run.checkpoints.find((one) => one.step === step)?.patterns ?? null;
  const sha = store.manifest.value?.blocks[block ?? ""]?.sha256;
  const [found, setFound] = useState<Patterns | null>(null);
  // `sha` stands for the block
  useEffect(() => {
    let wanted = true;
    if (!block) return setFound(null);
    const { n_layers, n_heads } = run.model;
    const size = run.task.n_positions ** 2;
    const many = run.batch.instances.length;
    store.block(block).then(
      (all) => {
        const at = (layer: number, head: number): number => ((layer * many + inst) * n_heads + head) * size;
        const cut = (layer: number, head: number) => all.subarray(at(layer, head), at(layer, head) + size);
        const layers = Array.from({ length: n_layers }, (_, l) => Array.from({ length: n_heads }, (_, h) => cut(l, h)));
        if (wanted) setFound(layers);
      },
      (error) => {
        if (wanted) store.told.value = [...store.told.value, said(error)];
      },
    );
    return () => {
      wanted = false;
    };
  }, [block, sha, inst]);
  return found;
}

/** Patterns under a change, computed now; null where none is asked for. */
function useLook(run: Run, change: Change | null): { patterns: Patterns | null; told: string } {
  const store = useStore();
  const { step, inst } = store.choice.value;
  const [found, setFound] = useState<{ key: string; patterns: Patterns | null; told: string }>({
    key: "",
    patterns: null,
    told: "",
  });
  const key = change ? JSON.stringify([run.identity, step, inst, change]) : "";
  // the key holds all that is asked
  useEffect(() => {
    if (!change) return;
    const stop = new AbortController();
    const why = store.live.refusal(run, step);
    if (why) {
      setFound({ key, patterns: null, told: why });
      return;
    }
    store.live.look(store.manifest.value!, { run: run.identity, step, change, instance: inst }, stop.signal).then(
      ({ patterns }) => setFound({ key, patterns, told: "" }),
      (error) => {
        if (!stop.signal.aborted) setFound({ key, patterns: null, told: said(error) });
      },
    );
    return () => stop.abort();
  }, [key]);
  return found.key === key ? found : { patterns: null, told: "" };
}

/** What the entry under the pointer, or pinned, means. */
function Readout({ run, spot, pattern }: { run: Run; spot: Spot | null; pattern: ArrayLike<number> | undefined }) {
  const { inst } = useStore().choice.value;
  const { symbols, roles } = told(run, run.batch.instances[inst]!);
  if (!spot || !pattern) {
    return <p class="readout hint">Point at an entry to read it; click to pin it, Esc to let go.</p>;
  }
  const n = run.task.n_positions;
  const word = (position: number): string =>
    `${name(symbols[position]!, 20)} (${roles[position] || "no role"}, position ${position})`;
  const row = Array.from({ length: n }, (_, key) => pattern[spot.query * n + key]!);
  const best = row.map((value, key) => [value, key] as const).sort(([one], [other]) => other - one);
  return (
    <p class="readout" role="status">
      <b>{word(spot.query)}</b> gives <b class="num">{row[spot.key]?.toFixed(3)}</b> of its attention to{" "}
      <b>{word(spot.key)}</b>. It looks most at{" "}
      {best
        .slice(0, 3)
        .map(([value, key]) => `${name(symbols[key]!, 12)} ${value.toFixed(2)}`)
        .join(", ")}
      .{spot.pinned ? " Pinned; Esc lets go." : ""}
    </p>
  );
}

function MapTable({ run, pattern }: { run: Run; pattern: ArrayLike<number> }) {
  const { inst } = useStore().choice.value;
  const { symbols, roles } = told(run, run.batch.instances[inst]!);
  const n = run.task.n_positions;
  const best = (query: number): [number, number][] =>
    Array.from({ length: n }, (_, key): [number, number] => [pattern[query * n + key]!, key])
      .sort(([one], [other]) => other - one)
      .slice(0, 2);
  return (
    <TableOf head={["position", "looks most at", "then at"]}>
      {symbols.map((symbol, query) => (
        <tr key={String(query)}>
          <td>
            {query} {name(symbol, 16)} <span class="hint">{roles[query]}</span>
          </td>
          {best(query).map(([value, key]) => (
            <td key={key}>
              {key} {name(symbols[key]!, 16)} <b class="num">{value.toFixed(2)}</b>
            </td>
          ))}
        </tr>
      ))}
    </TableOf>
  );
}
