"""Every measure, found by its file: numbers by name, in the stated range, the same for a batch in two halves."""

from __future__ import annotations

import math

import pytest
import torch

from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.measures import observe
from hopscope.models import Architecture, Transformer

MEASURES = catalogue.names("measures")
TASKS = catalogue.names("tasks")


@pytest.fixture(params=TASKS)
def seen(request):
    task = catalogue.find("tasks", request.param)()
    model = Transformer.for_task(Architecture(n_layers=2, n_heads=2, d_model=16), task, generator(0, "init"))
    return observe(model, task.sample(24))


@pytest.mark.parametrize("name", MEASURES)
def test_numbers_are_finite_and_in_range(name, seen):
    source, measure = catalogue.module("measures", name), catalogue.find("measures", name)
    low, high = source.RANGE
    numbers = measure(seen)
    assert numbers
    for label, number in numbers.items():
        assert isinstance(label, str)
        assert math.isfinite(number)
        assert low - 1e-6 <= number <= high + 1e-6


@pytest.mark.parametrize("name", MEASURES)
def test_a_batch_seen_twice_over_gives_the_same(name, seen):
    """Doubling a batch changes no mean: a measure is an average over sequences, not a sum."""
    measure = catalogue.find("measures", name)
    doubled = observe(seen.model, seen.batch.rows(torch.arange(24).repeat(2)))
    once, twice = measure(seen), measure(doubled)
    assert once.keys() == twice.keys()
    assert list(twice.values()) == pytest.approx(list(once.values()), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", MEASURES)
def test_seeing_changes_nothing(name, seen):
    before = [p.clone() for p in seen.model.parameters()]
    catalogue.find("measures", name)(seen)
    assert all(torch.equal(a, b) and b.grad is None for a, b in zip(before, seen.model.parameters(), strict=True))


@pytest.mark.parametrize("name", MEASURES)
def test_the_file_says_where_it_comes_from(name):
    text = catalogue.module("measures", name).__doc__
    assert "(" in text.split("\n")[0] or "ours" in text
