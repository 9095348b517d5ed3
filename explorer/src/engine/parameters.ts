// A transformer's parameters by their names in Python (`hopscope/models/transformer.py`): shapes and initial weights.
import { normal } from "./random.ts";
import type { Shape, Weights } from "./types.ts";

/** How weights begin (`Architecture.init`). */
export type Init = "gpt2" | "early_layers";

/** The shapes of an attention-only transformer of one head a layer. */
export function shapesOf(shape: Shape): Map<string, number[]> {
  const { n_layers, n_heads, d_model, d_head, d_input, d_output, n_positions, positions } = shape;
  const layers = Array.from({ length: n_layers }, (_, layer): [string, number[]][] => [
    [`blocks.${layer}.ln1.w`, [d_model]],
    [`blocks.${layer}.ln1.b`, [d_model]],
    [`blocks.${layer}.attn.W_QKV`, [3, n_heads, d_model, d_head]],
    [`blocks.${layer}.attn.b_QKV`, [3, n_heads, d_head]],
    [`blocks.${layer}.attn.W_O`, [n_heads, d_head, d_model]],
    [`blocks.${layer}.attn.b_O`, [d_model]],
    ...(positions.name === "relative"
      ? [[`blocks.${layer}.attn.positions.beta`, [n_heads, n_positions]] as [string, number[]]]
      : []),
  ]);
  return new Map([
    ["W_E", [d_input, d_model]],
    ["b_E", [d_model]],
    ...(positions.name === "learned" ? [["W_pos", [n_positions, d_model]] as [string, number[]]] : []),
    ...layers.flat(),
    ["ln_final.w", [d_model]],
    ["ln_final.b", [d_model]],
    ["W_U", [d_model, d_output]],
    ["b_U", [d_output]],
  ]);
}

export const sizeOf = (shape: readonly number[]): number => shape.reduce((one, other) => one * other, 1);

/**
 * Initial weights, as `Transformer.initialise` draws them: biases 0, norms 1. `prior`: where the bias of the first layer
 * for the token before begins, as scores count it.
 */
export function initial(shape: Shape, init: Init, prior: number, random: () => number): Weights {
  const found: Weights = Object.create(null);
  for (const [name, sizes] of shapesOf(shape)) {
    const values = new Float32Array(sizeOf(sizes));
    const last = name.slice(name.lastIndexOf(".") + 1);
    if (last === "w") values.fill(1);
    if (last.startsWith("W_")) {
      const layer = Number(name.split(".")[1]);
      const fan = name === "W_E" ? shape.d_input : shape.d_model;
      const written = { gpt2: (2 * shape.n_layers) ** -0.5, early_layers: 1 / (layer + 1) }[init];
      const scale = (last === "W_O" ? written : 1) * (init === "gpt2" ? 0.02 : fan ** -0.5);
      for (let i = 0; i < values.length; i++) values[i] = scale * (init === "gpt2" ? normal(random) : 2 * random() - 1);
    }
    if (name === "blocks.0.attn.positions.beta" && shape.positions.name === "relative") {
      values[1] = prior / shape.positions.scale;
    }
    Object.assign(found, { [name]: { shape: sizes, values } });
  }
  return found;
}
