/** The two ways to follow a second fact, and which of them a model's paths take. */
import type { Path } from "./bundle.ts";

/** What goes from position to position, in a run or in a sketch. */
export type Wire = Pick<Path, "layer" | "query" | "key" | "chain">;

export interface Routes<One extends Wire> {
  /** The two tokens of a fact meet. */
  joins: One[];
  /** The query then finds the fact of its own symbol. */
  finds: One[];
  /** The query reads again, now the fact of what it found: those two looks. */
  again: One[];
  /** Two facts join, and the query reads them as one: the joint and that look. */
  joined: One[];
}

export function routesOf<One extends Wire>(all: readonly One[]): Routes<One> {
  const paths = all.filter(({ chain }) => chain === "same");
  const between = (query: string, key: string): One[] =>
    paths.filter((one) => one.query === query && one.key === key).sort((one, two) => one.layer - two.layer);
  const joins = paths.filter(({ query, key }) => query.startsWith("value") && key === query.replace("value", "key"));
  const before = (one: Wire, some: readonly One[]): boolean => some.some(({ layer }) => layer < one.layer);
  const finds = between("query", "value[1]").filter((one) => before(one, between("value[1]", "key[1]")));
  const marked = (one: Wire): boolean => before(one, between(one.key, one.key.replace("value", "key")));
  const further = paths.filter(({ query, key }) => query === "query" && key.startsWith("value") && key !== "value[1]");
  const again = further.filter((one) => before(one, finds) && marked(one));
  const joints = paths.filter(
    ({ query, key }) => query.startsWith("value") && key.startsWith("value") && query !== key,
  );
  const readers = (joint: Wire): One[] => between("query", joint.query).filter((one) => one.layer > joint.layer);
  return {
    joins,
    finds,
    again: again.length ? [...finds.slice(0, 1), ...again] : [],
    joined: joints.flatMap((joint) => (readers(joint).length ? [joint, ...readers(joint)] : [])),
  };
}

const wire = (layer: number, query: string, key: string): Wire => ({ layer, query, key, chain: "same" });
const from1 = (hops: number): number[] => Array.from({ length: hops }, (_, i) => i + 1);
const joins = (hops: number): Wire[] => from1(hops).map((hop) => wire(0, `value[${hop}]`, `key[${hop}]`));

/** So many hops, one in a layer: the query reads again and again. */
export const hopByHop = (hops: number): Wire[] => [
  ...joins(hops),
  ...from1(hops).map((hop) => wire(hop, "query", `value[${hop}]`)),
];

/** Two hops as facts that join, and three hops in the least layers: while the query finds its fact, the next two join. */
export const JOINED = [...joins(2), wire(1, "value[1]", "value[2]"), wire(2, "query", "value[1]")];
export const DOUBLED = [
  ...joins(3),
  ...[wire(1, "query", "value[1]"), wire(1, "value[2]", "value[3]"), wire(2, "query", "value[2]")],
];

/** The symbols (by hop) that a position holds after so many layers, if every arrow brings all that is there. */
export function heldIn(wires: readonly Wire[], own: (role: string) => number, layers: number, role: string): number[] {
  if (!layers) return [own(role)];
  const read = wires.filter(({ layer, query }) => layer === layers - 1 && query === role).map(({ key }) => key);
  const found = [role, ...read].flatMap((one) => heldIn(wires, own, layers - 1, one));
  return [...new Set(found)].sort((one, two) => one - two);
}

/** “value[1] reads key[1] in layer 0”. */
export function reading({ layer, query, key }: Wire): string {
  return `${query === "query" ? "the query" : query} reads ${key} in layer ${layer}`;
}

export function listed(words: readonly string[]): string {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : (words[0] ?? "");
}

/** Which way a model goes, by the attention of its paths. */
export function learned(all: readonly Wire[]): string {
  const { again, joined } = routesOf(all);
  const told = [
    again.length ? `the query reads again (${listed(again.map(reading))})` : "",
    joined.length ? `facts join first (${listed(joined.map(reading))})` : "",
  ].filter(Boolean);
  return told.length
    ? `By its attention, in this model ${told.join("; and ")}. Knock one of these arrows out to test it.`
    : "";
}
