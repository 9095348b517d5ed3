"""Position codes against known implementations, and by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from hopscope import Architecture, BadInput, Config, Transformer
from hopscope.core.seeds import generator
from hopscope.models.attention.linear import Linear
from hopscope.models.positions.relative import Relative
from hopscope.models.positions.rotary import Rotary
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval

N, D_HEAD = 7, 6


def heads(seed: int) -> Tensor:
    return torch.randn(2, 3, N, D_HEAD, generator=generator(seed, "heads"))


def causal(n: int = N) -> Tensor:
    return torch.full((n, n), -math.inf).triu(1)


def built(positions: str, task=None, **shape) -> Transformer:
    task = task or Induction(length=6, d_vocab=9)
    shape = {"n_layers": 2, "n_heads": 2, "d_model": 8, "mlp": True, **shape}
    return Architecture(positions=positions, **shape).build(task, generator(0, "init"))


# Rotary -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [10_000.0, 100.0])
def test_rotary_is_that_of_transformers(base):
    """Llama's, from the library transformers: the same cosines, the same halves."""
    llama = pytest.importorskip("transformers.models.llama.modeling_llama", reason="pip install 'hopscope[language]'")
    q, k = heads(0), heads(1)
    angles = torch.arange(N)[:, None] * base ** (-torch.arange(0, D_HEAD, 2) / D_HEAD)
    waves = torch.cat([angles, angles], -1)[None]
    wanted = llama.apply_rotary_pos_emb(q, k, waves.cos(), waves.sin())
    places = torch.arange(N, dtype=torch.float32)
    found = [Rotary(base=base).turn(x, places) for x in (q, k)]
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_rotary_scores_depend_on_distance_alone():
    q, k = heads(0)[:, :, :1].expand(-1, -1, N, -1), heads(1)[:, :, :1].expand(-1, -1, N, -1)
    places = torch.arange(N, dtype=torch.float32)
    scores = Rotary(base=100.0).turn(q, places) @ Rotary(base=100.0).turn(k, places).mT
    for distance in range(N):
        along = scores.diagonal(-distance, -2, -1)
        assert torch.allclose(along, along[..., :1].expand_as(along), atol=1e-4)
    assert not torch.allclose(scores[..., 2, 0], scores[..., 1, 0], atol=1e-2)


def test_rotary_needs_pairs():
    with pytest.raises(BadInput, match="even d-head; got 3"):
        built("rotary", d_head=3)


# Relative ---------------------------------------------------------------------------------------------------------


def test_relative_adds_a_number_for_every_distance():
    """Score by score in plain Python, with a weight for each distance."""
    code = Relative(scale=2.0)
    beta = torch.randn(3, N, generator=generator(0, "beta"))
    bias = code.bias({"beta": beta}, causal())
    for head in range(3):
        for query in range(N):
            for key in range(N):
                wanted = 2.0 * float(beta[head, query - key]) if key <= query else -math.inf
                assert float(bias[head, query, key]) == pytest.approx(wanted)


def test_relative_with_falling_weights_is_alibi():
    """ALiBi (Press et al., 2022): −slope · distance, head by head, as transformers' Bloom has it."""
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom", reason="pip install 'hopscope[language]'")
    alibi = bloom.build_alibi_tensor(torch.ones(1, N), 4, torch.float32).view(4, N)  # of keys: softmax drops the rest
    slopes = 2.0 ** -torch.arange(2, 10, 2)
    beta = -slopes[:, None] * torch.arange(N) / 10
    scores = torch.randn(4, N, N, generator=generator(0, "scores"))
    ours = (scores + Relative().bias({"beta": beta}, causal())).softmax(-1)
    theirs = (scores + alibi[:, None] + causal()).softmax(-1)
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_where_the_bias_starts_is_a_setting_of_layer_head_and_distance():
    model = built("relative(scale=5, start='L0 1:4; L1H1 2:3; 3:-1')")
    first, second = (5 * block.attn.positions["beta"] for block in model.blocks)
    assert first.tolist() == [[0, 4, 0, -1, 0, 0, 0]] * 2
    assert second.tolist() == [[0, 0, 0, -1, 0, 0, 0], [0, 0, 3, -1, 0, 0, 0]]


def test_a_bias_of_4_for_distance_1_is_a_head_for_the_previous_token():
    """Scores are near 0 at the start, so attention is near softmax(4, 0, 0, …)."""
    task = Induction(length=6, d_vocab=9)
    model = built("relative(start='L0 1:4')", task)
    for block in model.blocks:
        block.attn.W_QKV.data[:2] = 0.0
    _, cache = model(task.sample(3).inputs, cache=True)
    last = cache["pattern", 0][:, :, -1]
    assert torch.allclose(last[..., -2], torch.tensor(math.exp(4) / (math.exp(4) + 6)), atol=1e-6)
    assert torch.allclose(cache["pattern", 1][:, :, -1], torch.tensor(1 / 7), atol=1e-6)


@pytest.mark.parametrize(
    ("start", "complaint"),
    [("previous", "must be written such as 'L0 1:4"), ("1:4 2:3", "must be written"), ("L0 9:1", "names distance 9")],
)
def test_a_start_that_cannot_be_is_refused(start, complaint):
    with pytest.raises(BadInput, match=complaint):
        built(f"relative(start={start!r})")


def test_the_bias_is_learnt():
    task = Induction(length=6, d_vocab=9)
    model, batch = built("relative", task), task.sample(8)
    task.loss(model(batch.inputs, at=task.query_positions), batch.targets).backward()
    assert all(block.attn.positions["beta"].grad.abs().sum() > 0 for block in model.blocks)


def test_with_linear_attention_the_bias_multiplies():
    q, k, v = heads(0), heads(1), heads(2)
    bias = Relative(scale=1.0).bias({"beta": torch.randn(3, N, generator=generator(0, "beta"))}, causal())
    plain, _ = Linear().attend(q, k, v, causal(), {})
    biased, _ = Linear().attend(q, k, v, bias, {})
    assert torch.allclose(biased, plain * bias.exp(), atol=1e-6)


# Which code a model gets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "natural"), [(Retrieval(), "input"), (Induction(), "learned")])
def test_the_code_that_a_task_suggests_changes_no_identity(task, natural):
    """It is what every model had before there were position codes to choose from."""
    before = Config(task, Architecture(positions=None)).identity
    assert Config(task, Architecture(positions=natural)).identity == before
    assert Config(task, Architecture(positions="rotary")).identity != before
    assert (Config(task).identity == before) == (natural == "learned")
    model = Architecture(n_layers=1, d_model=8, positions=natural).build(task, generator(0, "init"))
    assert (model.W_pos is not None) == (natural == "learned")


@pytest.mark.parametrize(("task", "positions"), [(Retrieval(), "none"), (Induction(), "input")])
def test_a_code_that_does_not_suit_the_inputs_is_refused(task, positions):
    with pytest.raises(BadInput, match=r"choose (input|learned), rotary or relative"):
        Architecture(positions=positions).build(task)


def test_without_positions_a_model_without_mask_cannot_tell_order():
    """A model that sees a set answers the last position alike, in whatever order the rest stands."""
    task = Induction(length=6, d_vocab=9)
    model, inputs = built("none", task, causal=False), task.sample(4).inputs
    shuffled = torch.cat([inputs[:, :-1].flip(1), inputs[:, -1:]], 1)
    assert torch.allclose(model(inputs)[:, -1], model(shuffled)[:, -1], atol=1e-5)
    learned = built("learned", task, causal=False)
    assert not torch.allclose(learned(inputs)[:, -1], learned(shuffled)[:, -1], atol=1e-3)


# The one way to write a choice -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("rotary", "rotary"),
        (" rotary( base = 10000 ) ", "rotary"),
        ("rotary(base=100)", "rotary(base=100.0)"),
        ("relative(start='L0  1:4.0;2:0.5')", "relative(start='L0 1:4; 2:0.5')"),
    ],
)
def test_a_choice_has_one_way_to_be_written(written, kept):
    assert Architecture(positions=written).positions == kept
    assert Architecture(positions=kept).positions == kept


def test_a_choice_may_be_the_variant_itself():
    assert Architecture(positions=Rotary(base=100.0)) == Architecture(positions="rotary(base=100)")


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("rotray", "did you mean 'rotary'"),
        ("rotary(bas=1)", "did you mean 'base'"),
        ("rotary(base=0.5)", "base must be at least 1"),
        ("rotary(base='ten')", "base must be float"),
        ("rotary(100)", "must be written such as"),
        ("rotary(base=100", "there is no"),
        ("rotary(base=open('x'))", "must be written such as"),
        ("rotary(**{'base': 1})", "must be written such as"),
        ("rotary(base=" + "(" * 300 + ")" * 300 + ")", "must be written such as"),
        ("rotary(base=" + "9" * 2000 + ")", "there is no"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_in_one_sentence(written, complaint):
    with pytest.raises(BadInput, match=complaint) as refused:
        Architecture(positions=written)
    assert len(str(refused.value).splitlines()) == 1
