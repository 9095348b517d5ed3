"""An untrained model of the same architecture: the negative control."""

from __future__ import annotations

import torch

from hopscope.language.checkpoints import Opened


def untrained(opened: Opened, seed: int) -> Opened:
    """A model of the same architecture with new random weights, initialised as its configuration says."""
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(opened.model.config, dtype=torch.float32)
    model.generation_config = opened.model.generation_config
    name = f"{opened.name}, untrained"
    return Opened(model.eval().requires_grad_(False), opened.tokenizer, name, {**opened.identity, "untrained": seed})
