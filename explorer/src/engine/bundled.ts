// From a bundle to what the engine is given: shapes, weights, sequences and changes.
import * as bundle from "../bundle.ts";
import { parsePath } from "./paths.ts";
import type { Attention, Batch, Change, Path, Positions, Scoring, Shape, Weighted, Weights } from "./types.ts";

/** A run's model. The engine knows it if the manifest calls it native. */
export function shapeOf({ model, task }: bundle.Run): Shape {
  const { n_layers, n_heads, d_model, d_head, layer_norm, causal } = model;
  return {
    ...{ n_layers, n_heads, d_model, d_head, layer_norm, causal },
    d_mlp: model.mlp ? model.d_mlp : 0,
    attention: { name: model.attention.name } as Attention,
    positions: { name: model.positions.name, ...model.positions.settings } as Positions,
    tokens: task.d_input === null,
    d_input: task.d_input ?? task.d_vocab ?? 0,
    d_output: task.d_output,
    n_positions: task.n_positions,
  };
}

/** How a task's outputs become losses. Throws BundleError where the page knows no rule. */
export function scoringOf({ task }: bundle.Run): Scoring {
  if (!task.scoring) throw new bundle.BundleError(`The page does not know the losses of the task ${task.name}.`);
  return task.scoring;
}

/** A checkpoint's block of numbers as the model's parameters. */
export function weightsOf({ model }: bundle.Run, entry: bundle.BlockEntry, data: ArrayBuffer): Weights {
  const values = entry.dtype === "float16" ? new Uint16Array(data) : bundle.numbers(entry, data);
  const found: Weights = Object.create(null);
  let place = 0;
  for (const { name, shape } of model.tensors) {
    const size = shape.reduce((one, other) => one * other, 1);
    Object.assign(found, { [name]: { shape, values: values.slice(place, place + size) } });
    place += size;
  }
  if (place !== values.length) {
    throw new bundle.BundleError(
      `The weights are of another model: ${values.length} numbers where there should be ${place}.`,
    );
  }
  return found;
}

/** A run's sequences; `read` gives a block by name. */
export async function batchOf(
  { batch, task }: bundle.Run,
  read: (name: string) => Promise<{ entry: bundle.BlockEntry; data: ArrayBuffer }>,
): Promise<Batch> {
  const plain = async (name: string): Promise<Float32Array | Int32Array> => {
    const { entry, data } = await read(name);
    return entry.dtype.startsWith("float")
      ? bundle.numbers(entry, data)
      : Int32Array.from(bundle.integers(entry, data));
  };
  const chain = await read(batch.chain);
  const [start, end] = task.query_positions;
  return {
    n: batch.n,
    n_positions: task.n_positions,
    inputs: await plain(batch.inputs),
    queries: { start, end },
    targets: await plain(batch.targets),
    roles: {
      names: batch.roles,
      chain: Int16Array.from(bundle.integers(chain.entry, chain.data)),
      ...(batch.matches && {
        attended: batch.attended,
        matches: Uint8Array.from((await plain(batch.matches)) as Int32Array),
      }),
    },
    ideal_over: task.ideal_over,
    ...(batch.candidates && { candidates: (await plain(batch.candidates)) as Float32Array }),
    ...(batch.asked && { asked: (await plain(batch.asked)) as Int32Array }),
  };
}

/** A change in the page's words as the engine's (`hopscope.explorer.computing.Ask.change`). Throws BundleError. */
export function changesOf(change: bundle.Change, circuit: bundle.Circuit | null): Change[] {
  const [ideal, off] = [change.ideal.map(known), change.off.map(known)];
  if (change.hand) return [{ kind: "by hand", paths: byHand(circuit, change), null: change.null }];
  const found: Change[] = [];
  if (ideal.length) found.push({ kind: "held ideal", paths: ideal });
  if (off.length) found.push({ kind: "silenced", units: off, null: change.null });
  return found;
}

/** The circuit's paths by their strengths and those held ideal, without those that are off. */
function byHand(circuit: bundle.Circuit | null, { ideal, off }: bundle.Change): Weighted[] {
  const weights = new Map<string, Weighted>();
  const add = (path: Path, weight: number): void => {
    const name = `${path.layer} ${path.head} ${path.query} ${path.key} ${path.chain}`;
    if (!weights.has(name)) weights.set(name, { path, weight });
  };
  for (const { layer, head, query, key, chain, strength } of circuit?.paths ?? []) {
    add({ layer, head, query, key, chain }, Math.max(strength, 1e-6));
  }
  for (const path of ideal.map(known)) add(path, 1);
  const gone = off.map(known);
  return [...weights.values()].filter(({ path }) => !gone.some((other) => same(path, other)));
}

function same(one: Path, other: Path): boolean {
  const places = one.layer === other.layer && one.head === other.head;
  return places && one.query === other.query && one.key === other.key && one.chain === other.chain;
}

function known(name: string): Path {
  const path = parsePath(name);
  if (!path)
    throw new bundle.BundleError(`A path is written such as L1H0 value[1]->key[1]; this is ${name.slice(0, 80)}.`);
  return path;
}
