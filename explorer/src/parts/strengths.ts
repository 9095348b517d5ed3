/** How strong every path is at every checkpoint: read once for each run, and more as a run grows. */
import { useEffect, useState } from "preact/hooks";
import type { Run } from "../bundle.ts";
import { useStore } from "../store.ts";

/** By step, the mean attention on each of a run's paths, in their order. */
export type Strengths = ReadonlyMap<number, Float32Array>;

const NONE: Strengths = new Map();

export function useStrengths(run: Run | undefined): Strengths {
  const store = useStore();
  const [found, setFound] = useState<{ run: string; strengths: Strengths }>({ run: "", strengths: NONE });
  const revision = store.manifest.value?.revision;
  // a run is another object in each revision of the bundle
  useEffect(() => {
    let wanted = true;
    const blocks = (run?.checkpoints ?? []).flatMap(({ step, strengths }) => (strengths ? [{ step, strengths }] : []));
    const reading = blocks.map(async ({ step, strengths }) => [step, await store.block(strengths)] as const);
    Promise.allSettled(reading).then((all) => {
      const read = all.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
      const failed = all.find((one) => one.status === "rejected");
      if (wanted) setFound({ run: run?.identity ?? "", strengths: new Map(read) });
      if (wanted && failed) store.told.value = [...store.told.value, String(failed.reason?.message ?? failed.reason)];
    });
    return () => {
      wanted = false;
    };
  }, [run?.identity, revision]);
  return found.run === run?.identity ? found.strengths : NONE;
}

/** Paths worth a row: the circuit's, then those that were ever strong, by when they became so. */
export function notable(
  run: Run,
  most: number,
): { name: string; index: number; ours: boolean; onset: number | null }[] {
  const ours = new Set((run.circuit?.paths ?? []).map((path) => nameOf(path)));
  const rows = run.paths.flatMap(({ name }, index) => {
    const onset = run.onsets[name];
    const seen = onset && onset.status !== "never";
    if (!ours.has(name) && !seen) return [];
    return [{ name, index, ours: ours.has(name), onset: onset?.step ?? null }];
  });
  const late = (onset: number | null): number => onset ?? -1;
  rows.sort((one, other) => Number(other.ours) - Number(one.ours) || late(one.onset) - late(other.onset));
  return rows.slice(0, most);
}

export function nameOf(path: { layer: number; head: number; query: string; key: string; chain: string }): string {
  return `L${path.layer}H${path.head} ${path.query}->${path.key}${path.chain === "other" ? " (other)" : ""}`;
}
