"""Every attention variant, found by its file: masked, differentiable, readable and replaceable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models import Architecture, Transformer
from hopscope.models.base_sparing import Blind
from hopscope.tasks.retrieval import Retrieval

TASK = Retrieval()


@pytest.fixture(params=catalogue.names("models.attention"))
def architecture(request) -> Architecture:
    return Architecture(n_layers=2, n_heads=2, d_model=16, attention=request.param)


def make(architecture: Architecture) -> Transformer:
    return Transformer.for_task(architecture, TASK, generator(0, "init"))


def test_a_causal_model_sees_nothing_later(architecture):
    model, inputs = make(architecture), TASK.sample(2).inputs
    changed = inputs.clone()
    changed[:, 12:] += 1
    assert torch.allclose(model(inputs)[:, :12], model(changed)[:, :12], atol=1e-6)
    assert not torch.allclose(model(inputs)[:, 12:], model(changed)[:, 12:])


def test_a_model_without_mask_sees_everything(architecture):
    if architecture.rule.recurrent:
        with pytest.raises(BadInput, match="needs a causal mask"):
            architecture.but(causal=False)
        return
    model, inputs = make(architecture.but(causal=False)), TASK.sample(2).inputs
    changed = inputs.clone()
    changed[:, -1] += 1
    same = torch.equal(model(inputs)[:, 0], model(changed)[:, 0])
    assert not same, "at its defaults, without a mask, a variant lets the first position see the last"


def test_patterns_keep_the_mask_and_rows_sum_to_one_where_they_should(architecture):
    model = make(architecture)
    _, cache = model(TASK.sample(4).inputs, cache=True)
    for layer, block in enumerate(model.blocks):
        pattern = cache["pattern", layer]
        assert pattern.shape == (4, 2, TASK.n_positions, TASK.n_positions)
        assert (pattern.triu(1) == 0).all()
        if block.attn.rule.normalised:
            assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)
            assert (pattern >= 0).all()


def test_replacing_the_pattern_replaces_the_mechanism(architecture):
    """With the pattern replaced by its own value nothing changes; with another one, the outputs do."""
    model, inputs = make(architecture), TASK.sample(4).inputs
    outputs, cache = model(inputs, cache=True)
    name = "blocks.0.attn.hook_pattern"
    assert torch.allclose(model(inputs, replace={name: cache[name]}), outputs, atol=1e-6)
    identity = torch.eye(TASK.n_positions)
    assert not torch.allclose(model(inputs, replace={name: identity}), outputs, atol=1e-6)


def test_the_output_is_the_pattern_times_what_it_mixes(architecture):
    """A pattern of zeros leaves z zero: nothing reaches the output but through the pattern."""
    model = make(architecture)
    zeros = {"blocks.0.attn.hook_pattern": torch.zeros(())}
    _, cache = model(TASK.sample(2).inputs, replace=zeros, cache=True)
    assert (cache["z", 0] == 0).all()


def test_every_parameter_learns(architecture):
    model, batch = make(architecture), TASK.sample(16)
    TASK.loss(model(batch.inputs, at=TASK.query_positions), batch.targets).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad.abs().sum() > 0 for name, p in model.named_parameters() if "b_QKV" not in name)


def with_own_drawn(architecture: Architecture) -> Transformer:
    """A model whose variants' own parameters are not at their starts, where gates are even."""
    model, random = make(architecture), generator(1, "own")
    with torch.no_grad():
        for block in model.blocks:
            for own in block.attn.variant.values():
                own += torch.randn(own.shape, generator=random)
    return model.eval()


def test_answers_at_some_positions_are_those_of_the_whole_pass(architecture):
    """However much a pass leaves out: where patterns are set, and where a CPU trains in bfloat16."""
    model, inputs, at = with_own_drawn(architecture), TASK.sample(4).inputs, slice(-3, None)
    idle = torch.eye(TASK.n_positions).expand(4, 2, -1, -1)
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(2)]
    with torch.no_grad():
        for given in (lambda _: idle, Blind(lambda _: idle)):
            replace = dict.fromkeys(names, given)
            found = model.through(inputs, model.tap(replace, ()), at, sparing=True)
            torch.testing.assert_close(found, model(inputs, replace=replace)[:, at], atol=1e-5, rtol=1e-5)
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(model(inputs, at=at), model(inputs)[:, at], atol=0.05, rtol=0.05)
            torch.testing.assert_close(
                model.through(inputs, model.tap(replace, ()), at, sparing=True).float(),
                model(inputs, replace=replace)[:, at].float(),
                atol=0.05,
                rtol=0.05,
            )


def test_the_page_of_models_writes_settings_with_their_defaults():
    """Every variant of the laboratory has a row; `str` leaves defaults out."""
    page = Path(__file__).parents[2] / "docs" / "models.md"
    rows = re.findall(r"^\| `([^`]+)` \|", page.read_text().partition("## Attention")[2].partition("## ")[0], re.M)
    chosen = [catalogue.chosen("models.attention", row) for row in rows]
    assert [str(one) for one in chosen] == [one.name() for one in chosen]
    ours = {path.stem for path in (page.parents[1] / "hopscope" / "models" / "attention").glob("[!_]*.py")}
    assert {one.name() for one in chosen} == ours & {*catalogue.names("models.attention")}
