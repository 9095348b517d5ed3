/** The loss of every hop over training, with what it should be read against; a click or a drag picks a checkpoint. */
import { useRef } from "preact/hooks";
import type { Run } from "../bundle.ts";
import { decades, logScale, placeOf, stepAt, ticks } from "./axis.ts";
import { NAMES, NARROW_NAMES } from "./strip.tsx";
import { useWidth } from "./width.ts";
import { DASHES, hue, short, whole } from "./words.ts";

interface Range {
  low: number;
  high: number;
}

/** A range of losses that holds a run's curves. */
export function rangeOf(runs: readonly Run[]): Range {
  const all = runs.flatMap((run) => Object.values(run.metrics.hop_losses).flat());
  const values = all.filter((value): value is number => value !== null && value > 0);
  const low = Math.min(...values, ...runs.map((run) => run.task.solved_below));
  const high = Math.max(...values, ...runs.map((run) => run.task.chance));
  return { low: Math.max(low * 0.8, high * 1e-5), high: high * 1.15 };
}

export function Curves({
  run,
  step,
  pick,
  height = 250,
  range = rangeOf([run]),
  left = NAMES,
}: {
  run: Run;
  step: number;
  pick: (step: number) => void;
  height?: number;
  range?: Range;
  left?: number;
}) {
  const [box, width] = useWidth<HTMLDivElement>(640);
  const gutter = width < 520 ? Math.min(left, NARROW_NAMES) : left;
  const wide = width >= 520 || left < NAMES; // else it ends where the strip below it does
  const [right, top, bottom] = [wide ? 92 : 40, 10, 24];
  const steps = run.checkpoints.map((one) => one.step);
  const [w, h] = [Math.max(80, width - gutter - right), height - top - bottom];
  const x = (at: number): number => gutter + placeOf(at, steps) * w;
  const scale = logScale(range.low, range.high);
  const y = (loss: number): number => top + h * (1 - scale(loss));
  const dragging = useRef(false);
  const at = (event: PointerEvent): void => {
    const left = (event.currentTarget as Element).getBoundingClientRect().left;
    const found = stepAt((event.clientX - left - gutter) / w, steps);
    if (found !== undefined) pick(found);
  };
  return (
    <div ref={box} class="chart">
      <svg
        width={width}
        height={height}
        role="img"
        aria-label={`Loss of each hop over training; at step ${step} of ${steps.at(-1)}`}
        onPointerDown={(event) => {
          dragging.current = true;
          (event.currentTarget as Element).setPointerCapture(event.pointerId);
          at(event);
        }}
        onPointerMove={(event) => dragging.current && at(event)}
        onPointerUp={() => {
          dragging.current = false;
        }}
      >
        {decades(range.low, range.high).map((value) => (
          <g key={value}>
            <line class="grid" x1={gutter} x2={gutter + w} y1={y(value)} y2={y(value)} />
            <text class="tick" x={gutter - 8} y={y(value) + 4} text-anchor="end">
              {value >= 1 ? value : String(Number(value.toPrecision(1)))}
            </text>
          </g>
        ))}
        <Against run={run} y={y} from={gutter} to={gutter + w} wide={wide} />
        {ticks(steps, Math.max(3, Math.floor(w / 90))).map((one) => (
          <text key={one} class="tick" x={x(one)} y={height - 6} text-anchor="middle">
            {whole(one)}
          </text>
        ))}
        <Lines run={run} x={x} y={y} />
        <line class="playhead" x1={x(step)} x2={x(step)} y1={top - 6} y2={top + h} />
        <path class="playhead-knob" d={`M${x(step) - 5},${top - 8} h10 l-5,8 z`} />
      </svg>
    </div>
  );
}

/** Horizontal lines: what the best answers without attention cost, and below what a hop counts as learnt and solved. */
function Against({
  run,
  y,
  from,
  to,
  wide,
}: {
  run: Run;
  y: (loss: number) => number;
  from: number;
  to: number;
  wide: boolean;
}) {
  const { task } = run;
  const lines = [
    ...Object.entries(task.baselines).map(([text, loss]) => ({ text, loss })),
    { text: task.learnt_below === task.solved_below ? "learnt" : "solved", loss: task.solved_below },
  ].filter(({ loss }) => loss > 0);
  const placed: number[] = [];
  const beside = (at: number): number => {
    const found = placed.some((other) => Math.abs(other - at) < 13) ? Math.max(...placed) + 14 : at;
    placed.push(found);
    return found;
  };
  return (
    <>
      {lines.map(({ text, loss }) => {
        const label = beside(y(loss));
        return (
          <g key={text}>
            <line class="against" x1={from} x2={to} y1={y(loss)} y2={y(loss)} />
            <text
              class="tick"
              x={wide ? to + 8 : to - 4}
              y={wide ? label + 4 : y(loss) + (label > y(loss) ? 12 : -3)}
              text-anchor={wide ? "start" : "end"}
            >
              {text.length > 13 ? `${text.slice(0, 12)}…` : text}
              <title>{`${text}: ${short(loss)}`}</title>
            </text>
          </g>
        );
      })}
    </>
  );
}

function Lines({ run, x, y }: { run: Run; x: (step: number) => number; y: (loss: number) => number }) {
  const { step, hop_losses } = run.metrics;
  return (
    <>
      {Object.entries(hop_losses).map(([hop, losses], i) => {
        const points = losses.flatMap((loss, at) =>
          loss === null ? [] : [`${x(step[at]!).toFixed(1)},${y(loss).toFixed(1)}`],
        );
        return (
          <polyline
            key={hop}
            points={points.join(" ")}
            fill="none"
            stroke={hue(i + 1)}
            stroke-width="2"
            stroke-dasharray={DASHES[i % DASHES.length] ?? ""}
            stroke-linejoin="round"
          />
        );
      })}
    </>
  );
}

/** What is what in the chart, with the loss at a step where it was logged. */
export function Legend({ run, step }: { run: Run; step: number }) {
  const at = nearest(run.metrics.step, step);
  return (
    <ul class="legend">
      {Object.entries(run.metrics.hop_losses).map(([hop, losses], i) => (
        <li key={hop}>
          <svg width="26" height="8" aria-hidden="true">
            <line
              x1="0"
              x2="26"
              y1="4"
              y2="4"
              stroke={hue(i + 1)}
              stroke-width="2.5"
              stroke-dasharray={DASHES[i % 6] ?? ""}
            />
          </svg>
          <span>{hop}</span>
          <b class="num">{short(losses[at])}</b>
        </li>
      ))}
    </ul>
  );
}

export function nearest(steps: readonly number[], step: number): number {
  let best = 0;
  for (let i = 1; i < steps.length; i++) if (Math.abs(steps[i]! - step) < Math.abs(steps[best]! - step)) best = i;
  return best;
}
