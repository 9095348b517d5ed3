"""Every position code, found by its file: it keeps the mask, comes back from JSON, and its parameters learn."""

from __future__ import annotations

import pytest
import torch

from hopscope import Architecture, Config
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval


@pytest.mark.parametrize("name", catalogue.names("models.positions"))
def test_every_code_trains_and_comes_back_from_json(name):
    task = Retrieval(n_hops=1) if name == "input" else Induction(length=6, d_vocab=9)
    config = Config(task, Architecture(n_layers=1, n_heads=2, d_model=8, positions=name))
    again = Config.from_dict(config.as_dict())
    assert again.identity == config.identity
    batch, model = task.sample(4), again.model.build(task, generator(0, "init"))
    task.loss(model(batch.inputs, at=task.query_positions), batch.targets).backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", catalogue.names("models.positions"))
def test_a_causal_model_sees_nothing_later(name):
    task = Retrieval(n_hops=1) if name == "input" else Induction(length=6, d_vocab=9)
    shape = Architecture(n_layers=1, n_heads=2, d_model=8, positions=name)
    model, inputs = shape.build(task, generator(0, "init")), task.sample(2).inputs
    changed = inputs.clone()
    changed[:, -1] = inputs[:, -1] + 1 if inputs.is_floating_point() else (inputs[:, -1] + 1) % 9
    assert torch.allclose(model(inputs)[:, :-1], model(changed)[:, :-1], atol=1e-6)
    assert not torch.allclose(model(inputs)[:, -1], model(changed)[:, -1], atol=1e-6)
