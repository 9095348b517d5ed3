"""Properties of a Hugging Face model that limit how texts can be batched: context length, rotary scaling, cache."""

from __future__ import annotations

from typing import Any

import torch


def rotary(config: Any) -> list[dict[str, Any]]:
    """The parameters of rotary positions: one set, or one per kind of layer."""
    parameters = getattr(config, "rope_parameters", None) or {}
    return [one for one in (parameters, *parameters.values()) if isinstance(one, dict) and "rope_type" in one]


def by_length(config: Any) -> bool:
    """Whether rotary angles depend on the longest text in the batch; such texts are computed one by one."""
    return any(one["rope_type"] in ("dynamic", "longrope") for one in rotary(config))


def context(config: Any) -> int | None:
    """The context length in tokens; `dynamic` rotary scaling extends it by its factor. None if it is not known."""
    longest: int | None = getattr(config, "max_position_embeddings", None)
    factors = [one.get("factor") or 1 for one in rotary(config) if one["rope_type"] == "dynamic"]
    return longest if longest is None or not factors else int(longest * max(factors))


@torch.no_grad()
def keeps_attention_alone(network: Any) -> bool:
    """Whether a model's cache consists of keys and values alone, which can be indexed by row and used with padding.

    The states of recurrent layers (Mamba, RWKV, Jamba, LFM2) cannot.
    """
    from transformers.cache_utils import Cache, DynamicLayer

    cache = network(torch.tensor([[0, 0]]), use_cache=True).get("past_key_values")
    return isinstance(cache, Cache) and all(isinstance(layer, DynamicLayer) for layer in cache.layers)
