"""Models built otherwise than Llama: what they score and write is what they say of one text read by itself.

Caches that are not of attention (LFM2, Jamba, Mamba, RWKV), and rotary angles that depend on the longest text of a
batch (`dynamic`, `longrope`).
"""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

import transformers

from hopscope.language.backends.base import Sampling
from hopscope.language.backends.hugging_face import HuggingFace
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Rendered
from tests.language.test_guards import characters

WIDE = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
SHAPE = {**WIDE, "num_hidden_layers": 2, "intermediate_size": 48}
SCALED = {"rope_theta": 10000.0, "factor": 4.0}
LONG = {"short_factor": [1.0] * 4, "long_factor": [1.0, 9.0, 9.0, 99.0], "original_max_position_embeddings": 32}
BUILDS = {
    "Lfm2": {**SHAPE, "layer_types": ["conv", "full_attention"]},
    "Jamba": {**SHAPE, "attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False, "num_experts": 2},
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
    "Mamba2": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 4, "head_dim": 16}
    | {"n_groups": 1},
    "OPT": {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 48}
    | {"word_embed_proj_dim": 32},
    "Granite": {**SHAPE, "logits_scaling": 8.0, "residual_multiplier": 0.5},
    "Rwkv": {"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
    "Llama": {**SHAPE, "max_position_embeddings": 32, "rope_parameters": {**SCALED, "rope_type": "dynamic"}},
    "Phi3": {**SHAPE, "max_position_embeddings": 128, "rope_parameters": {**SCALED, **LONG, "rope_type": "longrope"}},
}  # fmt: skip


def built(name: str, words, **changes):
    """A small model of random weights that are far from 0, so that its numbers are its own."""
    torch.manual_seed(0)
    kinds = [getattr(transformers, name + kind) for kind in ("Config", "ForCausalLM")]
    config = kinds[0](vocab_size=len(words), pad_token_id=0, bos_token_id=1, eos_token_id=2, **BUILDS[name], **changes)
    model = kinds[1](config).eval().requires_grad_(False)
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.mul_(4)
    return model


def by_itself(model, ids: list[int], answer: list[int]) -> float:
    """A fresh model's log-probability of an answer, in one plain pass."""
    rows = model(torch.tensor([ids + answer])).logits[0].log_softmax(-1)
    return sum(float(rows[len(ids) - 1 + i, token]) for i, token in enumerate(answer))


@pytest.mark.parametrize("name", BUILDS)
def test_a_text_scores_and_goes_on_as_it_does_by_itself(name):
    """Short and long ones together, and a long one before a short one."""
    words = characters()
    asked = [Rendered(text, False, ("bc", "d"), (), ()) for text in ("a" * 50, "ab", "abcd" * 5)]
    backend = HuggingFace(Opened(built(name, words), words, name, {}))
    found, texts = backend.log_likelihoods(asked), backend.generate(asked, [Sampling(0.0, 3, 0)] * 3)
    for request, scores, text in zip(asked, found, texts, strict=True):
        ids = words(request.text)["input_ids"]
        answers = [words(choice, add_special_tokens=False)["input_ids"] for choice in request.choices]
        assert scores == pytest.approx([by_itself(built(name, words), ids, one) for one in answers], abs=2e-4)
        fresh = built(name, words)
        for _ in range(3):
            ids.append(int(fresh(torch.tensor([ids])).logits[0, -1].argmax()))
        assert text == words.decode(ids[-3:], skip_special_tokens=True).partition("</s>")[0]
        assert all(map(math.isfinite, scores))
