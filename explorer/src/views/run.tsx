/** View 1: how a run learnt. Losses by hop, and below them when each path of attention came. */
import { Curves, Legend } from "../parts/curves.tsx";
import { useStrengths } from "../parts/strengths.ts";
import { Strip, StripTable } from "../parts/strip.tsx";
import { name, whole } from "../parts/words.ts";
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
        <p class="hint">Validation loss, logarithmic. Every checkpoint has a column: drag to scrub through training.</p>
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
      {circuit && (
        <p class="words">
          <b>
            {circuit.verdict === "none"
              ? "No circuit."
              : `A ${circuit.verdict === "partial" ? "partial " : ""}circuit of ${circuit.paths.length} paths.`}
          </b>{" "}
          {circuit.words} <span class="hint">Threshold {circuit.threshold}.</span>
        </p>
      )}
    </section>
  );
}
