/** View 5: two runs, or two steps of one, side by side; paths matched by kind, on common scales, with linked steps. */
import { useEffect, useState } from "preact/hooks";
import type { Checkpoint, Manifest, Path, Run } from "../bundle.ts";
import { lastStep, placed } from "../choice.ts";
import { Curves, rangeOf } from "../parts/curves.tsx";
import { nameOf, type Strengths, useStrengths } from "../parts/strengths.ts";
import { byPlace, hueOf, kindOf, name, short, signed, whole } from "../parts/words.ts";
import { type Store, useStore } from "../store.ts";
import { Bar } from "./bar.tsx";

const NOTABLE = 0.25; // attention from which a kind of path is listed
const MOST = 30; // rows

interface Place {
  run: Run;
  step: number;
}

export function Compare() {
  const store = useStore();
  const manifest = store.manifest.value!;
  const here: Place = { run: store.run.value!, step: store.choice.value.step };
  const there = placed(store.choice.value.against, manifest) ?? suggested(here, manifest);
  const apart = there.run.identity !== here.run.identity;
  const [linked, setLinked] = useState(true);
  const follows = apart && linked;
  const wanted = follows ? nearest(there.run, here.step) : there.step;
  useEffect(() => {
    const address = `${there.run.identity}@${wanted}`;
    if (address !== store.choice.value.against) store.choose({ against: address });
  }, [there.run.identity, wanted, store]);
  const sides: [Place, Place] = [here, { run: there.run, step: wanted }];
  const range = rangeOf(sides.map(({ run }) => run));
  const pick = (step: number): void => {
    if (follows) store.choose({ step: nearest(here.run, step) });
    else store.choose({ against: `${there.run.identity}@${step}` });
  };
  return (
    <div class="view compare-view">
      <Chooser there={sides[1]} apart={apart} linked={linked} setLinked={setLinked} />
      <div class="sides">
        {sides.map(({ run, step }, i) => (
          <section key={i === 0 ? "here" : "there"} class="card">
            <div class="card-head">
              <h2>
                <bdi>{name(run.name)}</bdi>
              </h2>
              <p class="hint">step {whole(step)}</p>
            </div>
            <Curves
              run={run}
              step={step}
              range={range}
              height={180}
              left={44}
              pick={i === 0 ? (at) => store.choose({ step: at }) : pick}
            />
          </section>
        ))}
      </div>
      <LossTable sides={sides} />
      <PathTable sides={sides} />
    </div>
  );
}

/** What it is compared with, and whether that follows the slider. */
function Chooser({
  there,
  apart,
  linked,
  setLinked,
}: {
  there: Place;
  apart: boolean;
  linked: boolean;
  setLinked: (value: boolean) => void;
}) {
  const store = useStore();
  const runs = store.manifest.value!.runs.filter((run) => !run.error);
  const to = (run: Run, step: number): void => store.choose({ against: `${run.identity}@${step}` });
  return (
    <section class="card chooser">
      <label>
        Compare with{" "}
        <select
          value={there.run.identity}
          onChange={(event) => {
            const run = runs.find(({ identity }) => identity === event.currentTarget.value);
            if (run) to(run, nearest(run, there.step));
          }}
        >
          {runs.map((run) => (
            <option key={run.identity} value={run.identity}>
              {name(run.name)}
            </option>
          ))}
        </select>
      </label>
      <label>
        at step{" "}
        <select
          value={there.step}
          disabled={apart && linked}
          onChange={(event) => to(there.run, Number(event.currentTarget.value))}
        >
          {there.run.checkpoints.map(({ step }) => (
            <option key={step} value={step}>
              {whole(step)}
            </option>
          ))}
        </select>
      </label>
      {apart && (
        <label class="switch">
          <input type="checkbox" checked={linked} onChange={() => setLinked(!linked)} />
          <span>Steps linked</span>
        </label>
      )}
    </section>
  );
}

/** Losses that PyTorch measured at both, over equally many sequences. */
function LossTable({ sides }: { sides: [Place, Place] }) {
  const [one, other] = sides.map(({ run, step }) => run.checkpoints.find((at) => at.step === step)?.reference ?? null);
  const n = common(one ?? null, other ?? null);
  const [mine, theirs] = [one?.[n ?? ""], other?.[n ?? ""]];
  if (!mine || !theirs) return <p class="hint">Losses are compared once both steps are measured.</p>;
  const same = sides[0].run.batch.inputs && JSON.stringify(sides[0].run.task) === JSON.stringify(sides[1].run.task);
  const hops = [...new Set([...Object.keys(mine.hop_losses), ...Object.keys(theirs.hop_losses)])];
  const rows: [string, number | undefined, number | undefined][] = [
    ...hops.map((hop): [string, number | undefined, number | undefined] => [
      hop,
      mine.hop_losses[hop],
      theirs.hop_losses[hop],
    ]),
    ["all", mine.loss, theirs.loss],
  ];
  return (
    <section class="card">
      <div class="card-head">
        <h2>Losses</h2>
        <p class="hint">
          {n} {same ? "sequences, the same for both" : "sequences each, of two tasks"}
        </p>
      </div>
      <div class="scroller">
        <table>
          <thead>
            <tr>
              <th scope="col">hop</th>
              {sides.map(({ run, step }, i) => (
                <th key={i === 0 ? "here" : "there"} scope="col" class="num">
                  {name(run.name, 24)} @ {whole(step)}
                </th>
              ))}
              <th scope="col" class="num">
                difference
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([hop, before, after]) => (
              <tr key={hop}>
                <th scope="row">{hop}</th>
                <td class="num">{short(before)}</td>
                <td class="num">{short(after)}</td>
                <td class="num">{before !== undefined && after !== undefined ? signed(after - before) : "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The greatest number of sequences over which both were measured. */
function common(one: Checkpoint["reference"], other: Checkpoint["reference"]): string | undefined {
  const sizes = Object.keys(one ?? {}).filter((n) => n in (other ?? {}));
  return sizes.sort((a, b) => Number(a) - Number(b)).at(-1);
}

/** Attention by kind of path: in each run the strongest head that has it. */
function PathTable({ sides }: { sides: [Place, Place] }) {
  const store = useStore();
  const found = [useStrengths(sides[0].run), useStrengths(sides[1].run)];
  const columns = sides.map(({ run, step }, i) => kinds(run, step, found[i]!));
  const names = [...new Set(columns.flatMap((own) => [...own.keys()]))];
  const rows = names
    .map((kind) => ({ kind, cells: columns.map((own) => own.get(kind)) }))
    .filter(({ cells }) => cells.some((cell) => cell && (cell.ours || cell.strength >= NOTABLE)))
    .sort((a, b) => byKind(pathOf(a.cells), pathOf(b.cells)))
    .slice(0, MOST);
  return (
    <section class="card">
      <div class="card-head">
        <h2>Attention, by kind of path</h2>
        <p class="hint">The strongest head of each kind, from 0 to 1; bold: in the run's circuit.</p>
      </div>
      <div class="scroller">
        <table class="kinds">
          <thead>
            <tr>
              <th scope="col">kind</th>
              {sides.map(({ run, step }, i) => (
                <th key={i === 0 ? "here" : "there"} scope="col">
                  {name(run.name, 24)} @ {whole(step)}
                </th>
              ))}
              <th scope="col" class="num">
                difference
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ kind, cells }) => (
              <tr key={kind}>
                <th scope="row" class="mono">
                  {kind}
                </th>
                {cells.map((cell, i) => (
                  <Cell key={i === 0 ? "here" : "there"} cell={cell} place={sides[i]!} store={store} />
                ))}
                <td class="num">{cells[0] && cells[1] ? signed(cells[1].strength - cells[0].strength) : "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p class="hint">No path is strong at either step.</p>}
    </section>
  );
}

/** The strongest path of a kind. */
export interface Strongest {
  path: Path;
  strength: number;
  /** How many heads have it at one half or more. */
  heads: number;
  /** Whether a path of this kind is in the circuit. */
  ours: boolean;
}

function Cell({ cell, place, store }: { cell: Strongest | undefined; place: Place; store: Store }) {
  if (!cell) return <td class="none">–</td>;
  const { path, strength, heads, ours } = cell;
  const head = `L${path.layer}H${path.head}`;
  const open = (): void => {
    if (place.run.identity === store.choice.value.run) store.choose({ view: "heads", head, step: place.step });
    else store.chooseRun(place.run.identity, { view: "heads", head, step: place.step });
  };
  return (
    <td>
      <button type="button" class="cell" title={`${nameOf(path)}: look at the head`} onClick={open}>
        <Bar value={strength} colour={ours ? hueOf(place.run, path) : "var(--passing)"} />
        <span class={ours ? "num strong" : "num"}>{strength.toFixed(2)}</span>
        <span class="mono">{head}</span>
        {heads > 1 && <small>+{heads - 1}</small>}
      </button>
    </td>
  );
}

/** By kind, the strongest path of a run at a step. */
export function kinds(run: Run, step: number, strengths: Strengths): Map<string, Strongest> {
  const values = strengths.get(step);
  const ours = new Set(run.circuit?.paths.map(kindOf));
  const found = new Map<string, Strongest>();
  if (!values) return found;
  for (const [index, path] of run.paths.entries()) {
    const strength = values[index];
    if (strength === undefined || Number.isNaN(strength)) continue;
    const kind = kindOf(path);
    const before = found.get(kind);
    const heads = (before?.heads ?? 0) + (strength >= 0.5 ? 1 : 0);
    const best = before && before.strength >= strength ? before : { path, strength };
    found.set(kind, { path: best.path, strength: best.strength, heads, ours: ours.has(kind) });
  }
  return found;
}

function pathOf(cells: readonly (Strongest | undefined)[]): Path {
  return cells.find((cell) => cell)!.path;
}

/** Kinds by where they stand in a sequence: the attending role, then the attended one; own chains first. */
export function byKind(one: Path, other: Path): number {
  const chain = Number(one.chain === "other") - Number(other.chain === "other");
  return chain || byPlace(one.query, other.query) || byPlace(one.key, other.key);
}

/** What to compare with at first: another run at the same step, else the run's own first step, or its last. */
function suggested({ run, step }: Place, manifest: Manifest): Place {
  const other = manifest.runs.find((one) => !one.error && one.identity !== run.identity);
  if (other) return { run: other, step: nearest(other, step) };
  const first = run.checkpoints[0]?.step ?? 0;
  return { run, step: first === step ? lastStep(run) : first };
}

/** The checkpoint of a run that is nearest to a step. */
function nearest(run: Run, step: number): number {
  const steps = run.checkpoints.map((one) => one.step);
  return steps.reduce((best, one) => (Math.abs(one - step) < Math.abs(best - step) ? one : best), steps[0] ?? 0);
}
