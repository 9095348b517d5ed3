// The engine as a command: reads cases (JSON) and prints what the engine answers (JSON). tests/explorer/ makes the cases.
import { readFileSync } from "node:fs";
import { Session } from "../src/engine/session.ts";
import type { Change, Path, Scoring, Shape } from "../src/engine/types.ts";
import { batchOf, type Coded, weightsOf } from "./given.ts";

interface Case {
  plain: boolean;
  shape: Shape;
  scoring: Scoring;
  weights: Record<string, Coded>;
  batch: Record<string, unknown>;
  asks: { changes: Change[]; sizes: number[]; paths: Path[]; rows: number[]; n?: number }[];
  /** How often to repeat every ask, for their times. */
  repeat?: number;
}

function answered(given: Case): unknown[] {
  const session = new Session(given.plain);
  session.open("model", { ...given, weights: weightsOf(given.weights) });
  session.give("batch", batchOf(given.batch));
  return given.asks.map((ask) => {
    const request = { model: "model", batch: "batch", changes: ask.changes };
    const times: number[] = [];
    const cpu: number[] = []; // milliseconds too: what times would be on a machine with nothing else to do
    let scores: unknown[] = [];
    for (let i = 0; i < (given.repeat ?? 1); i++) {
      if (i) session.give("batch", batchOf(given.batch)); // nothing kept from before
      const began = performance.now();
      const used = process.cpuUsage();
      const found = [...session.losses({ ...request, sizes: ask.sizes, paths: ask.paths })];
      times.push(performance.now() - began);
      const { user, system } = process.cpuUsage(used);
      cpu.push((user + system) / 1000);
      scores = found.flatMap((one) => one?.scores ?? []);
    }
    const looks = ask.rows.map((row) => session.look({ ...request, row, ...(ask.n && { n: ask.n }) }));
    return { scores, looks, times, cpu };
  });
}

const cases = JSON.parse(readFileSync(process.argv[2]!, "utf8")) as Case[];
const found = cases.map(answered);

// Typed arrays as plain lists; what JSON lacks as text.
console.log(
  JSON.stringify(found, (_, value) => {
    if (ArrayBuffer.isView(value)) return Array.from(value as Float64Array);
    return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
  }),
);
