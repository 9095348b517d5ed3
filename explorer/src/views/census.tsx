/** View 6: which kinds of path each run has, at its last step. A cell opens its run. */
import type { Path, Run } from "../bundle.ts";
import { lastStep } from "../choice.ts";
import { nameOf, useStrengths } from "../parts/strengths.ts";
import { called, hueOf, kindOf } from "../parts/words.ts";
import { useStore } from "../store.ts";
import { kindsOf, strongest } from "./compare.tsx";

export function Census() {
  const store = useStore();
  const runs = store.manifest.value!.runs.filter((run) => !run.error);
  const broken = store.manifest.value!.runs.filter((run) => run.error);
  const kinds = kindsOf(runs);
  return (
    <div class="view">
      <section class="card">
        <div class="card-head">
          <h2>Census of paths</h2>
          <p class="hint">
            The strongest head of each kind at a run's last step. In a strong frame: it is in the run's circuit.
          </p>
        </div>
        {runs.length === 1 && (
          <p class="hint">
            There is one run here; <code>hopscope explore RUN RUN …</code> takes several.
          </p>
        )}
        <div class="scroller">
          <table class="census">
            <thead>
              <tr>
                <td />
                {runs.map((run) => (
                  <th key={run.identity} scope="col">
                    <button
                      type="button"
                      class="link-like"
                      onClick={() => store.chooseRun(run.identity, { view: "run" })}
                    >
                      {called(run, 22)}
                    </button>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {kinds.map((kind) => (
                <tr key={kindOf(kind)}>
                  <th scope="row">{kindOf(kind)}</th>
                  {runs.map((run) => (
                    <Cell key={run.identity} run={run} kind={kind} />
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {broken.map((run) => (
          <p key={run.identity} class="refusal">
            {called(run)}: {run.error}
          </p>
        ))}
      </section>
    </div>
  );
}

function Cell({ run, kind }: { run: Run; kind: Path }) {
  const store = useStore();
  const strengths = useStrengths(run).get(lastStep(run));
  const best = strongest(run, kind, strengths);
  if (!best) return <td class="num">–</td>;
  const ours = (run.circuit?.paths ?? []).some((path) => nameOf(path) === best.path.name);
  const label = `L${best.path.layer}H${best.path.head}`;
  return (
    <td>
      <button
        type="button"
        class={ours ? "cell ours" : "cell"}
        aria-label={`${label} ${best.strength.toFixed(2)}: ${kindOf(kind)} in ${called(run)}${ours ? ", of its circuit" : ""}`}
        onClick={() => store.chooseRun(run.identity, { view: "circuit", head: label })}
      >
        <i style={{ opacity: best.strength, background: hueOf(run, kind) }} />
        <span class="mono">{label}</span> <span class="num">{best.strength.toFixed(2)}</span>
      </button>
    </td>
  );
}
