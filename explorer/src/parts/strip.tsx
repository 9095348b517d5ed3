/** Path by step: how strong each notable path is at every checkpoint, with the step at which it passes one half. */
import { useRef } from "preact/hooks";
import type { Run } from "../bundle.ts";
import { edges, placeOf, stepAt } from "./axis.ts";
import { colour, usePainting } from "./painting.ts";
import { notable, type Strengths } from "./strengths.ts";
import { TableOf } from "./table.tsx";
import { useWidth } from "./width.ts";
import { hueOf, since, whole } from "./words.ts";

const ROW = 18;
const MOST = 24; // rows
/** The room for names, the same in the curves above. */
export const NAMES = 212;
export const NARROW_NAMES = 128;

export function Strip({
  run,
  strengths,
  step,
  pick,
}: {
  run: Run;
  strengths: Strengths;
  step: number;
  pick: (step: number) => void;
}) {
  const [box, width] = useWidth<HTMLDivElement>(640);
  const rows = notable(run, MOST);
  const narrow = width < 520;
  const [left, right] = [narrow ? NARROW_NAMES : NAMES, narrow ? 40 : 92];
  const steps = run.checkpoints.map((one) => one.step);
  const w = Math.max(80, width - left - right);
  const x = (at: number): number => left + placeOf(at, steps) * w;
  const canvas = useRef<HTMLCanvasElement>(null);
  usePainting(canvas, (element) => paint(element, run, rows, strengths, steps, w));
  const dragging = useRef(false);
  const at = (event: PointerEvent): void => {
    const from = (event.currentTarget as Element).getBoundingClientRect().left;
    const found = stepAt((event.clientX - from - left) / w, steps);
    if (found !== undefined) pick(found);
  };
  const height = rows.length * ROW;
  return (
    <div ref={box} class="strip">
      <canvas ref={canvas} class="strip-map" style={{ left: `${left}px`, width: `${w}px`, height: `${height}px` }} />
      <svg
        width={width}
        height={height}
        role="img"
        aria-label="Attention on each path over training; the table below says the same"
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
        {rows.map((row, i) => (
          <g key={row.name} transform={`translate(0 ${i * ROW})`} class={row.ours ? "ours" : "passing"}>
            <text class={narrow ? "strip-name narrow" : "strip-name"} x={left - 8} y={13} text-anchor="end">
              {shortened(row.name, narrow)}
              <title>{row.name}</title>
            </text>
            {row.onset !== null && <line class="onset" x1={x(row.onset)} x2={x(row.onset)} y1={1} y2={ROW - 2} />}
            <text class="tick" x={left + w + 8} y={13}>
              {since(run.onsets[row.name])}
            </text>
          </g>
        ))}
        <line class="playhead" x1={x(step)} x2={x(step)} y1={0} y2={height} />
      </svg>
    </div>
  );
}

/** Names that fit their column: `L0H0 value[1] reads key[1]`, or `v[1] reads k[1]`. */
function shortened(name: string, narrow: boolean): string {
  const text = name.replace("->", " reads ").replace(" (other)", "*");
  const fits = narrow ? text.replaceAll("value", "v").replaceAll("key", "k") : text;
  return fits.length > 29 ? `${fits.slice(0, 28)}…` : fits;
}

function paint(
  canvas: HTMLCanvasElement,
  run: Run,
  rows: ReturnType<typeof notable>,
  strengths: Strengths,
  steps: readonly number[],
  w: number,
): void {
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(w * ratio);
  canvas.height = Math.round(rows.length * ROW * ratio);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const columns = edges(steps).map((edge) => Math.round(edge * w));
  for (const [i, row] of rows.entries()) {
    const variable = row.ours ? hueOf(run, run.paths[row.index]!).slice(4, -1) : "--passing";
    pen.fillStyle = colour(canvas, variable);
    for (const [j, at] of steps.entries()) {
      const value = strengths.get(at)?.[row.index];
      if (value === undefined || Number.isNaN(value)) continue;
      pen.globalAlpha = 0.04 + 0.96 * Math.max(0, Math.min(1, value)) ** 1.4;
      pen.fillRect(columns[j]!, i * ROW + 1, columns[j + 1]! - columns[j]!, ROW - 3);
    }
  }
}

/** The strip as a table. */
export function StripTable({ run, strengths, step }: { run: Run; strengths: Strengths; step: number }) {
  const head = ["path", ` attention at step ${whole(step)}`, " passes one half at", "in the circuit"];
  return (
    <TableOf head={head}>
      {notable(run, 200).map((row) => (
        <tr key={row.name}>
          <td class="mono">{row.name}</td>
          <td class="num">{strengths.get(step)?.[row.index]?.toFixed(2) ?? "–"}</td>
          <td class="num">{since(run.onsets[row.name])}</td>
          <td>{row.ours ? "yes" : "no"}</td>
        </tr>
      ))}
    </TableOf>
  );
}
