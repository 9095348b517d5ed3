/** Where everything in a circuit's drawing stands, as in hopscope/drawing/circuit_layout.py: the positions of one chain in
 * the order of the sequence, layers as bands above them, arrows in lanes. In pixels. */
import type { Path } from "../bundle.ts";
import { byPlace, symbolOf } from "./words.ts";

export const BOX = 32;
/** Height of a line of small print below an arrow. */
export const PRINT = 12;
const [LETTER, SMALL] = [7.2, 6.2]; // the widest letters of labels and of small print
const [EDGE, LANE] = [12, 26]; // of a band, below and above its lanes; a lane without small print
/** Height of a chip. */
export const CHIP = 19;
const FOLDED = 0.53; // of a column's width, for a run of other positions

/** A position of the shown chain; a run of others, which `symbol` counts; or the box for all other chains. */
export interface Spot {
  kind: "chain" | "folded" | "others";
  symbol: string;
  roles: readonly string[];
  x: number;
}

/** A path as an arrow. */
export interface Wire {
  path: Path;
  ours: boolean;
  label: string;
  /** Attention, of which the arrow's width is made. */
  strength: number;
  notes: readonly string[];
  start: Spot;
  end: Spot;
  lane: number;
  /** Where its label stands. */
  x: number;
  anchor: "start" | "middle" | "end";
}

/** A sequence, and the letter of its chain that is drawn. */
export interface Chain {
  symbols: readonly string[];
  roles: readonly string[];
  letter: string;
}

/** What a drawing shows at one step. */
export type Shown = Omit<Wire, "start" | "end" | "lane" | "x" | "anchor">;

export interface Band {
  bottom: number;
  top: number;
  lane: number;
  /** Where arrows end; above it stands what the streams hold then. */
  tip: number;
}

/** The boxes at the bottom, from left to right, in a width from `left` on. */
export function spotsOf(shownChain: Chain, shown: readonly Shown[], left: number, width: number): Spot[] {
  const used = new Set(shown.flatMap(({ path }) => [path.query, ...(path.chain === "other" ? [] : [path.key])]));
  const others = shown.some(({ path }) => path.chain === "other");
  const found = [...chainOf(shownChain, used)];
  const lacking = [...used].filter((role) => !found.some(({ roles }) => roles.includes(role))).sort(byPlace);
  for (const role of lacking) found.push({ kind: "chain", symbol: "", roles: [role], x: 0 });
  if (others) found.unshift({ kind: "others", symbol: "other chains", roles: [], x: 0 });
  const narrow = width / found.length < 44;
  const spots = found.filter(({ kind }) => kind !== "folded" || !narrow);
  const parts = spots.map(({ kind }) => (kind === "folded" ? FOLDED : 1));
  const part =
    width /
    Math.max(
      1,
      parts.reduce((sum, one) => sum + one, 0),
    );
  let at = left;
  return spots.map((spot, i) => {
    at += part * parts[i]!;
    return { ...spot, x: at - (part * parts[i]!) / 2 };
  });
}

/** The positions of the chain that a sequence asks for first, each role once; those between them are folded. */
function* chainOf({ symbols, roles, letter }: Chain, used: ReadonlySet<string>): Generator<Spot> {
  const held = new Set<string>();
  let folded = 0;
  const fold = function* (): Generator<Spot> {
    if (folded) yield { kind: "folded", symbol: `+${folded}`, roles: [], x: 0 };
    folded = 0;
  };
  for (const [position, label] of roles.entries()) {
    const parts = label.split(" / ").map((part) => part.split(" "));
    const own = parts.flatMap(([chain, role]) => (chain === letter && role ? [role] : []));
    const fresh = own.filter((role) => !held.has(role) && (used.has(role) || symbolOf(role) >= 0));
    if (!fresh.length) {
      folded++;
      continue;
    }
    yield* fold();
    for (const role of fresh) held.add(role);
    yield { kind: "chain", symbol: symbols[position] ?? "", roles: fresh, x: 0 };
  }
  yield* fold();
}

/** The arrows between these boxes, in lanes in which no label and no line meets another's; the circuit's are lowest. */
export function wired(shown: readonly Shown[], spots: readonly Spot[], width: number): Wire[] {
  const others = spots.find(({ kind }) => kind === "others");
  const at = (role: string): Spot | undefined => spots.find(({ roles }) => roles.includes(role));
  const wires = shown.flatMap((one): Wire[] => {
    const [start, end] = [one.path.chain === "other" ? others : at(one.path.key), at(one.path.query)];
    return start && end ? [{ ...one, start, end, lane: 0, ...labelled(one, start.x, end.x, width) }] : [];
  });
  const length = (wire: Wire): number => Math.abs(wire.end.x - wire.start.x);
  wires.sort((one, two) => Number(two.ours) - Number(one.ours) || length(one) - length(two));
  for (const [i, wire] of wires.entries()) {
    const busy = wires.slice(0, i).filter((other) => other.path.layer === wire.path.layer && meet(wire, other));
    while (busy.some(({ lane }) => lane === wire.lane)) wire.lane++;
  }
  return wires;
}

function meet(one: Wire, two: Wire): boolean {
  const [[a, b], [c, d]] = [reach(one), reach(two)];
  return a < d - 1 && c < b - 1;
}

/** What an arrow takes of its lane: from end to end, and at least its label. */
function reach({ start, end, x, anchor, ...shown }: Wire): [number, number] {
  const wide = widthOf(shown);
  const from = x - wide * { start: 0, middle: 0.5, end: 1 }[anchor];
  return [Math.min(start.x - 6, end.x - 6, from), Math.max(start.x + 6, end.x + 6, from + wide)];
}

/** Where a label stands: over its arrow, beside one that goes straight up, and always inside. */
function labelled(shown: Shown, from: number, to: number, width: number): Pick<Wire, "x" | "anchor"> {
  const wide = widthOf(shown);
  const inside = (x: number): number => Math.min(width - wide / 2 - 2, Math.max(wide / 2 + 2, x));
  if (from !== to) return { x: inside((from + to) / 2), anchor: "middle" };
  return from + 8 + wide < width ? { x: from + 8, anchor: "start" } : { x: from - 8, anchor: "end" };
}

function widthOf({ label, notes }: Pick<Shown, "label" | "notes">): number {
  return Math.max(LETTER * label.length, ...notes.map((note) => SMALL * note.length));
}

/** Lanes and lines of small print that each layer needs. */
export function needs(wires: readonly Wire[], layer: number): { lanes: number; lines: number } {
  const here = wires.filter(({ path }) => path.layer === layer);
  return {
    lanes: Math.max(1, ...here.map(({ lane }) => lane + 1)),
    lines: Math.max(0, ...here.map(({ notes }) => notes.length)),
  };
}

/** The bands of all layers, as high as any of several drawings needs them: so that nothing moves from one to the next. */
export function bandsOf(
  drawings: readonly (readonly Wire[])[],
  layers: number,
  top: number,
  chips: (layer: number) => number = () => 0,
): Band[] {
  const heights = Array.from({ length: layers }, (_, layer) => {
    const all = drawings.map((wires) => needs(wires, layer));
    const lane = LANE + PRINT * Math.max(0, ...all.map(({ lines }) => lines));
    const own = chips(layer) * CHIP;
    return { lane, own, height: 2 * EDGE + own + lane * Math.max(1, ...all.map(({ lanes }) => lanes)) };
  });
  let bottom = top + heights.reduce((sum, { height }) => sum + height, 0);
  return heights.map(({ lane, height, own }) => {
    const band = { bottom, top: bottom - height, lane, tip: bottom - height + own + 1 };
    bottom = band.top;
    return band;
  });
}

/** The height of an arrow's line. */
export function level(band: Band, wire: Wire): number {
  return band.bottom - EDGE - wire.lane * band.lane - (band.lane - LANE) + 2;
}
