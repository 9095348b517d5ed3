// The engine as a command: reads cases (JSON) and prints what the engine answers (JSON). tests/explorer/ makes the cases.
import { readFileSync } from "node:fs";
import { Session } from "../src/engine/session.ts";
import type { Batch, Change, Path, Scoring, Shape, Weights } from "../src/engine/types.ts";

/** An array as text: its type and its bytes in base64. */
interface Coded {
  dtype: "float32" | "float16" | "int32" | "int16" | "uint8";
  shape: number[];
  data: string;
}

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

const KINDS = { float32: Float32Array, float16: Uint16Array, int32: Int32Array, int16: Int16Array, uint8: Uint8Array };

function decoded({ dtype, data }: Coded): Float32Array | Uint16Array | Int32Array | Int16Array | Uint8Array {
  const bytes = Buffer.from(data, "base64");
  return new KINDS[dtype](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer);
}

function batchOf(given: Record<string, unknown>): Batch {
  const own = Object.entries(given).map(([name, value]) => [name, isCoded(value) ? decoded(value) : value]);
  const batch = Object.fromEntries(own);
  const { chain, attended, matches } = batch;
  return { ...batch, roles: { names: given.roles, chain, ...(matches && { attended, matches }) } } as Batch;
}

function isCoded(value: unknown): value is Coded {
  return typeof value === "object" && value !== null && "data" in value;
}

function answered(given: Case): unknown[] {
  const session = new Session(given.plain);
  const weights = Object.entries(given.weights).map(([name, value]) => [
    name,
    { shape: value.shape, values: decoded(value) },
  ]);
  session.open("model", { ...given, weights: Object.fromEntries(weights) as Weights });
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
