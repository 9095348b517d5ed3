"""Tests of the two attention measures on patterns made by hand."""

from __future__ import annotations

import pytest

from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.interventions.clamps import parse_clamps, replacements
from hopscope.measures.base import Observation
from hopscope.models import Architecture
from hopscope.tasks.retrieval import Retrieval

TASK = Retrieval(n_hops=2, n_chains=2)
SHAPE = Architecture(n_layers=2, d_model=16)


def measured(name: str, clamps: str) -> dict[str, float]:
    """A measure of a random model with some paths clamped."""
    batch = TASK.sample(16)
    model = SHAPE.build(TASK, generator(0, "init"))
    return catalogue.find("measures", name)(Observation(model, batch, replacements(parse_clamps(clamps), batch, SHAPE)))


def test_join_attention_is_the_mean_over_steps():
    whole = "L0H0 value[1]->key[1] ideal@0; L0H0 value[2]->key[2] ideal@0"
    assert measured("join_attention", whole)["L0H0"] == pytest.approx(1)
    assert measured("join_attention", "L0H0 value[1]->key[1] off@0; L0H0 value[2]->key[2] ideal@0")["L0H0"] == 0.5
    assert 0 < measured("join_attention", whole)["L1H0"] < 1


def test_look_up_attention_is_the_querys_to_its_own_first_value():
    found = measured("look_up_attention", "L1H0 query->value[1] ideal@0; L0H0 query->value[1] (other) ideal@0")
    assert found == {"L0H0": 0, "L1H0": pytest.approx(1)}
