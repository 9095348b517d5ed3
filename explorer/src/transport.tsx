/** The slider over training, at hand in every view of a run: play, step by step, or drag. */
import { useEffect } from "preact/hooks";
import { logScale, placeOf, stepAt } from "./parts/axis.ts";
import { nearest, rangeOf } from "./parts/curves.tsx";
import { DASHES, hue, short, whole } from "./parts/words.ts";
import { useStore } from "./store.ts";

const PACE = 260; // milliseconds for each checkpoint

export function Transport() {
  const store = useStore();
  const run = store.run.value!;
  const { step } = store.choice.value;
  const steps = run.checkpoints.map((one) => one.step);
  const at = Math.max(0, steps.indexOf(step));
  const playing = store.playing.value;
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => {
      const list = store.run.value?.checkpoints.map((one) => one.step) ?? [];
      const next = list[list.indexOf(store.choice.value.step) + 1];
      if (next === undefined) store.playing.value = false;
      else store.choose({ step: next });
    }, PACE);
    return () => clearInterval(timer);
  }, [playing, store]);
  const play = (): void => {
    if (!playing && at === steps.length - 1) store.choose({ step: steps[0]! });
    store.playing.value = !playing;
  };
  return (
    <footer class="transport">
      <button type="button" class="round" aria-label={playing ? "Pause" : "Play through training"} onClick={play}>
        <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
          {playing ? <path d="M2,1h4v12h-4z M8,1h4v12h-4z" /> : <path d="M3,1 l10,6 l-10,6z" />}
        </svg>
      </button>
      <div class="track">
        <Spark />
        <input
          type="range"
          id="step"
          min={steps[0] ?? 0}
          max={steps.at(-1) ?? 0}
          value={step}
          aria-label="Checkpoint"
          aria-valuetext={`step ${step}, ${at + 1} of ${steps.length}`}
          onInput={({ currentTarget: { value } }) =>
            store.choose({ step: stepAt(placeOf(Number(value), steps), steps)! })
          }
        />
      </div>
      <Where />
    </footer>
  );
}

/** The step and its losses: live ones where the view is about the model as it runs, as they are and as they become. */
function Where() {
  const store = useStore();
  const run = store.run.value!;
  const { step, view } = store.choice.value;
  const live = view === "run" || store.refusal.value ? null : store.numbers.value;
  const logged = nearest(run.metrics.step, step);
  return (
    <output class="where" for="step">
      <span class="where-step">
        step <b>{whole(step)}</b>{" "}
        <span class="hint">{live ? `live, ${live.base.n} sequences` : "validation, as logged"}</span>
      </span>
      <span class={store.fresh.value || !live ? "where-losses" : "where-losses stale"}>
        {Object.entries(run.metrics.hop_losses).map(([hop, losses], i) => (
          <span key={hop} data-where={hop}>
            <i class="dot" style={{ background: hue(i + 1) }} />
            {hop} <b class="num">{short(live ? live.base.hop_losses[hop] : losses[logged])}</b>
            {live && store.edited.value && <b class="num became"> → {short(live.changed.hop_losses[hop])}</b>}
          </span>
        ))}
      </span>
    </output>
  );
}

/** The curves in small, behind the slider. */
function Spark() {
  const run = useStore().run.value!;
  const steps = run.checkpoints.map((one) => one.step);
  const { low, high } = rangeOf([run]);
  const scale = logScale(low, high);
  return (
    <svg class="spark" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
      {Object.entries(run.metrics.hop_losses).map(([hop, losses], i) => (
        <polyline
          key={hop}
          points={steps
            .map(
              (step) =>
                `${placeOf(step, steps)},${(1 - scale(losses[nearest(run.metrics.step, step)] ?? high)).toFixed(3)}`,
            )
            .join(" ")}
          fill="none"
          stroke={hue(i + 1)}
          stroke-width="1.5"
          stroke-dasharray={DASHES[i % 6] ?? ""}
          vector-effect="non-scaling-stroke"
        />
      ))}
    </svg>
  );
}
