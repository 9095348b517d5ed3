/** The circuit as a drawing, the same as in a run's pictures: one chain's positions, a band for each layer, an arrow for
 * each path, from the position that is read to the one that reads. Colour is the symbol of a box; an arrow has that of
 * the box that it reads. */
import { useMemo } from "preact/hooks";
import type { Run } from "../bundle.ts";
import { type Store, useStore } from "../store.ts";
import { told } from "./example.ts";
import {
  type Band,
  BOX,
  bandsOf,
  CHIP,
  type Chain,
  level,
  PRINT,
  type Shown,
  type Spot,
  spotsOf,
  type Wire,
  wired,
} from "./layout.ts";
import { nameOf, type Strengths } from "./strengths.ts";
import { useWidth } from "./width.ts";
import { hue, hueOf, kindOf, name, onHue, short, symbolOf } from "./words.ts";

const STRONG = 0.5; // attention, above which a path outside the circuit is drawn, too
const SAID = { live: "live", off: "knocked out", ideal: "held ideal" };

/** The circuit in the lab: as it is at a step on average, in a frame that holds what is drawn at any other. */
export function Diagram({ run, strengths, step }: { run: Run; strengths: Strengths; step: number }) {
  const store = useStore();
  const { inst, off, ideal, hand } = store.choice.value;
  const all = useMemo(
    () => [undefined, ...strengths.values()].map((one) => shownOf(store, run, one)),
    [run, strengths, off, ideal, hand],
  );
  const chain = useMemo(() => {
    const instance = run.batch.instances[inst]!;
    const letter = instance.roles[run.task.query_positions[0]]?.split(" ")[0] ?? "";
    return { ...instance, ...{ letter, symbols: told(run, instance).symbols } };
  }, [run, inst]);
  const shown = shownOf(store, run, strengths.get(step));
  if (!all.flat().length)
    return <p class="empty">No path is strong at any step, and no circuit is known of this run.</p>;
  return <Drawing run={run} chain={chain} all={all} shown={shown} />;
}

const none = (): Chip[] => [];

/** What a stream holds, told at its place. */
export interface Chip {
  text: string;
  /** Of whose colour it is. */
  symbol: number;
  /** `gone`: it held this before; `wrong`: an answer that is not right; `unsure`: it is read less surely. */
  state: "held" | "gone" | "wrong" | "unsure";
}

/**
 * A circuit on the positions of a chain. `all`: whatever must find room in it; `shown`: what is drawn. `chips`: what a
 * role's stream holds after so many layers. `lit`: the arrows that are spoken of now; none: all.
 */
export function Drawing({
  run,
  chain,
  all,
  shown,
  chips = none,
  lit = [],
}: {
  run: Run;
  chain: Chain;
  all: readonly Shown[][];
  shown: readonly Shown[];
  chips?: (layers: number, role: string) => Chip[];
  lit?: readonly string[];
}) {
  const [box, width] = useWidth<HTMLDivElement>(720);
  const narrow = width < 520;
  const left = narrow ? 26 : 66;
  const top = 26;
  const { spots, bands } = useMemo(() => {
    const found = spotsOf(chain, all.flat(), left, width - left - 8);
    const roles = found.flatMap((spot) => spot.roles);
    const most = (layer: number): number => Math.max(0, ...roles.map((role) => chips(layer + 1, role).length));
    const drawings = all.map((one) => wired(one, found, width));
    return { spots: found, bands: bandsOf(drawings, run.model.n_layers, top, most) };
  }, [run, chain, all, chips, width]);
  const wires = wired(shown, spots, width);
  const ground = (bands[0]?.bottom ?? top) + 14;
  const room = Math.min(BOX, ...spots.slice(1).map((spot, i) => spot.x - spots[i]!.x - 2));
  const upright = spots.some((spot, i) => i > 0 && spot.kind === "chain" && spot.x - spots[i - 1]!.x < 62);
  return (
    <div ref={box} class="diagram-box">
      <svg
        class="diagram"
        width={width}
        height={ground + BOX + (upright ? 66 : 24)}
        role="group"
        aria-label="Circuit: its paths, layer by layer"
      >
        {bands.map((band, layer) => (
          <g key={String(layer)}>
            <rect
              class={layer % 2 ? "band odd" : "band"}
              x="0"
              y={band.top}
              width={width}
              height={band.bottom - band.top}
            />
            <text class="layer" x={narrow ? 4 : 10} y={(band.bottom + band.top) / 2 + 4}>
              {narrow ? `L${layer}` : `layer ${layer}`}
            </text>
          </g>
        ))}
        <Facts spots={spots} y={ground + BOX / 2} />
        {spots.map((spot, i) => (
          <Place
            key={String(i)}
            spot={spot}
            y={ground}
            until={chips === none ? streamOf(spot, wires, bands, top) : top - (spot.roles.includes("query") ? 8 : 0)}
            upright={upright}
            room={room}
          />
        ))}
        {inReading(wires).map((wire) => (
          <Arrow
            key={wire.path.name}
            wire={wire}
            run={run}
            band={bands[wire.path.layer]!}
            faint={lit.length > 0 && !lit.includes(wire.path.name)}
          />
        ))}
        {spots.flatMap(({ roles, x }) =>
          roles.flatMap((role) =>
            bands.map((band, layer) => (
              <Chips key={`${role} ${layer}`} chips={chips(layer + 1, role)} x={x} band={band} />
            )),
          ),
        )}
      </svg>
    </div>
  );
}

/** As one goes from arrow to arrow by keyboard: layers and lanes upwards, so that no arrow lies over a label; from the left. */
function inReading(wires: readonly Wire[]): Wire[] {
  const left = ({ start, end }: Wire): number => Math.min(start.x, end.x);
  return [...wires].sort((one, two) => one.path.layer - two.path.layer || one.lane - two.lane || left(one) - left(two));
}

/** What a stream holds after a layer, above the arrows that bring it. */
function Chips({ chips, x, band }: { chips: Chip[]; x: number; band: Band }) {
  return (
    <>
      {chips.map(({ text, symbol, state }, i) => {
        const wide = 10 + 7 * Math.min(6, text.length);
        const y = band.top + 2 + CHIP * i;
        return (
          <g key={text + String(i)} class={`chip ${state}`}>
            <rect x={x - wide / 2} y={y} width={wide} height={CHIP - 3} rx="8" style={{ stroke: hue(symbol) }} />
            <text x={x} y={y + 12} text-anchor="middle">
              {name(text, 6)}
            </text>
          </g>
        );
      })}
    </>
  );
}

/** How high the line above a box goes: as far as somebody still reads it, a query's to its answer. */
function streamOf(spot: Spot, wires: readonly Wire[], bands: readonly Band[], top: number): number {
  if (spot.roles.includes("query")) return top - 8;
  const read = wires.filter(({ start, end }) => start === spot || end === spot).map(({ path }) => path.layer);
  return read.length ? bands[Math.max(...read)]!.bottom : bands[0]!.bottom;
}

/** A line joins the boxes of one fact. */
function Facts({ spots, y }: { spots: readonly Spot[]; y: number }) {
  const factOf = (spot: Spot | undefined): string => /\[(\d+)/.exec(spot?.roles[0] ?? "")?.[1] ?? "";
  const joined = spots.filter((spot, i) => factOf(spot) && factOf(spot) === factOf(spots[i + 1]));
  return joined.map((spot) => (
    <line key={spot.x} class="fact" x1={spot.x} x2={spots[spots.indexOf(spot) + 1]!.x} y1={y} y2={y} />
  ));
}

/** A box no wider than there is room, the line above it, and the roles below. */
function Place(of: { spot: Spot; y: number; until: number; upright: boolean; room: number }) {
  const { spot, y, until, upright, room } = of;
  const { x, kind, symbol, roles } = spot;
  const size =
    kind === "folded"
      ? { wide: 26, high: 22 }
      : { wide: Math.min(room, kind === "chain" && upright ? 10 + 8 * symbol.length : BOX), high: BOX };
  const at = Math.max(0, symbolOf(roles[0] ?? ""));
  const middle = y + BOX / 2;
  return (
    <g>
      {kind !== "folded" && <line class="stream" x1={x} x2={x} y1={until} y2={y} />}
      <rect
        class={kind === "chain" ? "" : "box-folded"}
        x={x - size.wide / 2}
        y={middle - size.high / 2}
        width={size.wide}
        height={size.high}
        rx="6"
        style={kind === "chain" ? { fill: hue(at) } : {}}
      />
      {kind === "others" && !upright ? (
        <text class="small" x={x} y={middle} text-anchor="middle">
          <tspan x={x} dy="-2">
            other
          </tspan>
          <tspan x={x} dy="10">
            chains
          </tspan>
        </text>
      ) : (
        <text
          class={kind === "chain" ? "symbol" : "small"}
          style={
            kind === "chain"
              ? { fill: onHue(at), fontSize: `${Math.min(13, (1.1 * room) / (symbol.length || 1))}px` }
              : {}
          }
          x={x}
          y={middle + 4}
          text-anchor="middle"
        >
          {kind === "others" ? "…" : name(symbol, 5)}
        </text>
      )}
      {(kind === "others" && upright ? [symbol] : roles).map((role, i) => (
        <text
          key={role}
          class={kind === "others" ? "small" : "role"}
          x={upright ? 0 : x}
          y={upright ? 0 : y + BOX + 15 + 12 * i}
          text-anchor={upright ? "end" : "middle"}
          transform={upright ? `translate(${x + 4 + 11 * i} ${y + BOX + 7}) rotate(-90)` : undefined}
        >
          {role}
        </text>
      ))}
      {roles.includes("query") && (
        <text class="layer" x={x + 12} y={until - 6} text-anchor="end">
          answers
        </text>
      )}
    </g>
  );
}

/** One path: from the attended box, along its lane, up into the attending one. */
function Arrow({ wire, run, band, faint }: { wire: Wire; run: Run; band: Band; faint: boolean }) {
  const store = useStore();
  const { path, ours, start, end, label, strength, notes, x, anchor } = wire;
  const state = store.stateOf(path.name);
  const [from, to, y] = [start.x, end.x, level(band, wire)];
  const colour = ours ? hueOf(run, path) : "var(--passing)";
  const toggle = (): void => store.put(path.name, state === "off" ? "live" : "off");
  const line = route(from, to, y, band);
  const { tip } = band;
  const [head, ...rest] = label.split(" ");
  const seen = ours && strength < 1 ? 0.35 + 0.65 * strength : 1;
  return (
    <g
      class={`arrow ${state} ${ours ? "ours" : "other"}${faint && state === "live" ? " faint" : ""}`}
      role="button"
      tabindex={0}
      aria-pressed={state === "off"}
      aria-label={`${[label, ...notes].join(" ")}: ${kindOf(path)}, ${SAID[state]}`}
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
        opacity={seen}
        stroke={colour}
        stroke-width={state === "off" || !ours ? 1.5 : 1 + 4.5 * Math.max(0, Math.min(1, strength || 0))}
        stroke-dasharray={state === "off" ? "3 4" : ours ? "" : "5 4"}
      />
      <path class="head" d={`M${to - 6},${tip + 10} h12 l-6,-10z`} fill={colour} opacity={seen} />
      {state === "off" && <path class="cross" d={`M${x - 5},${y - 5} l10,10 m0,-10 l-10,10`} />}
      <text class="wire-name" x={x} y={y - 6} text-anchor={anchor}>
        {head} <tspan class="wire-strength">{rest.join(" ")}</tspan>
      </text>
      {notes.map((note, i) => (
        <text key={note} class="small note" x={x} y={y + 13 + PRINT * i} text-anchor={anchor}>
          {` ${note}`}
        </text>
      ))}
      <title>{`L${path.layer}H${path.head} ${kindOf(path)}: ${SAID[state]}. Click to ${state === "off" ? "put it back" : "knock it out"}.`}</title>
    </g>
  );
}

/** Up, across and up, with round corners. */
function route(from: number, to: number, y: number, band: Band): string {
  const end = band.tip + 9;
  if (from === to) return `M${from},${band.bottom} V${end}`;
  const way = Math.sign(to - from);
  const turn = Math.min(12, Math.abs(to - from) / 2, band.bottom - y, y - end);
  return `M${from},${band.bottom} V${y + turn} Q${from},${y} ${from + way * turn},${y} H${to - way * turn} Q${to},${y} ${to},${y - turn} V${end}`;
}

/** The circuit's paths, those that were touched, and others that are strong then. Strengths are those under the changes, where known. */
function shownOf(store: Store, run: Run, strengths: Float32Array | undefined): Shown[] {
  const circuit = run.circuit?.paths ?? [];
  const { hand } = store.choice.value; // then all others are null
  const live = store.fresh.value?.changed.scores?.strengths;
  const now = new Map(circuit.map((path, i) => [nameOf(path), { live: live?.[i], loss: path.removal_loss }]));
  return run.paths.flatMap((path, i): Shown[] => {
    const own = now.get(path.name);
    const measured = strengths?.[i] ?? Number.NaN;
    const state = store.stateOf(path.name);
    if (!own && state === "live" && (hand || !(measured >= STRONG))) return [];
    const strength = own?.live ?? measured;
    const said = { off: "off", ideal: "ideal", live: Number.isFinite(strength) ? strength.toFixed(2) : "–" }[state];
    const notes = [
      ...(path.chain === "other" ? [`others’ ${path.key}`] : []),
      ...(own ? [`without ${short(own.loss)}`] : []),
    ];
    return [{ path, ours: Boolean(own), label: `L${path.layer}H${path.head} ${said}`, strength, notes }];
  });
}
