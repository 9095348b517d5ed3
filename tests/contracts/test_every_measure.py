"""Every measure, found by its file: numbers by name, in the stated range, the same for a batch in two halves."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable
from itertools import product

import pytest
import torch

from hopscope import Config, Training
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.measures import Observation, observe
from hopscope.measures.base import numbers_of, unmet
from hopscope.models import Architecture
from hopscope.models.base import Shape
from hopscope.tasks.base import Task

MEASURES = catalogue.names("measures")
TASKS = catalogue.names("tasks")


#: A small transformer, and every other model as it is by default: some measures are made for one of these.
OTHERS = [name for name in catalogue.names("models") if name != "transformer"]
SHAPES = {
    "transformer": Architecture(n_layers=2, n_heads=2, d_model=16),
    **{name: catalogue.find("models", name)() for name in OTHERS},
}


def applying() -> list[tuple[str, str, str]]:
    """Every measure with every task that meets its needs, and a model: the transformer, or whichever it is made for."""
    tasks = {name: catalogue.find("tasks", name)() for name in TASKS}
    shapes = {m: [s for s, shape in SHAPES.items() if applies(m, tasks.values(), shape)][:1] for m in MEASURES}
    return [(m, t, s) for m in MEASURES for s in shapes[m] for t in tasks if not unmet(m, tasks[t], SHAPES[s])]


def applies(name: str, tasks: Iterable[Task], shape: Shape) -> bool:
    """Whether a measure has something to say of a model, on some task."""
    return any(not unmet(name, task, shape) for task in tasks)


APPLYING = applying()


@functools.cache
def seen_on(of: str, shape: str) -> Observation:
    """A new model on a batch, once for all measures: `test_seeing_changes_nothing` holds that no measure minds."""
    task = catalogue.find("tasks", of)()
    return observe(SHAPES[shape].build(task, generator(0, "init")), task.sample(24))


@functools.cache
def seen_twice_on(of: str, shape: str) -> Observation:
    """The same model on the same batch, each sequence of which is there twice."""
    seen = seen_on(of, shape)
    return observe(seen.model, seen.batch.rows(torch.arange(24).repeat(2)))


@functools.cache
def measured(name: str) -> dict[str, dict[str, float]]:
    """By task and model what the measure finds, wherever it applies."""
    return {f"{of} {shape}": numbers_of(name, seen_on(of, shape)) for one, of, shape in APPLYING if one == name}


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_applies_somewhere_and_is_refused_where_it_does_not(name):
    """By the configuration, before anything is trained: what applies is accepted, what lacks something is named."""
    accepted = []
    for task, shape in product([catalogue.find("tasks", of)() for of in TASKS], SHAPES.values()):
        if lacking := unmet(name, task, shape):
            with pytest.raises(BadInput, match=re.escape(lacking)):
                Config(task, shape, Training(measures=name))
        else:
            accepted.append(Config(task, shape, Training(measures=name)))
    assert accepted


@pytest.mark.parametrize("name", MEASURES)
def test_numbers_are_finite_and_in_range(name):
    low, high = catalogue.module("measures", name).RANGE
    for where, numbers in measured(name).items():
        assert numbers, where
        for label, number in numbers.items():
            assert isinstance(label, str), where
            assert math.isfinite(number), (where, label)
            assert low - 1e-6 <= number <= high + 1e-6, (where, label)


@pytest.mark.parametrize("name", MEASURES)
def test_a_batch_seen_twice_over_gives_the_same(name):
    """Doubling a batch changes no mean: a measure is an average over sequences, not a sum."""
    measure = catalogue.find("measures", name)
    for _, of, shape in (one for one in APPLYING if one[0] == name):
        once, twice = measured(name)[f"{of} {shape}"], measure(seen_twice_on(of, shape))
        assert once.keys() == twice.keys(), (of, shape)
        assert list(twice.values()) == pytest.approx(list(once.values()), rel=1e-4, abs=1e-6), (of, shape)


@pytest.mark.parametrize("name", MEASURES)
def test_seeing_changes_nothing(name):
    measure = catalogue.find("measures", name)
    for _, of, shape in (one for one in APPLYING if one[0] == name):
        model = seen_on(of, shape).model
        before = [p.clone() for p in model.parameters()]
        measure(seen_on(of, shape))
        same = (torch.equal(a, b) and b.grad is None for a, b in zip(before, model.parameters(), strict=True))
        assert all(same), (of, shape)


@pytest.mark.parametrize("name", MEASURES)
def test_the_file_says_where_it_comes_from(name):
    text = catalogue.module("measures", name).__doc__
    assert "(" in text.split("\n")[0] or "ours" in text
