/** The circuit as a drawing: a column for each role, a band for each layer, an arrow for each path. */
import type { Path, Run } from "../bundle.ts";
import { type Store, useStore } from "../store.ts";
import { nameOf } from "./strengths.ts";
import { useWidth } from "./width.ts";
import { byPlace, hue, hueOf, kindOf, name, symbolOf } from "./words.ts";

const LANE = 34; // height of a lane for arrows
const PAD = 14; // of a band, above and below its lanes
const STRONG = 0.5; // attention, above which a path outside the circuit is drawn, too

interface Arrow {
  path: Path;
  strength: number;
  ours: boolean;
  state: "live" | "off" | "ideal";
  lane: number;
}

export function Diagram({ run, strengths }: { run: Run; strengths: Float32Array | undefined }) {
  const store = useStore();
  const [box, width] = useWidth<HTMLDivElement>(720);
  const arrows = drawn(store, run, strengths);
  const used = new Set(arrows.flatMap(({ path }) => [path.query, path.key]));
  const roles = [...new Set([...run.batch.roles, ...run.batch.attended])]
    .filter((role) => used.has(role))
    .sort(byPlace);
  const margin = width < 520 ? 40 : 70;
  const gap = (width - margin - 24) / Math.max(1, roles.length);
  const x = (role: string): number => margin + gap * (roles.indexOf(role) + 0.5);
  const bands = laned(arrows, run.model.n_layers, roles);
  const total = bands.reduce((sum, band) => sum + band.height, 0);
  const top = 34;
  const height = top + total + 76;
  const bottomOf = (layer: number): number =>
    top + total - bands.slice(0, layer).reduce((sum, band) => sum + band.height, 0);
  const asked = chainOf(run, store.choice.value.inst);
  return (
    <div ref={box} class="diagram-box">
      {roles.length === 0 ? (
        <p class="empty">No path is strong at this step, and no circuit is known of this run.</p>
      ) : (
        <svg class="diagram" width={width} height={height} role="group" aria-label="Circuit: its paths, layer by layer">
          {bands.map((band, layer) => (
            <g key={band.layer}>
              <rect
                class={layer % 2 ? "band odd" : "band"}
                x="0"
                y={bottomOf(layer) - band.height}
                width={width}
                height={band.height}
              />
              <text class="layer" x="12" y={bottomOf(layer) - band.height / 2 + 4}>
                {width < 520 ? `L${layer}` : `layer ${layer}`}
              </text>
            </g>
          ))}
          {roles.map((role) => (
            <g key={role}>
              <line
                class="stream"
                x1={x(role)}
                x2={x(role)}
                y1={role === "query" ? top - 6 : top}
                y2={top + total + 16}
              />
              <rect
                x={x(role) - 19}
                y={top + total + 14}
                width="38"
                height="30"
                rx="6"
                class="box"
                stroke={hue(Math.max(0, symbolOf(role)))}
              />
              <text class="symbol" x={x(role)} y={top + total + 34} text-anchor="middle">
                {name(asked.get(role) ?? "", 4)}
              </text>
              <text class="role" x={x(role)} y={top + total + 62} text-anchor="middle">
                {role}
              </text>
            </g>
          ))}
          {roles.includes("query") && (
            <text class="layer" x={x("query")} y={top - 14} text-anchor="middle">
              answers
            </text>
          )}
          {arrows.map((arrow) => (
            <Drawn
              key={arrow.path.name}
              arrow={arrow}
              run={run}
              x={x}
              bottom={bottomOf(arrow.path.layer)}
              wide={gap > 74}
            />
          ))}
        </svg>
      )}
    </div>
  );
}

/** One path: from the attended role below, along its lane, up into the attending one. */
function Drawn({
  arrow,
  run,
  x,
  bottom,
  wide,
}: {
  arrow: Arrow;
  run: Run;
  x: (role: string) => number;
  bottom: number;
  wide: boolean;
}) {
  const store = useStore();
  const { path, strength, ours, state, lane } = arrow;
  const [from, to] = [x(path.key), x(path.query)];
  const y = bottom - PAD - lane * LANE - 8;
  const turn = Math.min(12, Math.abs(to - from) / 2);
  const way = Math.sign(to - from);
  const end = y - 17;
  const line =
    way === 0
      ? `M${from},${bottom} V${end}`
      : `M${from},${bottom} V${y + turn} Q${from},${y} ${from + way * turn},${y} H${to - way * turn} Q${to},${y} ${to},${y - turn} V${end}`;
  const colour = ours ? hueOf(run, path) : "var(--passing)";
  const toggle = (): void => store.put(path.name, state === "off" ? "live" : "off");
  const said = { live: "live", off: "knocked out", ideal: "held ideal" }[state];
  const head = `L${path.layer}H${path.head}${path.chain === "other" ? "*" : ""}`;
  const shown =
    state === "off" ? "out" : state === "ideal" ? "ideal" : Number.isFinite(strength) ? strength.toFixed(2) : "–";
  const middle = way === 0 ? from + 8 : (from + to) / 2;
  return (
    <g
      class={`arrow ${state} ${ours ? "ours" : "other"}`}
      role="button"
      tabindex={0}
      aria-pressed={state === "off"}
      aria-label={`${head} ${shown}: ${path.query} attends to ${path.key}${path.chain === "other" ? " of another chain" : ""}, ${said}`}
      data-path={path.name}
      onClick={toggle}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        toggle();
      }}
    >
      <path class="hit" d={line} />
      {state === "ideal" && <path d={line} fill="none" stroke={colour} stroke-width="9" opacity=".25" />}
      <path
        class="wire"
        d={line}
        fill="none"
        stroke={colour}
        stroke-width={state === "off" || !ours ? 1.5 : 1 + 4.5 * Math.max(0, Math.min(1, strength || 0))}
        stroke-dasharray={state === "off" ? "3 4" : ours ? "" : "5 4"}
      />
      <path class="head" d={`M${to - 6},${end + 2} h12 l-6,-10z`} fill={colour} />
      {state === "off" && <path class="cross" d={`M${middle - 5},${y - 5} l10,10 m0,-10 l-10,10`} />}
      {(wide || ours) && (
        <text class="wire-name" x={middle} y={y - 7} text-anchor={way === 0 ? "start" : "middle"}>
          {head} <tspan class="wire-strength">{shown}</tspan>
        </text>
      )}
      <title>{`${`L${path.layer}H${path.head}`} ${kindOf(path)}: ${said}. Click to ${state === "off" ? "put it back" : "knock it out"}.`}</title>
    </g>
  );
}

/** The circuit's paths, those that were touched, and others that are strong now. Strengths are those under the changes, where known. */
function drawn(store: Store, run: Run, strengths: Float32Array | undefined): Arrow[] {
  const circuit = run.circuit?.paths ?? [];
  const { hand } = store.choice.value; // then all others are null
  const live = store.fresh.value?.changed.scores?.strengths;
  const now = new Map(circuit.map((path, i) => [nameOf(path), live?.[i]]));
  return run.paths.flatMap((path, i) => {
    const ours = now.has(path.name);
    const measured = strengths?.[i] ?? Number.NaN;
    const state = store.stateOf(path.name);
    if (!ours && state === "live" && (hand || !(measured >= STRONG))) return [];
    const strength = now.get(path.name) ?? measured;
    return [{ path, strength, ours, state, lane: 0 }];
  });
}

/** Gives every arrow a lane in its layer in which it crosses no other, the circuit's lowest; and every layer its height. */
function laned(arrows: Arrow[], n_layers: number, roles: string[]): { layer: number; height: number }[] {
  return Array.from({ length: n_layers }, (_, layer) => {
    const lanes: [number, number][][] = [];
    const here = arrows.filter(({ path }) => path.layer === layer);
    here.sort((one, other) => Number(other.ours) - Number(one.ours));
    for (const arrow of here) {
      const ends = [roles.indexOf(arrow.path.key), roles.indexOf(arrow.path.query)];
      const [low, high] = [Math.min(...ends) - 0.2, Math.max(...ends) + 0.2];
      const free = (lane: [number, number][]): boolean => lane.every(([a, b]) => b < low || a > high);
      let lane = lanes.findIndex(free);
      if (lane < 0) lane = lanes.push([]) - 1;
      lanes[lane]!.push([low, high]);
      arrow.lane = lane;
    }
    return { layer, height: 2 * PAD + 12 + Math.max(1, lanes.length) * LANE - (lanes.length > 1 ? 8 : 0) };
  });
}

/** By role, the symbol that it holds in the first chain that a sequence asks for. */
function chainOf(run: Run, instance: number): Map<string, string> {
  const { symbols, roles } = run.batch.instances[instance] ?? { symbols: [], roles: [] };
  const start = run.task.query_positions[0];
  const letter = roles[start]?.split(" ")[0];
  const found = new Map<string, string>();
  roles.forEach((label, position) => {
    for (const part of label.split(" / ")) {
      const [chain, role] = part.split(" ");
      if (chain === letter && role && !found.has(role)) found.set(role, symbols[position] ?? "");
    }
  });
  return found;
}
