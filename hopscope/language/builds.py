"""How a Hugging Face model is built, as far as it decides how texts may be read: how long, and which ones together."""

from __future__ import annotations

from typing import Any

import torch


def rotary(config: Any) -> list[dict[str, Any]]:
    """How positions are turned into angles: one set of parameters, or one per kind of layer."""
    held = getattr(config, "rope_parameters", None) or {}
    return [one for one in (held, *held.values()) if isinstance(one, dict) and "rope_type" in one]


def by_length(config: Any) -> bool:
    """Whether a text's angles depend on the longest text beside it: then each is read by itself."""
    return any(one["rope_type"] in ("dynamic", "longrope") for one in rotary(config))


def context(config: Any) -> int | None:
    """How many tokens a model was made to read; `dynamic` angles stretch with the text, by at most their factor."""
    longest: int | None = getattr(config, "max_position_embeddings", None)
    factors = [one.get("factor") or 1 for one in rotary(config) if one["rope_type"] == "dynamic"]
    return longest if longest is None or not factors else int(longest * max(factors))


@torch.no_grad()
def keeps_attention_alone(network: Any) -> bool:
    """Whether what a model keeps of a text are keys and values, whose rows can be picked, and read with padding.

    States of recurrent layers (Mamba, RWKV, Jamba, LFM2) are none of these.
    """
    from transformers.cache_utils import Cache, DynamicLayer

    cache = network(torch.tensor([[0, 0]]), use_cache=True).get("past_key_values")
    return isinstance(cache, Cache) and all(isinstance(layer, DynamicLayer) for layer in cache.layers)
