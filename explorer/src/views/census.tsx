/** View 6: kinds of path by runs: which heads have each, and how strongly, at the end of training; a cell opens its run. */
import { useEffect, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import { lastStep } from "../choice.ts";
import { hueOf, name, short, whole } from "../parts/words.ts";
import { useStore } from "../store.ts";
import { Bar } from "./bar.tsx";
import { byKind, kinds, type Strongest } from "./compare.tsx";

const STRONG = 0.5; // attention from which a kind is listed though it is in no circuit
const STEP = 8; // runs shown at once, and more on demand

export function Census() {
  const store = useStore();
  const all = store.manifest.value!.runs.filter((run) => !run.error);
  const [most, setMost] = useState(STEP);
  const runs = all.slice(0, most);
  const found = useEnds(runs);
  const columns = runs.map((run) => found.get(run.identity) ?? new Map<string, Strongest>());
  const names = [...new Set(columns.flatMap((own) => [...own.keys()]))];
  const rows = names
    .map((kind) => ({ kind, cells: columns.map((own) => own.get(kind)) }))
    .filter(({ cells }) => cells.some((cell) => cell && (cell.ours || cell.strength >= STRONG)))
    .sort((a, b) => byKind(first(a.cells).path, first(b.cells).path));
  if (!all.length) return <p class="empty">There is no run in this page.</p>;
  return (
    <div class="view census-view">
      <section class="card">
        <div class="card-head">
          <h2>Census of paths</h2>
          <p class="hint">
            In how many heads each kind of attention is found at a run's last step, and how strongly in the strongest.
            In colour: in the run's circuit. A cell opens its run.
          </p>
        </div>
        <div class="scroller">
          <table class="kinds census">
            <Heads runs={runs} />
            <tbody>
              {rows.map(({ kind, cells }) => (
                <tr key={kind}>
                  <th scope="row" class="mono">
                    {kind}
                  </th>
                  {cells.map((cell, i) => (
                    <Cell key={runs[i]!.identity} cell={cell} run={runs[i]!} />
                  ))}
                  <td class="num">{cells.filter((cell) => cell?.ours).length}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {found.size < runs.length && <p class="hint">Reading …</p>}
        {most < all.length && (
          <button type="button" onClick={() => setMost(most + STEP)}>
            {whole(Math.min(STEP, all.length - most))} more of {whole(all.length)} runs
          </button>
        )}
      </section>
    </div>
  );
}

function Heads({ runs }: { runs: readonly Run[] }) {
  const store = useStore();
  return (
    <thead>
      <tr>
        <th scope="col">kind</th>
        {runs.map((run) => (
          <th key={run.identity} scope="col">
            <button type="button" class="quiet" onClick={() => store.chooseRun(run.identity, { view: "run" })}>
              <bdi>{name(run.name, 20)}</bdi>
            </button>
          </th>
        ))}
        <th scope="col" class="num">
          circuits
        </th>
      </tr>
      <tr class="hint">
        <th scope="row">verdict, loss</th>
        {runs.map((run) => (
          <td key={run.identity}>
            {run.circuit ? VERDICTS[run.circuit.verdict] : "not searched"}, {short(lossOf(run))}
          </td>
        ))}
        <td />
      </tr>
    </thead>
  );
}

const VERDICTS = { circuit: "circuit", partial: "partial", none: "no circuit" };

/** The last measured loss. */
function lossOf(run: Run): number | undefined {
  const reference = run.checkpoints.findLast((one) => one.reference)?.reference ?? {};
  return Object.values(reference).at(-1)?.loss;
}

function Cell({ cell, run }: { cell: Strongest | undefined; run: Run }) {
  const store = useStore();
  if (!cell || (!cell.ours && cell.strength < STRONG)) return <td class="none">·</td>;
  const head = `L${cell.path.layer}H${cell.path.head}`;
  return (
    <td>
      <button
        type="button"
        class="cell"
        title={`${run.name}: ${head}, ${cell.strength.toFixed(2)}`}
        onClick={() => store.chooseRun(run.identity, { view: "circuit", head })}
      >
        <Bar value={cell.strength} colour={cell.ours ? hueOf(run, cell.path) : "var(--passing)"} />
        <span class={cell.ours ? "num strong" : "num"}>{cell.strength.toFixed(2)}</span>
        <span class="mono">{head}</span>
        {cell.heads > 1 && <small>+{cell.heads - 1}</small>}
      </button>
    </td>
  );
}

function first(cells: readonly (Strongest | undefined)[]): Strongest {
  return cells.find((cell) => cell)!;
}

/** Of every run its kinds of path at its last step; a run that cannot be read has none. */
function useEnds(runs: readonly Run[]): ReadonlyMap<string, Map<string, Strongest>> {
  const store = useStore();
  const [found, setFound] = useState<ReadonlyMap<string, Map<string, Strongest>>>(new Map());
  const revision = store.manifest.value?.revision;
  const wanted = runs.map(({ identity }) => identity).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs are other objects in each revision of the bundle
  useEffect(() => {
    let current = true;
    const read = async (run: Run): Promise<[string, Map<string, Strongest>]> => {
      const step = lastStep(run);
      const block = run.checkpoints.find((one) => one.step === step)?.strengths;
      const values = block ? await store.block(block).catch(() => null) : null;
      return [run.identity, values ? kinds(run, step, new Map([[step, values]])) : new Map()];
    };
    Promise.all(runs.map(read)).then((all) => current && setFound(new Map(all)));
    return () => {
      current = false;
    };
  }, [wanted, revision]);
  return found;
}
