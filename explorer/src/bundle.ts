/**
 * A bundle: all that the page knows of some runs. The mirror of hopscope/explorer/bundle.py, whose docstring defines every
 * key; read that first. A bundle comes from one of three sources: a server, the page's own file, a notebook.
 */

export const FORMAT = 1;

export type DType = "float32" | "float16" | "int32" | "int8" | "uint8";

export interface BlockEntry {
  dtype: DType;
  shape: number[];
  bytes: number;
  sha256: string;
  scale: [number, number] | null;
}

export interface Path {
  /** `L1H0 value[1]->key[1]`, with ` (other)` behind it between chains; how a path is called everywhere. */
  name: string;
  layer: number;
  head: number;
  query: string;
  key: string;
  chain: "same" | "other";
}

export interface Losses {
  loss: number;
  hop_losses: Record<string, number>;
}

export interface Checkpoint {
  step: number;
  state: "ready" | "pending" | "damaged" | "missing";
  told: string | null;
  weights: string | null;
  strengths: string | null;
  patterns: string | null;
  reference: Record<string, Losses> | null;
  accuracy: Record<string, number> | null;
}

export type Settings = Record<string, string | number | boolean | null>;

export interface Variant {
  name: string;
  settings: Settings;
}

export interface Task {
  name: string;
  settings: Settings;
  kind: "vector" | "token";
  n_positions: number;
  d_input: number | null;
  d_vocab: number | null;
  d_symbol: number | null;
  d_output: number;
  hop_names: string[];
  query_positions: [number, number];
  floor: number;
  chance: number;
  learnt_below: number;
  solved_below: number;
  baselines: Record<string, number>;
  ideal_over: "even" | "latest";
  null: "uniform" | "identity";
  carries_position: boolean;
  scoring: Scoring | null;
}

/** The losses' rule (hopscope/explorer/scoring.py). */
export interface Scoring {
  kind: "vectors" | "numbers" | "tokens";
  hops: string[];
  width: number;
  shared: boolean;
  unscored: number[];
  counted: boolean;
  total: "hops" | "answers" | number;
  scale: number;
  right_below: number;
  by_place: boolean;
}

export interface Model {
  name: string;
  settings: Settings;
  n_layers: number;
  n_heads: number;
  d_model: number;
  d_head: number;
  d_mlp: number;
  attention: Variant;
  positions: Variant;
  causal: boolean;
  layer_norm: boolean;
  mlp: boolean;
  parameters: number;
  native: boolean;
  fallback: string | null;
  tensors: { name: string; shape: number[] }[];
}

export interface Instance {
  symbols: string[];
  roles: string[];
  facts: [string[], string][];
  queries: string[];
  answers: string[][];
  candidates: string[];
}

export interface BatchEntry {
  seed: number;
  n: number;
  sizes: number[];
  inputs: string;
  targets: string;
  chain: string;
  matches: string | null;
  candidates: string | null;
  asked: string | null;
  roles: string[];
  attended: string[];
  instances: Instance[];
  typing: Typing;
}

/** How people type sequences (hopscope/explorer/typed.py). */
export type Typing =
  | { kind: "facts" }
  /** By token its names, the last that of an answer; `free`: any word may stand for a token. */
  | { kind: "tokens"; names: string[][]; free: boolean; example: number[] }
  | { kind: "none"; told: string };

export interface Onset {
  status: "seen" | "already" | "never";
  step: number | null;
  after: number | null;
  by: number | null;
  falls: number;
}

export interface CircuitPath extends Omit<Path, "name"> {
  strength: number;
  removal_loss: number;
  silenced_loss: number;
  hypothesis: string;
  bits: number | null;
}

export interface Circuit {
  step: number;
  words: string;
  verdict: "circuit" | "partial" | "none";
  reason: string;
  threshold: number;
  paths: CircuitPath[];
  [more: string]: unknown;
}

export interface Emergence {
  steps: number[];
  paths: (Omit<Path, "name"> & { name: string; strength: number; hop: string | null; [more: string]: unknown })[];
  hops: Record<string, Onset>;
  hop_losses: Record<string, number[]>;
  effects: Record<string, { effect: number[]; low: number[]; high: number[] }>;
  [more: string]: unknown;
}

/** What the streams of a checkpoint hold (hopscope/explorer/decoders.py). */
export interface Decoders {
  step: number;
  n: number;
  least: number;
  cells: { layer: number; role: string; hop: number; accuracy: number }[];
  block: string;
}

export interface Run {
  identity: string;
  name: string;
  done: boolean;
  error: string | null;
  warnings: string[];
  task: Task;
  model: Model;
  config: { seed: number; training: Settings };
  metrics: {
    step: number[];
    train_loss: (number | null)[];
    val_loss: (number | null)[];
    hop_losses: Record<string, (number | null)[]>;
  };
  batch: BatchEntry;
  paths: Path[];
  checkpoints: Checkpoint[];
  onsets: Record<string, Onset>;
  learnt: Record<string, Onset>;
  circuit: Circuit | null;
  decoders: Decoders | null;
  emergence: Emergence | null;
  /** Steps whose weights a file holds; the page goes by the checkpoints that have them. */
  tour?: number[] | null;
}

export interface Claim {
  experiment: string;
  id: string;
  section: string;
  sentence: string;
  scale: string;
  number: number | null;
  spread: [number | null, number | null];
  /** 95 % interval of the mean over seeds; null or absent (older files) if there is none. */
  interval?: [number, number] | null;
  n: number;
  threshold: string;
  verdict: "holds" | "fails" | "undecided";
  runs: string[];
  version: string;
  command: string;
  about: string;
  study: string;
  paper: string;
  control: boolean;
  /** Whether this is its claim's last word; the other rows are of other scales. */
  counts: boolean;
  table: string | null;
  figure: string | null;
}

export interface Manifest {
  format: number;
  made_by: string;
  revision: number;
  progress: { told: string; done: number; of: number; complete: boolean };
  replacements: Record<"off" | "ideal" | "hand", string>;
  runs: Run[];
  claims: Claim[] | null;
  /** How many claims came out how, in sentences (hopscope/experiments/counting.py): the page counts none itself. */
  counts: { told: string; how: string; studies: { study: string; found: string; told: string }[] } | null;
  /** The view on which the page opens; null: the scene, or what there is. */
  opens: string | null;
  blocks: Record<string, BlockEntry>;
}

/**
 * What is done to attention, in Python's words (hopscope/explorer/computing.py, hopscope/circuits/evaluator.py):
 * - `hand`: every head's pattern by hand: the ideal rows of the circuit's paths that are not off, and of those held
 *   ideal, weighted by strength where several share a row; null everywhere else (`Hard`).
 * - else the model as it computes, in which rows of paths held `ideal` are ideal (`prescribed`), and then paths that are
 *   `off` are null (`Silenced`).
 */
export interface Change {
  hand: boolean;
  off: string[];
  ideal: string[];
  /** Of what is silenced, and by hand of all that has no path. */
  null: "uniform" | "identity" | "resample";
}

/** What one is asked, by the page of the engine or of the server. */
export interface Ask {
  run: string;
  step: number;
  change: Change;
  /** Sequences: one of the batch's sizes. */
  n: number;
  /** An instance whose patterns and answers are wanted, too. */
  instance: number | null;
  /** A sequence that was typed, or how many fresh ones of a fact sheet: then their answers alone are wanted. */
  typed?: readonly number[];
  fresh?: number;
  seed?: number;
}

/** The answer, of the engine and of the server (`compute`) alike. */
export interface Answer {
  run: string;
  step: number;
  n: number;
  loss: number;
  /** 95 % over sequences, normal approximation (hopscope/circuits/losses.py). */
  low: number;
  high: number;
  hop_losses: Record<string, number>;
  accuracy: Record<string, number>;
  instance: InstanceAnswer | null;
  typed?: TypedAnswer[];
}

/** A typed or fresh sequence: how a sheet's facts and queries stand, and all answers, of a sheet by symbol numbers. */
export interface TypedAnswer {
  order: { facts: number[]; queries: number[] } | null;
  roles: string[];
  answers: {
    query: number;
    hop: number;
    named: number;
    right: number;
    runner_up: number;
    distance: number;
    runner_up_distance: number;
  }[];
}

export interface InstanceAnswer {
  instance: number;
  /** Per layer and head the changed pattern, query by key, flat. */
  patterns: number[][][];
  /** Per query and hop: what is named, how far off (distance, or nats), and the runner-up. */
  answers: { named: number; distance: number; runner_up: number; margin: number }[][];
}

/** What is wrong with a bundle, in one sentence. */
export class BundleError extends Error {}

/** Where a bundle comes from. */
export interface Source {
  kind: "served" | "file" | "notebook";
  manifest(): Promise<Manifest>;
  /** A block's bytes, already checked against its entry. */
  bytes(name: string, entry: BlockEntry): Promise<ArrayBuffer>;
  /** Null where nothing but the page computes. */
  compute: ((ask: Ask) => Promise<Answer>) | null;
}

const BYTES: Record<DType, number> = { float32: 4, float16: 2, int32: 4, int8: 1, uint8: 1 };

/** A manifest, if it is one. Throws BundleError. */
export function checked(value: unknown): Manifest {
  if (typeof value !== "object" || value === null || !("format" in value)) {
    throw new BundleError("This is no bundle: it has no format.");
  }
  const manifest = value as Manifest;
  if (manifest.format !== FORMAT) {
    throw new BundleError(
      `The bundle is of format ${manifest.format}, and this page reads format ${FORMAT}: export it anew.`,
    );
  }
  if (!Array.isArray(manifest.runs) || typeof manifest.blocks !== "object") {
    throw new BundleError("The bundle is cut short: it lists no runs or no blocks.");
  }
  for (const [name, entry] of Object.entries(manifest.blocks)) {
    const size = entry.shape.reduce((product, length) => product * length, 1) * (BYTES[entry.dtype] ?? NaN);
    if (size !== entry.bytes) {
      throw new BundleError(
        `The bundle is altered: block ${name} should have ${size} bytes, and lists ${entry.bytes}.`,
      );
    }
  }
  return manifest;
}

/** A block's bytes, if they are as many as its entry says. Throws BundleError. */
export function measured(name: string, entry: BlockEntry, data: ArrayBuffer): ArrayBuffer {
  if (data.byteLength !== entry.bytes) {
    throw new BundleError(`Block ${name} is damaged: it has ${data.byteLength} bytes, not ${entry.bytes}.`);
  }
  return data;
}

/** A block as numbers in float32; bytes with a scale, and float16, become what they stand for. */
export function numbers(entry: BlockEntry, data: ArrayBuffer): Float32Array {
  if (entry.dtype === "float32") return new Float32Array(data);
  if (entry.dtype === "float16") return halves(new Uint16Array(data));
  const whole = integers(entry, data);
  const found = new Float32Array(whole.length);
  const [low, high] = entry.scale ?? [0, 255];
  const unit = entry.scale || entry.dtype === "uint8" ? (high - low) / 255 : 1;
  for (let i = 0; i < whole.length; i++) found[i] = (entry.scale ? low : 0) + unit * whole[i]!;
  return found;
}

/** A block of whole numbers. */
export function integers(entry: BlockEntry, data: ArrayBuffer): Int32Array | Int8Array | Uint8Array {
  if (entry.dtype === "int32") return new Int32Array(data);
  return entry.dtype === "int8" ? new Int8Array(data) : new Uint8Array(data);
}

/** A block of text. */
export function text(data: ArrayBuffer): string {
  return new TextDecoder().decode(data);
}

/** IEEE half floats as single ones. */
export function halves(bits: Uint16Array): Float32Array {
  const found = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) {
    const half = bits[i]!;
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    let value: number;
    if (exponent === 0) value = fraction * 2 ** -24;
    else if (exponent === 31) value = fraction ? NaN : Infinity;
    else value = (1 + fraction / 1024) * 2 ** (exponent - 15);
    found[i] = half & 0x8000 ? -value : value;
  }
  return found;
}

/** From base64, as a file holds blocks. Throws BundleError. */
export function fromBase64(name: string, coded: string): ArrayBuffer {
  let raw: string;
  try {
    raw = atob(coded.trim());
  } catch {
    throw new BundleError(`Block ${name} is damaged: it is no base64.`);
  }
  const data = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) data[i] = raw.charCodeAt(i);
  return data.buffer;
}

/** What was packed by gzip, as text is in a file. Throws BundleError. */
async function unpacked(name: string, data: ArrayBuffer): Promise<ArrayBuffer> {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer().catch(() => {
    throw new BundleError(`Block ${name} is damaged: it cannot be unpacked.`);
  });
}

/** The page's own file, if it holds a bundle: elements `bundle` (JSON) and `block:NAME` (base64). */
export function fileSource(page: Document): Source | null {
  const manifest = page.getElementById("bundle");
  if (!manifest) return null;
  return {
    kind: "file",
    manifest: async () => checked(parsed(manifest.textContent ?? "")),
    bytes: async (name, entry) => {
      const element = page.getElementById(`block:${name}`);
      if (!element) throw new BundleError(`Block ${name} is missing from this file: export it anew.`);
      const data = fromBase64(name, element.textContent ?? "");
      const gzip = element.getAttribute("type")?.includes("gzip");
      return measured(name, entry, gzip ? await unpacked(name, data) : data);
    },
    compute: null,
  };
}

/** A server: `bundle.json`, `block/NAME`, `compute?…`, relative to the page's address. */
export function servedSource(): Source {
  const get = async (address: string): Promise<Response> => {
    let answer: Response;
    try {
      answer = await fetch(address, { credentials: "same-origin", cache: "no-store" });
    } catch {
      throw new BundleError("The server does not answer: is 'hopscope explore' still running?");
    }
    if (answer.status === 401)
      throw new BundleError(
        "The server does not know this page any more: open the address that 'hopscope explore' prints.",
      );
    if (!answer.ok) {
      const told = (await answer.json().catch(() => null)) as { error?: string } | null; // the server's own sentence
      throw new BundleError(told?.error ?? `The server answered ${answer.status} to ${address}.`);
    }
    return answer;
  };
  return {
    kind: "served",
    manifest: async () => checked(parsed(await (await get("bundle.json")).text())),
    bytes: async (name, entry) => measured(name, entry, await (await get(`block/${name}`)).arrayBuffer()),
    compute: async (ask) => (await (await get(`compute?${asked(ask)}`)).json()) as Answer,
  };
}

/** What anywidget hands a page in a notebook. */
export interface NotebookModel {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, heard: (...what: never[]) => void): void;
  off(event: string, heard?: (...what: never[]) => void): void;
  send(content: unknown): void;
}

/**
 * A notebook (hopscope/explorer/widget.py): every question is a message with an id, which the answer repeats. The traits
 * `state` (what stands behind # in the address) and `height` are the page's own to read and set.
 */
export function notebookSource(model: NotebookModel): Source {
  type Heard = { id?: number; error?: string; text?: string; answer?: Answer };
  const waiting = new Map<number, (content: Heard, buffers: DataView[]) => void>();
  let last = 0;
  model.on("msg:custom", ((content: Heard, buffers: DataView[]) => {
    const heard = content.id === undefined ? undefined : waiting.get(content.id);
    if (content.id !== undefined) waiting.delete(content.id);
    heard?.(content, buffers ?? []);
  }) as (...what: never[]) => void);
  const ask = (question: Record<string, unknown>): Promise<[Heard, DataView[]]> =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, (content, buffers) => {
        if (content.error === undefined) resolve([content, buffers]);
        else reject(new BundleError(content.error));
      });
      model.send({ id, ...question });
    });
  return {
    kind: "notebook",
    manifest: async () => checked(parsed((await ask({ kind: "manifest" }))[0].text ?? "")),
    bytes: async (name, entry) => {
      const [, [found]] = await ask({ kind: "block", name });
      if (!found) throw new BundleError(`Block ${name} did not come: run the cell again.`);
      const copy = new Uint8Array(new Uint8Array(found.buffer as ArrayBuffer, found.byteOffset, found.byteLength));
      return measured(name, entry, copy.buffer);
    },
    compute: async (question) => (await ask({ kind: "compute", query: asked(question) }))[0].answer as Answer,
  };
}

/** An ask as the server's query string. */
export function asked(ask: Ask): string {
  const query = new URLSearchParams({ run: ask.run, step: String(ask.step), n: String(ask.n), null: ask.change.null });
  if (ask.change.hand) query.set("hand", "1");
  for (const path of ask.change.off) query.append("off", path);
  for (const path of ask.change.ideal) query.append("ideal", path);
  if (ask.instance !== null) query.set("instance", String(ask.instance));
  if (ask.typed) query.set("typed", ask.typed.join());
  if (ask.fresh) query.set("fresh", String(ask.fresh));
  if (ask.seed) query.set("seed", String(ask.seed));
  return query.toString();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BundleError("The bundle is cut short: it is no JSON.");
  }
}
