/** View 5: two runs, or two steps of one, side by side on common scales; paths are matched by kind, whichever head has them. */
import type { Path, Run } from "../bundle.ts";
import { lastStep, placed } from "../choice.ts";
import { Curves, Legend, rangeOf } from "../parts/curves.tsx";
import { nameOf, type Strengths, useStrengths } from "../parts/strengths.ts";
import { byPlace, called, hueOf, kindOf, since, whole } from "../parts/words.ts";
import { useStore } from "../store.ts";

interface Side {
  run: Run;
  step: number;
}

export function Compare() {
  const store = useStore();
  const manifest = store.manifest.value!;
  const run = store.run.value!;
  const { step, against, same: linked } = store.choice.value;
  const found = placed(against, manifest) ?? other(manifest.runs, run);
  const near = (steps: number[]): number =>
    steps.reduce((best, one) => (Math.abs(one - step) < Math.abs(best - step) ? one : best));
  const right: Side = linked ? { ...found, step: near(found.run.checkpoints.map((one) => one.step)) } : found;
  const put = ({ run, step }: Side): void => store.choose({ against: `${run.identity}@${step}`, same: false });
  const [ours, theirs] = [useStrengths(run), useStrengths(right.run)];
  const range = rangeOf([run, right.run]);
  const runs = manifest.runs.filter((one) => !one.error);
  return (
    <div class="view compare-view">
      <div class="two">
        <section class="card side-of-two">
          <div class="card-head">
            <h2>
              A <bdi>{called(run)}</bdi>, step {whole(step)}
            </h2>
            <Legend run={run} step={step} />
          </div>
          <Curves
            run={run}
            step={step}
            pick={(to) => store.choose({ step: to })}
            height={190}
            range={range}
            left={48}
          />
        </section>
        <section class="card side-of-two">
          <div class="card-head">
            <h2>
              B{" "}
              <select
                aria-label="Compare with"
                value={right.run.identity}
                onChange={(event) => {
                  const next = runs.find((one) => one.identity === event.currentTarget.value)!;
                  put({ run: next, step: lastStep(next) });
                }}
              >
                {runs.map((one) => (
                  <option key={one.identity} value={one.identity}>
                    {called(one)}
                  </option>
                ))}
              </select>
              , step {whole(right.step)}
            </h2>
            <Legend run={right.run} step={right.step} />
          </div>
          <Curves
            run={right.run}
            step={right.step}
            pick={(to) => put({ run: right.run, step: to })}
            height={190}
            range={range}
            left={48}
          />
          <div class="actions">
            <label class="switch">
              <input type="checkbox" checked={linked} onChange={() => store.choose({ same: !linked })} />
              <span>Same step</span>
            </label>
            <input
              type="range"
              aria-label="Checkpoint of B"
              min={0}
              max={right.run.checkpoints.length - 1}
              value={right.run.checkpoints.findIndex((one) => one.step === right.step)}
              disabled={linked}
              onInput={(event) =>
                put({ run: right.run, step: right.run.checkpoints[Number(event.currentTarget.value)]!.step })
              }
            />
          </div>
        </section>
      </div>
      <Kinds left={{ run, step }} right={right} ours={ours} theirs={theirs} />
    </div>
  );
}

/** Another run if there is one, else the same at the step in the middle. */
function other(runs: Run[], run: Run): Side {
  const next = runs.find((one) => !one.error && one.identity !== run.identity);
  if (next) return { run: next, step: lastStep(next) };
  return { run, step: run.checkpoints[Math.floor(run.checkpoints.length / 3)]?.step ?? 0 };
}

function Kinds({ left, right, ours, theirs }: { left: Side; right: Side; ours: Strengths; theirs: Strengths }) {
  const kinds = kindsOf([left.run, right.run]);
  return (
    <section class="card">
      <div class="card-head">
        <h2>Kinds of path</h2>
        <p class="hint">
          The strongest head of each kind, and the step at which it passes one half. key[1] and value[1] are the two
          tokens of the first fact.
        </p>
      </div>
      <div class="scroller">
        <table class="kinds">
          <thead>
            <tr>
              <th scope="col">kind</th>
              <th scope="col" class="wide">
                A
              </th>
              <th scope="col" class="num">
                since
              </th>
              <th scope="col" class="wide">
                B
              </th>
              <th scope="col" class="num">
                since
              </th>
            </tr>
          </thead>
          <tbody>
            {kinds.map((path) => (
              <tr key={kindOf(path)}>
                <th scope="row">{kindOf(path)}</th>
                <Cell side={left} kind={path} strengths={ours.get(left.step)} />
                <Cell side={right} kind={path} strengths={theirs.get(right.step)} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Cell({ side, kind, strengths }: { side: Side; kind: Path; strengths: Float32Array | undefined }) {
  const best = strongest(side.run, kind, strengths);
  return (
    <>
      <td class="wide">
        {best && (
          <span class="bar">
            <span class="meter">
              <i style={{ width: `${100 * best.strength}%`, background: hueOf(side.run, kind) }} />
            </span>
            <b class="num">{best.strength.toFixed(2)}</b>
            <small class="mono">{`L${best.path.layer}H${best.path.head}`}</small>
          </span>
        )}
      </td>
      <td class="num">{best ? since(side.run.onsets[best.path.name]) : "–"}</td>
    </>
  );
}

/** The strongest path of a kind at a step. */
export function strongest(
  run: Run,
  kind: Path,
  strengths: Float32Array | undefined,
): { path: Path; strength: number } | null {
  let best: { path: Path; strength: number } | null = null;
  run.paths.forEach((path, i) => {
    if (path.query !== kind.query || path.key !== kind.key || path.chain !== kind.chain) return;
    const strength = strengths?.[i] ?? Number.NaN;
    if (strength > (best?.strength ?? -1)) best = { path, strength };
  });
  return best;
}

/** Kinds that some run's circuit has, or that were ever strong. */
export function kindsOf(runs: Run[]): Path[] {
  const found = new Map<string, { path: Path; ours: boolean }>();
  for (const run of runs) {
    const circuit = new Set((run.circuit?.paths ?? []).map(nameOf));
    for (const path of run.paths) {
      const onset = run.onsets[path.name];
      const ours = circuit.has(path.name);
      if (!ours && (!onset || onset.status === "never")) continue;
      const before = found.get(kindOf(path));
      found.set(kindOf(path), { path: before?.path ?? path, ours: ours || (before?.ours ?? false) });
    }
  }
  const all = [...found.values()];
  all.sort(
    (one, two) =>
      Number(two.ours) - Number(one.ours) ||
      byPlace(one.path.query, two.path.query) ||
      byPlace(one.path.key, two.path.key),
  );
  return all.map(({ path }) => path);
}
