/** The live losses: of each hop as the model is, and under the changes, on the same sequences. */
import { difference, type Estimate } from "../engine/summed.ts";
import { useStore } from "../store.ts";
import { logScale } from "./axis.ts";
import { hue, short, signed, whole } from "./words.ts";

const [LOW, HIGH] = [1e-3, 4];

export function LossPanel() {
  const store = useStore();
  const run = store.run.value!;
  const { step } = store.choice.value;
  const numbers = store.numbers.value;
  const fresh = store.fresh.value !== null;
  const edited = store.edited.value;
  if (store.refusal.value) return <Refused />;
  return (
    <section class={fresh ? "card losses" : "card losses stale"} aria-busy={!fresh}>
      <div class="card-head">
        <h2>Losses, live</h2>
        <p class="hint" role="status" data-ready={fresh && !store.busy.value ? "yes" : "no"}>
          {numbers ? `${numbers.base.n} sequences, step ${whole(step)}` : "computing …"}
          {store.busy.value && numbers ? " …" : ""}
        </p>
      </div>
      {numbers && (
        <table class="loss-table">
          <thead>
            <tr>
              <th scope="col">hop</th>
              <th scope="col" class="wide">
                <span class="hidden">on a scale</span>
              </th>
              <th scope="col" class="num">
                as it is
              </th>
              <th scope="col" class="num">
                {edited ? "changed" : ""}
              </th>
              <th scope="col" class="num">
                {edited ? "difference" : ""}
              </th>
            </tr>
          </thead>
          <tbody>
            {[...run.task.hop_names.filter((hop) => hop in numbers.base.hop_losses), "all"].map((hop, i) => (
              <Row key={hop} hop={hop} colour={hop === "all" ? "var(--ink)" : hue(i + 1)} />
            ))}
          </tbody>
        </table>
      )}
      {numbers && (
        <p class="hint">
          {edited
            ? "Difference with its 95 % interval, on the same sequences. "
            : "Knock a path out to see what it does. "}
          The scale is logarithmic; its mark is where a hop counts as solved.
        </p>
      )}
    </section>
  );
}

function Row({ hop, colour }: { hop: string; colour: string }) {
  const store = useStore();
  const { base, changed } = store.numbers.value!;
  const edited = store.edited.value;
  const of = (answer: typeof base): number => (hop === "all" ? answer.loss : (answer.hop_losses[hop] ?? Number.NaN));
  const [before, after] = [of(base), of(changed)];
  const delta = edited ? between(store, hop) : null;
  return (
    <tr data-hop={hop}>
      <th scope="row">
        <i class="dot" style={{ background: colour }} />
        {hop}
      </th>
      <td class="wide">
        <Scale before={before} after={after} colour={colour} solved={store.run.value!.task.solved_below} />
      </td>
      <td class="num" data-value={before}>
        {short(before)}
      </td>
      <td class="num strong" data-value={after}>
        {edited ? short(after) : ""}
      </td>
      <td class="num">
        {edited && (
          <>
            {signed(after - before)}
            {delta && Number.isFinite(delta.high - delta.low) && (
              <small> ± {short((delta.high - delta.low) / 2)}</small>
            )}
          </>
        )}
      </td>
    </tr>
  );
}

/** The difference with its interval, where the losses of each sequence are known. */
function between(store: ReturnType<typeof useStore>, hop: string): Estimate | null {
  const { base, changed } = store.numbers.value!;
  if (!base.scores || !changed.scores) return null;
  const found = difference(changed.scores, base.scores);
  return hop === "all" ? found.total : (found.hops[hop] ?? null);
}

function Scale({ before, after, colour, solved }: { before: number; after: number; colour: string; solved: number }) {
  const scale = logScale(LOW, HIGH);
  const x = (loss: number): number => 4 + 92 * scale(loss);
  return (
    <svg class="scale" viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">
      <line class="grid" x1="4" x2="96" y1="7" y2="7" />
      <line class="solved" x1={x(solved)} x2={x(solved)} y1="3" y2="11" />
      <line x1={x(before)} x2={x(after)} y1="7" y2="7" stroke={colour} stroke-width="4" opacity=".35" />
      <line x1={x(before)} x2={x(before)} y1="2" y2="12" stroke={colour} stroke-width="1.6" />
      <line x1={x(after)} x2={x(after)} y1="1" y2="13" stroke={colour} stroke-width="3" />
    </svg>
  );
}

/** No live numbers: why, and what was measured beforehand. */
function Refused() {
  const store = useStore();
  const run = store.run.value!;
  const here = run.checkpoints.find((one) => one.step === store.choice.value.step);
  const sizes = run.batch.sizes.filter((n) => here?.reference?.[n]);
  const n = sizes.at(-1);
  const known = n === undefined ? undefined : here?.reference?.[n];
  return (
    <section class="card losses">
      <div class="card-head">
        <h2>Losses, measured</h2>
        {known && <p class="hint">{n} sequences</p>}
      </div>
      <p class="refusal" role="status">
        {store.refusal.value}
      </p>
      {known && (
        <table class="loss-table">
          <tbody>
            {[...Object.entries(known.hop_losses), ["all", known.loss] as const].map(([hop, loss]) => (
              <tr key={hop} data-hop={hop}>
                <th scope="row">{hop}</th>
                <td class="num">{short(loss)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <WayBack />
    </section>
  );
}

/** To the last step at which the model runs in this page, where there is one. */
export function WayBack() {
  const store = useStore();
  const run = store.run.value!;
  const live = run.checkpoints.filter((one) => store.live.refusal(run, one.step) === null).at(-1);
  if (!live) return null;
  return (
    <button type="button" onClick={() => store.choose({ step: live.step })}>
      Go to step {whole(live.step)}, which is live
    </button>
  );
}
