"""Classes of circuits against what they are defined by: who reads whom, found by trying every set of layers."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from hopscope.problem.paths import Path
from hopscope.theory.classes import lowest_layers, read, wiring, written
from hopscope.theory.depth import minimum_depth

FOLLOWED = ("L0H0 value[1]->key[1]", "L0H0 value[2]->key[2]", "L1H0 query->value[1]", "L2H0 query->value[2]")
AHEAD = ("L0H0 value[1]->key[1]", "L0H0 value[2]->key[2]", "L1H0 value[1]->value[2]", "L2H0 query->value[1]")


def circuit(*texts):
    return [Path.parse(text) for text in texts]


def reads(paths, layers):
    """Who reads whom, by the definition: a path of a lower layer that writes at a place that is read."""
    return {
        (a, b)
        for a, b in itertools.permutations(range(len(paths)), 2)
        if layers[a] < layers[b] and paths[a].query in (paths[b].query, paths[b].key)
    }


def drawn(generator, n, n_layers=4):
    roles = ("query", "key[1]", "value[1]", "key[2]", "value[2]")
    return [Path(generator.randrange(n_layers), generator.randrange(2), *generator.sample(roles, 2)) for _ in range(n)]


@pytest.mark.parametrize("seed", range(40))
def test_the_lowest_layers_are_those_found_by_trying_all(seed):
    generator = random.Random(seed)
    paths = drawn(generator, generator.randrange(1, 6))
    given = tuple(path.layer for path in paths)
    same = [
        layers
        for layers in itertools.product(range(4), repeat=len(paths))
        if reads(paths, layers) == reads(paths, given)
    ]
    least = tuple(min(column) for column in zip(*same, strict=True))
    assert tuple(lowest_layers(paths)) == least
    assert least in same  # the least of all is itself one of them: the class has one lowest circuit


@pytest.mark.parametrize("seed", range(40))
def test_moved_circuits_keep_their_class_and_others_leave_it(seed):
    """Any layers with the same readings give the same class; any with others give another."""
    generator = random.Random(seed)
    paths = drawn(generator, 4, 3)
    told = reads(paths, tuple(path.layer for path in paths))
    if len({(path.query, path.key) for path in paths}) < len(paths):
        return  # of twins another one may take the place of the first
    for layers in itertools.product(range(3), repeat=len(paths)):
        moved = [replace(p, layer=layer, head=generator.randrange(3)) for p, layer in zip(paths, layers, strict=True)]
        generator.shuffle(order := list(moved))
        assert (wiring(order) == wiring(paths)) == (reads(paths, layers) == told)


def test_idle_layers_other_heads_and_early_joins_change_nothing():
    late = ("L0H1 value[1]->key[1]", "L2H0 value[2]->key[2]", "L3H2 query->value[1]", "L5H0 query->value[2]")
    assert wiring(circuit(*late)) == wiring(circuit(*FOLLOWED)) == tuple(sorted(circuit(*FOLLOWED)))


def test_another_algorithm_is_another_class():
    assert wiring(circuit(*AHEAD)) != wiring(circuit(*FOLLOWED))


def test_a_fact_that_is_joined_after_it_was_read_is_another_class():
    late = ("L1H0 value[1]->key[1]", "L0H0 value[2]->key[2]", "L0H1 query->value[1]", "L2H0 query->value[2]")
    assert wiring(circuit(*late)) != wiring(circuit(*FOLLOWED))


def test_twins_are_counted():
    twin = wiring(circuit(*FOLLOWED, "L1H1 query->value[1]"))
    assert len(twin) == 5
    assert [path.head for path in twin if path.key == "value[1]"] == [0, 1]


def test_a_class_needs_as_many_layers_as_its_algorithm():
    assert max(path.layer for path in wiring(circuit(*AHEAD))) + 1 == minimum_depth(2).min_layers


def test_texts_are_read_as_they_were_written():
    both = circuit(*AHEAD, "L1H0 key[1]->value[1] (other)")
    assert read(written(both)) == wiring(both)
    assert read("") == ()
