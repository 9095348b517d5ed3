// Paths as they are written everywhere: `L1H0 value[1]->key[1]`, with ` (other)` behind it between chains.
import type { Path } from "./types.ts";

const SHORT = /^L(\d+)H(\d+) (\S+?)\s*(?:->|→)\s*(\S+?)( \(other\)| other)?$/u;

export function pathName({ layer, head, query, key, chain }: Path): string {
  return `L${layer}H${head} ${query}->${key}${chain === "other" ? " (other)" : ""}`;
}

/** The inverse of `pathName`; null for what is no path. */
export function parsePath(text: string): Path | null {
  const found = SHORT.exec(text.trim());
  if (!found) return null;
  const [, layer, head, query, key, other] = found;
  return { layer: Number(layer), head: Number(head), query: query!, key: key!, chain: other ? "other" : "same" };
}
