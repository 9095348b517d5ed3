/** View 1: how a run learnt. Losses by hop, and below them when each path of attention came. */
import type { Circuit } from "../bundle.ts";
import { Curves, Legend } from "../parts/curves.tsx";
import { useStrengths } from "../parts/strengths.ts";
import { Strip, StripTable } from "../parts/strip.tsx";
import { name, short, whole } from "../parts/words.ts";
import { useStore } from "../store.ts";

export function RunView() {
  const store = useStore();
  const run = store.run.value!;
  const { step } = store.choice.value;
  const strengths = useStrengths(run);
  const pick = (next: number): void => store.choose({ step: next });
  return (
    <div class="view run-view">
      <section class="card">
        <div class="card-head">
          <h2>Loss of each hop</h2>
          <Legend run={run} step={step} />
        </div>
        <Curves run={run} step={step} pick={pick} />
        <p class="hint">
          Validation loss, logarithmic, over training steps. x1 is the answer after one step, and so on. Drag to scrub
          through training. Dotted:{" "}
          {[...Object.entries(run.task.baselines), ["solved", run.task.solved_below] as const]
            .flatMap(([text, loss]) => (loss > 0 ? [`${text} (${short(loss)})`] : []))
            .join("; ")}
          .
        </p>
      </section>
      <section class="card">
        <div class="card-head">
          <h2>When each path came</h2>
          <p class="hint">
            The more colour, the stronger the attention. A bar marks where a path passes one half; its step is at the
            right.
          </p>
        </div>
        <Strip run={run} strengths={strengths} step={step} pick={pick} />
        <p class="hint">
          In colour: the circuit's paths. In grey: paths that were strong once, and are no part of it. * leads to
          another chain.
        </p>
        <StripTable run={run} strengths={strengths} step={step} />
      </section>
      <About />
    </div>
  );
}

function About() {
  const run = useStore().run.value!;
  const { task, model, config, circuit } = run;
  const rows: [string, string][] = [
    ["Task", `${task.name}, ${task.hop_names.length} hops, ${task.n_positions} positions`],
    [
      "Model",
      `${model.n_layers} layers × ${model.n_heads} ${model.n_heads === 1 ? "head" : "heads"}, d = ${model.d_model}`,
    ],
    ["Attention", `${model.attention.name}, positions: ${model.positions.name}`],
    ["Parameters", whole(model.parameters)],
    ["Seed", String(config.seed)],
    ["Checkpoints", `${run.checkpoints.length}, to step ${whole(run.checkpoints.at(-1)?.step ?? 0)}`],
    ["Identity", run.identity],
  ];
  return (
    <section class="card about">
      <h2>
        <bdi>{name(run.name, 60)}</bdi>
      </h2>
      <dl>
        {rows.map(([term, said]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{name(said, 80)}</dd>
          </div>
        ))}
      </dl>
      {circuit && <Verdict circuit={circuit} />}
    </section>
  );
}

/** The verdict and the losses behind it; the circuit in words on request, a sentence a line. */
function Verdict({ circuit }: { circuit: Circuit }) {
  const paths = circuit.paths.length === 1 ? "1 path" : `${circuit.paths.length} paths`;
  const losses = (circuit.losses ?? {}) as Record<string, { mean: number }>;
  const told = [
    ["with this circuit alone, as computed", losses.live],
    ["the whole model", losses.model],
    ["every head idle", losses.null],
  ] as const;
  const known = told.flatMap(([what, loss]) => (loss ? [`${what}: ${short(loss.mean)}`] : []));
  return (
    <div class="words">
      <p>
        <b>
          {circuit.verdict === "none"
            ? "No circuit."
            : `A ${circuit.verdict === "partial" ? "partial " : ""}circuit of ${paths}.`}
        </b>{" "}
        Loss {known.join("; ")}. <span class="hint">A circuit must stay below {circuit.threshold}.</span>
      </p>
      <details>
        <summary>The circuit in words</summary>
        <ul>
          {circuit.words.split(/(?<=\.) (?=[A-Z])/).map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
      </details>
    </div>
  );
}
