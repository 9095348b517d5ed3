"""What tests of studies of language models share: a small Llama with random weights, and the fields of a report."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from hopscope.language.checkpoints import Opened
from hopscope.language.lens.attention import Lens


def random_lens(words: PreTrainedTokenizerBase, norms: tuple[float, float] | None = None) -> Lens:
    """Three layers of four heads, two of which share keys and values; weights and, from a range, norms drawn."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=0.3,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if norms and "norm" in name:
            weight.uniform_(*norms)
    return Lens(Opened(model, words, "random", {}))


def fields(found: Any) -> Any:
    """The fields of a report, however deep, but for those that are names of heads."""
    if isinstance(found, dict):
        return {name: fields(value) for name, value in found.items() if not name.startswith("L")}
    return [fields(found[0])] if isinstance(found, list) and found else None
