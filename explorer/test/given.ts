// Arrays as tests/explorer/node_engine.py writes them, and what is made of them.
import type { Batch, Weights } from "../src/engine/types.ts";

/** An array as text: its type and its bytes in base64. */
export interface Coded {
  dtype: "float32" | "float16" | "int32" | "int16" | "uint8";
  shape: number[];
  data: string;
}

const KINDS = { float32: Float32Array, float16: Uint16Array, int32: Int32Array, int16: Int16Array, uint8: Uint8Array };

function decoded({ dtype, data }: Coded): Float32Array | Uint16Array | Int32Array | Int16Array | Uint8Array {
  const bytes = Buffer.from(data, "base64");
  return new KINDS[dtype](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer);
}

/** Sequences. */
export function batchOf(given: Record<string, unknown>): Batch {
  const own = Object.entries(given).map(([name, value]) => [name, isCoded(value) ? decoded(value) : value]);
  const batch = Object.fromEntries(own);
  const { chain, attended, matches } = batch;
  return { ...batch, roles: { names: given.roles, chain, ...(matches && { attended, matches }) } } as Batch;
}

function isCoded(value: unknown): value is Coded {
  return typeof value === "object" && value !== null && "data" in value;
}

/** Parameters by name. */
export function weightsOf(given: Record<string, Coded>): Weights {
  const found = Object.entries(given).map(([name, value]) => [name, { shape: value.shape, values: decoded(value) }]);
  return Object.fromEntries(found) as Weights;
}
