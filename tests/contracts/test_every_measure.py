"""Every measure, found by its file: numbers by name, in the stated range, the same for a batch in two halves."""

from __future__ import annotations

import math
import re

import pytest
import torch

from hopscope import Config, Training
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.measures import observe
from hopscope.measures.base import unmet
from hopscope.models import Architecture, Transformer

MEASURES = catalogue.names("measures")
TASKS = catalogue.names("tasks")


SHAPE = Architecture(n_layers=2, n_heads=2, d_model=16)


def applying() -> list[tuple[str, str]]:
    """Every measure with every task that meets its needs."""
    tasks = {name: catalogue.find("tasks", name)() for name in TASKS}
    return [(m, t) for m in MEASURES for t, task in tasks.items() if not unmet(m, task, SHAPE)]


@pytest.fixture(params=applying(), ids="-".join)
def pair(request):
    name, of = request.param
    task = catalogue.find("tasks", of)()
    return name, observe(Transformer.for_task(SHAPE, task, generator(0, "init")), task.sample(24))


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_applies_somewhere_and_is_refused_where_it_does_not(name):
    """By the configuration, before anything is trained: what applies is accepted, what lacks something is named."""
    applies = []
    for of in TASKS:
        task = catalogue.find("tasks", of)()
        if lacking := unmet(name, task, SHAPE):
            with pytest.raises(BadInput, match=re.escape(lacking)):
                Config(task, SHAPE, Training(measures=name))
        else:
            applies.append(Config(task, SHAPE, Training(measures=name)))
    assert applies


def test_numbers_are_finite_and_in_range(pair):
    name, seen = pair
    source, measure = catalogue.module("measures", name), catalogue.find("measures", name)
    low, high = source.RANGE
    numbers = measure(seen)
    assert numbers
    for label, number in numbers.items():
        assert isinstance(label, str)
        assert math.isfinite(number)
        assert low - 1e-6 <= number <= high + 1e-6


def test_a_batch_seen_twice_over_gives_the_same(pair):
    """Doubling a batch changes no mean: a measure is an average over sequences, not a sum."""
    name, seen = pair
    measure = catalogue.find("measures", name)
    doubled = observe(seen.model, seen.batch.rows(torch.arange(24).repeat(2)))
    once, twice = measure(seen), measure(doubled)
    assert once.keys() == twice.keys()
    assert list(twice.values()) == pytest.approx(list(once.values()), rel=1e-4, abs=1e-6)


def test_seeing_changes_nothing(pair):
    name, seen = pair
    before = [p.clone() for p in seen.model.parameters()]
    catalogue.find("measures", name)(seen)
    assert all(torch.equal(a, b) and b.grad is None for a, b in zip(before, seen.model.parameters(), strict=True))


@pytest.mark.parametrize("name", MEASURES)
def test_the_file_says_where_it_comes_from(name):
    text = catalogue.module("measures", name).__doc__
    assert "(" in text.split("\n")[0] or "ours" in text
