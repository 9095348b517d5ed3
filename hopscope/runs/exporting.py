"""Export to TransformerLens: weights, configuration, and a script that loads them (Nanda & Bloom, 2022).

`HookedTransformer(HookedTransformerConfig(**config)).load_state_dict(weights)` then computes what our model does; from
version 4 on a `TransformerBridge` does. If inputs are vectors there are no tokens to embed: the matrix in
`inputs.safetensors` projects them, and the model is run from its first layer.
"""

from __future__ import annotations

import json
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.models.transformer import Transformer
from hopscope.runs.importing import to_transformer_lens
from hopscope.tasks.base import Task

LOAD = '''"""Loads this model: python -i load.py (pip install transformer-lens safetensors)."""

import json
from importlib.metadata import version
from pathlib import Path

from safetensors.torch import load_file

here = Path(__file__).parent
config, weights = json.load((here / "config.json").open()), load_file(here / "weights.safetensors")
if int(version("transformer-lens").split(".")[0]) < 4:
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    model = HookedTransformer(HookedTransformerConfig(**config))
    model.load_state_dict({**model.state_dict(), **weights})
else:
    from transformer_lens import TransformerBridge, TransformerBridgeConfig
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    shape = TransformerBridgeConfig(**config)
    model = TransformerBridge.boot_native(shape)
    model.load_state_dict(convert_tl_checkpoint(weights, shape))
'''
VECTORS = """
# Inputs are vectors (batch, position, d_input): outputs = run(inputs).
projection = load_file(here / "inputs.safetensors")


def run(inputs):
    places = model.W_pos[: inputs.shape[1]]  # of which a model that is given a stream adds none
    return model(inputs @ projection["W_E"] + projection["b_E"] + places, start_at_layer=0)
"""


def transformer_lens_files(model: Model, task: Task) -> dict[str, bytes]:
    """The exported files' contents, by name.

    Raises:
        BadInput: the model has an attention variant or a position code that TransformerLens lacks, or layers that are
            not simply stacked.
    """
    name = model.architecture.name()
    if not isinstance(model, Transformer):
        raise BadInput(f"TransformerLens has transformers alone; this model is a {name}")
    weights, projection = split_inputs(to_transformer_lens(model), config(model, task))
    if not model.starts_at_layers:
        raise BadInput(f"TransformerLens has layers that stand one on the other; those of this {name} do not")
    files = {
        "config.json": json.dumps(config(model, task), indent=1).encode(),
        "weights.safetensors": safetensors.torch.save(weights),
        "load.py": (LOAD + (VECTORS if projection else "")).encode(),
    }
    return files | ({"inputs.safetensors": safetensors.torch.save(projection)} if projection else {})


def config(model: Transformer, task: Task) -> dict[str, Any]:
    """Arguments of a HookedTransformerConfig. Raises BadInput for a position code that TransformerLens lacks."""
    shape = model.architecture
    code = shape.positions or "learned"
    if code.partition("(")[0] not in ("input", "learned", "none"):
        raise BadInput(f"positions {code} are not exported: TransformerLens computes its own; train with learned ones")
    return {
        "n_layers": shape.n_layers,
        "d_model": shape.d_model,
        "n_ctx": len(model.mask),
        "n_heads": shape.n_heads,
        "d_head": shape.head_width,
        "d_mlp": shape.mlp_width,
        "attn_only": not shape.mlp,
        "d_vocab": task.d_vocab or 1,
        "d_vocab_out": task.d_output,
        "act_fn": "gelu_new",
        "normalization_type": "LN" if shape.layer_norm else None,
        "attention_dir": "causal" if shape.causal else "bidirectional",
        "default_prepend_bos": False,
        "device": "cpu",
        "seed": 0,
    }


def split_inputs(weights: dict[str, Tensor], about: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """All weights of a HookedTransformer; and apart from them the projection of input vectors, which it lacks."""
    width = about["d_model"]
    zeros = {"pos_embed.W_pos": torch.zeros(about["n_ctx"], width)}
    if "embed.b_E" not in weights:
        return zeros | weights, {}
    projection = {"W_E": weights.pop("embed.W_E"), "b_E": weights.pop("embed.b_E")}
    return zeros | {"embed.W_E": torch.zeros(about["d_vocab"], width)} | weights, projection
