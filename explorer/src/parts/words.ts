/** How numbers, roles and paths are written and coloured, the same everywhere. */
import type { Onset, Path, Run } from "../bundle.ts";

/** Three digits that matter: 0.00432, 0.0723, 1.73. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  if (size >= 0.0995) return value.toFixed(3);
  if (size >= 0.00995) return value.toFixed(4);
  return size < 5e-6 ? "0" : value.toFixed(5);
}

export function signed(value: number): string {
  return (value < 0 ? "−" : "+") + short(Math.abs(value));
}

export const whole = (value: number): string => Math.round(value).toLocaleString("en-US");
export const percent = (value: number): string =>
  `${(100 * value).toFixed(value > 0.9995 || value < 0.0005 ? 0 : 1)} %`;

const CHAIN = /^(key|value)\[(\d+)\]$/;

/** Which symbol of its chain a role holds: 0 the query's, k what follows after k hops; −1 for roles of other shapes. */
export function symbolOf(role: string): number {
  if (role === "query") return 0;
  const found = CHAIN.exec(role);
  return found ? Number(found[2]) - (found[1] === "key" ? 1 : 0) : -1;
}

/** The first of a position's roles, without its chain: `value[1]` of `a value[1] / b key[2]`. */
export const roleOf = (label = ""): string => label.split(" / ")[0]!.split(" ")[1] ?? "";

/** One of the page's colours (page.css): 0 is ink, then Okabe and Ito's in turn. */
export function hue(symbol: number): string {
  return symbol <= 0 ? "var(--hue-0)" : `var(--hue-${1 + ((symbol - 1) % 6)})`;
}

/** The same for words, dark enough to be read. */
export const tone = (symbol: number): string => hue(symbol).replace("hue", "tone");

/** Lines of different hops differ in dash, too. */
export const DASHES = ["", "7 3", "2 3", "9 3 2 3", "5 2", "1 2"];

/** What is written on a ground of a symbol's colour. */
export const onHue = (symbol: number): string => hue(symbol).replace("hue", "on-hue");

/** The colour of a path: of the position that it reads; grey where that is another chain's. */
export function hueOf(run: Run, path: Pick<Path, "key" | "chain">): string {
  if (path.chain === "other") return "var(--other)";
  const symbol = symbolOf(path.key);
  return hue(symbol >= 0 ? symbol : 1 + run.batch.attended.indexOf(path.key));
}

/** `query reads value[1]`: who attends to whom, and of what chains where that is another. */
export function kindOf(path: Pick<Path, "query" | "key" | "chain">): string {
  return `${path.query} reads ${path.key}${path.chain === "other" ? " of others" : ""}`;
}

/** `value[1]->key[1]` in the order of a sequence: facts by their number, the query last. */
export function byPlace(one: string, other: string): number {
  const place = (role: string): number => {
    const found = CHAIN.exec(role);
    if (!found) return role === "query" ? 1e6 : 1e5;
    return 2 * Number(found[2]) + (found[1] === "value" ? 1 : 0);
  };
  return place(one) - place(other);
}

/** A name that may be long or run from right to left, as it may stand beside others. */
export function name(text: string, longest = 40): string {
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}

/** What a run is called; of a path its last two parts. */
export function called(run: Pick<Run, "name">, longest = 40): string {
  const parts = run.name.split("/").filter(Boolean);
  return name(parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : run.name, longest);
}

/** Since when a path is strong, in few words. */
export function since(onset: Onset | undefined): string {
  if (onset?.status === "already") return "start";
  return onset?.step === null || onset?.step === undefined ? "–" : whole(onset.step);
}
