/** A model trained in the page as a run's folder (`hopscope/runs/run.py`), packed as tar: safetensors and JSON alone. */
import type { Run } from "./bundle.ts";
import { RECIPE } from "./engine/learner.ts";
import { batchSize, initOf, type Lesson, pace } from "./engine/lesson.ts";
import { VALIDATION } from "./engine/school.ts";
import type { Weights } from "./engine/types.ts";

type Json = string | number | boolean | null | Real | Json[] | { [name: string]: Json };

/** A number that Python writes with a point, however whole it is: identities are hashes of what is written. */
class Real {
  constructor(readonly value: number) {}
}

/** The folder's name, and its bytes. Rejects with one sentence where the page may not compute a sha256. */
export async function packed(
  lesson: Lesson,
  run: Run,
  weights: Weights,
): Promise<{ name: string; bytes: Uint8Array<ArrayBuffer> }> {
  const { metrics } = run;
  const step = metrics.step.at(-1)!;
  const config = configOf(lesson, run, step);
  const identity = (await hash(encoded(written(config)))).slice(0, 12);
  const rows = metrics.step.map((at, i) => {
    const hop_losses = Object.fromEntries(Object.entries(metrics.hop_losses).map(([hop, all]) => [hop, all[i]!]));
    return { step: at, train_loss: null, val_loss: metrics.val_loss[i]!, hop_losses };
  });
  const logged = encoded(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  const { val_loss: loss, hop_losses } = rows.at(-1)!;
  const model = safetensors(weights);
  const about = { identity, step, metrics_bytes: logged.length, metrics_sha256: await hash(logged), seconds: 0 };
  const folder = `checkpoints/step_${String(step).padStart(8, "0")}`;
  const vouching = await manifest({ "model.safetensors": model }, about);
  const own = {
    "config.json": encoded(written({ format: 1, identity, ...config })),
    "metrics.jsonl": logged,
    "sessions.jsonl": encoded(`${written({ from_step: 0, environment: { made_by: "the page" } })}\n`),
    "report.json": encoded(written({ step, loss, hop_losses, n: VALIDATION, identity })),
    [`${folder}/manifest.json`]: vouching,
  };
  const files = { ...own, [`${folder}/model.safetensors`]: model, "manifest.json": await manifest(own, { identity }) };
  const name = `page-${identity}`;
  return { name: `${name}.tar`, bytes: tar(name, { ...files, DONE: new Uint8Array(0) }) };
}

/** What `config.json` holds: the settings that were there when there first were runs, and those that differ since. */
function configOf(lesson: Lesson, { task, model }: Run, step: number): { [name: string]: Json } {
  const { n_layers, n_heads, d_model, d_head, causal, layer_norm, mlp, positions } = model;
  const { start } = positions.settings;
  const { seed } = lesson;
  return {
    task: { name: task.name, ...task.settings, position_base: new Real(Number(task.settings.position_base)) },
    model: {
      ...{ n_layers, n_heads, d_model, d_head, d_mlp: 4 * d_model, attention: "softmax", causal, layer_norm, mlp },
      ...{ init: initOf(lesson), positions: start ? `relative(start='${start}')` : "learned" },
    },
    training: {
      ...{ steps: step, batch: batchSize(lesson), examples: 0, lr: RECIPE.rate, schedule: "constant", warmup: 0 },
      ...{ decay_steps: null, weight_decay: RECIPE.decay, decay_on: "all", beta1: RECIPE.beta1, beta2: RECIPE.beta2 },
      ...{ clip: null, dtype: "float32", log_every: pace(lesson), val_size: VALIDATION, measures: "" },
      ...{ checkpoints: String(step), stop_below: null, seed, seed_init: seed, seed_data: seed, seed_eval: 0 },
    },
    origin: { by: "page" }, // whose generator of random numbers is not Python's
  };
}

/** JSON as `json.dumps(value, sort_keys=True)` writes it, of ASCII. */
function written(value: Json): string {
  if (value instanceof Real) return Number.isInteger(value.value) ? `${value.value}.0` : String(value.value);
  if (Array.isArray(value)) return `[${value.map(written).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const parts = Object.keys(value).sort();
  return `{${parts.map((name) => `${JSON.stringify(name)}: ${written(value[name]!)}`).join(", ")}}`;
}

const encoded = (text: string): Uint8Array => new TextEncoder().encode(text);

async function hash(data: Uint8Array): Promise<string> {
  if (!globalThis.crypto?.subtle) throw new Error("This page may not compute a sha256 here: save from a page on disk.");
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", data as BufferSource));
  return Array.from(found, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A folder's manifest (`hopscope/core/storage.py`). */
async function manifest(contents: Record<string, Uint8Array>, about: { [name: string]: Json }): Promise<Uint8Array> {
  const files: { [name: string]: Json } = {};
  for (const [name, data] of Object.entries(contents)) files[name] = { bytes: data.length, sha256: await hash(data) };
  const all = { files, ...about };
  return encoded(written({ ...all, manifest_sha256: await hash(encoded(written(all))) }));
}

/** Tensors in float32 as safetensors has them: the header's length, the header, the numbers. */
function safetensors(weights: Weights): Uint8Array {
  let end = 0;
  const entries = Object.entries(weights).map(([name, { shape, values }]): [string, Json] => {
    const from = end;
    end += 4 * values.length;
    return [name, { dtype: "F32", shape: [...shape], data_offsets: [from, end] }];
  });
  const header = written(Object.fromEntries(entries));
  const size = 8 * Math.ceil(header.length / 8);
  const data = new Uint8Array(8 + size + end);
  new DataView(data.buffer).setUint32(0, size, true);
  data.set(encoded(header.padEnd(size)), 8);
  let at = 8 + size;
  for (const { values } of Object.values(weights)) {
    data.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), at);
    at += values.byteLength;
  }
  return data;
}

/** Files of one folder in the format that POSIX calls ustar. */
function tar(folder: string, files: Record<string, Uint8Array>): Uint8Array<ArrayBuffer> {
  const parts = Object.entries(files).flatMap(([name, data]) => {
    const header = new Uint8Array(512);
    const put = (text: string, at: number) => header.set(encoded(text), at);
    const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
    put(`${folder}/${name}`, 0);
    put(octal(0o644, 7) + octal(0, 7) + octal(0, 7) + octal(data.length, 11) + octal(0, 11), 100);
    put("        0", 148); // a checksum of blanks, and the kind: a file
    put("ustar\x0000", 257);
    put(
      `${octal(
        header.reduce((sum, byte) => sum + byte, 0),
        6,
      )} `,
      148,
    );
    return [header, data, new Uint8Array((512 - (data.length % 512)) % 512)];
  });
  const all = [...parts, new Uint8Array(1024)];
  const found = new Uint8Array(all.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of all) {
    found.set(part, at);
    at += part.length;
  }
  return found;
}
