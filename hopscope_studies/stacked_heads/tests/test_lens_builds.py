"""Tests of the lens on other architectures: it is correct for a model, or says in one sentence why it cannot be."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

import transformers

from hopscope.core.settings import BadInput
from hopscope.language.checkpoints import Opened
from hopscope.language.lens.ablation import top_heads
from hopscope.language.lens.attention import Lens, Seen
from hopscope.language.lens.prompts import prompts_of
from hopscope.language.lent import lent
from hopscope_studies.stacked_heads.language import stacking
from hopscope_studies.stacked_heads.language.role_paths import base, means_of, trace
from tests.language import planted
from tests.language.planted import Lines, Plain
from tests.language.test_guards import characters, like

pytestmark = pytest.mark.heavy

READ = (
    *("Llama", "Mistral", "Mixtral", "Qwen2", "Qwen2Moe", "Qwen3", "Qwen3Moe", "Gemma", "Granite"),
    *("Starcoder2", "Olmo", "Glm", "Helium", "SmolLM3", "Ernie4_5", "Arcee", "SeedOss", "HunYuanDenseV1"),
)
REFUSED = (
    *("Gemma2", "GPT2", "GPTNeoX", "GPTJ", "Bloom", "OPT", "Mpt", "Phi", "Phi3", "StableLm", "Olmo2", "Cohere"),
    *("Glm4", "BitNet", "Nemotron", "Exaone4", "DeepseekV3", "GptOss", "MiniMax", "Persimmon", "Jamba", "Mamba"),
    *("Lfm2", "Rwkv", "Apertus", "Doge", "DiffLlama", "CodeGen", "XGLM", "BioGpt"),
)
SHAPE = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "head_dim": 8}


def small(name: str):
    torch.manual_seed(0)
    kind = getattr(transformers, name + "ForCausalLM", None) or getattr(transformers, name + "LMHeadModel")
    more = {"intermediate_size": 48, "vocab_size": 98, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    more |= {"rotary_dim": 8} if name == "GPTJ" else {}
    config = getattr(transformers, name + "Config")(**SHAPE, **more, max_position_embeddings=64)
    return kind(config).eval().requires_grad_(False)


@pytest.mark.parametrize("name", [*READ, *REFUSED])
def test_a_lens_checks_itself_or_refuses_in_one_sentence(name):
    model = small(name)
    opened = Opened(model, characters(), name, {})
    if name in REFUSED:
        with pytest.raises(BadInput) as caught:
            Lens(opened)
        assert name in str(caught.value) or "not plain softmax" in str(caught.value)
        assert "\n" not in str(caught.value)
        return
    lens, ids = Lens(opened), torch.arange(3, 15)[None]
    seen = Seen()
    streams, _ = lens.streams(ids, seen)
    middle = streams[0] + lens.written(0, seen.outputs[0])
    assert torch.allclose(middle + lens.mlp(0, middle), streams[1], atol=1e-4)


@pytest.mark.parametrize("name", ["GPTJ", "GptOss", "Bloom", "Gemma2"])
def test_models_without_scaled_dot_product_attention_are_lent_all_the_same(name):
    """transformers refuses `sdpa` for some models with an error of its own; they must open with another attention."""
    model = small(name)
    opened = lent(model, characters(), name)
    assert opened.identity["attention"] in ("eager", "sdpa")


def test_of_few_heads_there_are_few_top_ones():
    assert top_heads(torch.tensor([[0.1, 0.5]]), 8) == [(0, 1), (0, 0)]


UNCHANGED = {"residual_multiplier": 1.0, "embedding_multiplier": 1.0, "logits_scaling": 1.0}
FAMILIES = ("Mistral", "Mixtral", "Qwen2", "Qwen2Moe", "Granite", "Gemma", "SeedOss", "Arcee")


def written_as(name: str, llama):
    """The planted function in another model family; the parts that Llama does not have add nothing."""
    c = llama.config
    more = {"rope_parameters": dict(c.rope_parameters), "rms_norm_eps": c.rms_norm_eps, "tie_word_embeddings": False}
    if name.startswith("Granite"):
        more |= UNCHANGED | {"attention_multiplier": c.head_dim**-0.5}
    kinds = [getattr(transformers, name + kind) for kind in ("Config", "ForCausalLM")]
    model = like(llama, *kinds, bos_token_id=1, attention_bias=False, attention_out_bias=False, **more)
    for weight in model.parameters():
        weight.zero_()
    model.load_state_dict(llama.state_dict(), strict=False)
    if name == "Gemma":
        model.model.embed_tokens.weight.div_(c.hidden_size**0.5)
        for part, weight in model.named_parameters():
            if "norm" in part:
                weight.sub_(1)
    return model


def found_in(model, tokens) -> dict[str, torch.Tensor]:
    """The output of each head, every connection's first-order effect, and the exact effects of the strongest."""
    lens = Lens(Opened(model, tokens, "planted", {}))
    prompts = prompts_of(tokens, Lines(), Plain(), 0, 24)
    with torch.no_grad():
        on = base(lens, prompts)
    means = means_of(lens, prompts).outputs
    z = [kept.detach() for kept in trace(lens, prompts).kept["z"]]
    alone = torch.eye(lens.n_heads)[:, None, None, :, None]
    writes = [float(lens.written(layer, z[layer] * one).norm()) for layer in range(lens.n_layers) for one in alone]
    links = stacking.screen(lens, on, [(0, 0), (0, 2), (1, 0)], means)
    cuts = [float(stacking.cut(lens, on, link, means, z[link.sender[0]]).mean()) for link in links[:3]]
    names = [(link.sender, link.receiver, link.part) for link in links[:3]]
    return {"writes": torch.tensor(writes), "cuts": torch.tensor(cuts), "names": names}


def test_one_function_has_the_same_heads_and_connections_in_every_family():
    made = planted.planted()
    ids = torch.randint(2, len(planted.WORDS), (4, 30))
    wanted = found_in(made.model, made.tokenizer)
    assert float(wanted["cuts"].abs().max()) > 1  # there is a connection to be found
    for name in FAMILIES:
        model = written_as(name, planted.planted().model)
        assert torch.allclose(made.model(ids).logits, model(ids).logits, atol=1e-3), name
        found = found_in(model, made.tokenizer)
        assert found["names"] == wanted["names"], name
        for what in ("writes", "cuts"):
            assert torch.allclose(found[what], wanted[what], rtol=1e-3, atol=1e-3), (name, what)
