"""Names of algorithms: hand-made circuits of every class, random trees of merges, known builds, and what is refused."""

from __future__ import annotations

import itertools
import random

import pytest

from hopscope.builds.build import Build, plan_schedule
from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory import naming
from hopscope.theory.algorithms.base import pair_up
from hopscope.theory.depth import chain_of
from hopscope.theory.flow import simulate
from hopscope.theory.naming import kind_of, schedules_of


def circuit(text: str, joined: int = 0) -> list[Path]:
    """Paths written `1 query->value[1]; …`, layer first, after a layer 0 that makes so many facts whole."""
    layers = [part.strip().split(" ", 1) for part in text.split(";")]
    return pair_up(range(1, joined + 1)) + [Path.parse(f"L{layer}H0 {rest}") for layer, rest in layers]


@pytest.mark.parametrize(
    ("hops", "text", "name", "reads", "ahead"),
    [
        (3, "1 query->value[1]; 2 query->value[2]; 3 query->value[3]", "linear, by the query", 3, 0),
        # each fact takes up the next one, from the far end, and the query reads all of it at once
        (3, "1 value[2]->value[3]; 2 value[1]->value[2]; 3 query->value[1]", "linear, by the chain", 1, 2),
        # the first fact looks one ahead; the query reads both, and follows the last by itself
        (3, "1 value[1]->value[2]; 2 query->value[1]; 3 query->value[3]", "linear, by both", 2, 1),
        (3, "1 query->value[1]; 1 value[2]->value[3]; 2 query->value[2]", "doubling, by both", 2, 1),
        (
            4,
            "1 value[1]->value[2]; 1 value[3]->value[4]; 2 value[1]->value[3]; 3 query->value[1]",
            "doubling, by the chain",
            1,
            3,
        ),
        # blocks of 1, 2 and 2 hops: what a model of four layers has learnt
        (
            5,
            "1 query->value[1]; 1 value[2]->value[3]; 1 value[4]->value[5]; 2 query->value[2]; 3 query->value[4]",
            "doubling, by both",
            3,
            2,
        ),
        # one block of two, the rest one after the other: four merges in a row, where five or three are the extremes
        (
            5,
            "1 query->value[1]; 1 value[2]->value[3]; 2 query->value[2]; 3 query->value[4]; 4 query->value[5]",
            "mixed, by both",
            4,
            1,
        ),
        (1, "1 query->value[1]", "either, by the query", 1, 0),
        (2, "1 query->value[1]; 2 query->value[2]", "either, by the query", 2, 0),
        (2, "1 value[1]->value[2]; 2 query->value[1]", "either, by the chain", 1, 1),
    ],
)
def test_circuits_made_by_hand(hops, text, name, reads, ahead):
    (found,) = schedules_of(circuit(text, hops), hops)
    assert (found.name, found.reads, found.ahead) == (name, reads, ahead)


def test_a_query_that_finds_every_token_itself_is_linear():
    (found,) = schedules_of(circuit("0 query->key[1]; 1 query->value[1]; 2 query->key[2]; 3 query->value[2]"), 2)
    assert (found.name, found.height) == ("linear, by the query", 4)


@pytest.mark.parametrize("hops", [3, 5, 6, 8])
@pytest.mark.parametrize("order", ["nearest_first", "deepest_first"])
@pytest.mark.parametrize(("algorithm", "merging"), [("linear", "chain"), ("doubling", "query"), ("doubling", "chain")])
def test_what_was_built_is_named_so(hops, order, algorithm, merging):
    """Pointer doubling has blocks of 1, 2, 4 … hops: a row of ⌈log2(D+1)⌉ merges; linear has D."""
    paths = plan_schedule(Retrieval(n_hops=hops, order=order), Build(algorithm=algorithm, merging=merging))
    (found,) = schedules_of(paths, hops)
    assert found.kind == algorithm and set(found.paths) == set(paths)
    assert found.height == {"linear": hops, "doubling": hops.bit_length()}[algorithm]
    assert (found.side == "query") == (algorithm == "linear")
    assert found.reads + found.ahead == hops  # a tree with a leaf for the query and each fact


def grown(first: int, last: int, chance: random.Random, paths: list[Path]) -> tuple[int, int, str]:
    """A random tree over leaves first … last, 0 being the query: its height, the layer after it, and who holds it."""
    if first == last:
        return 0, 1, f"value[{first}]" if first else "query"
    middle = chance.randrange(first, last)
    left, right = grown(first, middle, chance, paths), grown(middle + 1, last, chance, paths)
    layer = max(left[1], right[1])
    reader, read = (left, right) if first == 0 or chance.random() < 0.5 else (right, left)
    paths.append(Path(layer, 0, reader[2], read[2]))
    return max(left[0], right[0]) + 1, layer + 1, reader[2]


@pytest.mark.parametrize("seed", range(40))
def test_random_trees_are_measured(seed):
    """A tree's height and who merges are known as it is made; without a mask every tree can be had."""
    chance = random.Random(seed)
    hops = chance.randint(3, 8)
    paths = pair_up(range(1, hops + 1))
    height, _, _ = grown(0, hops, chance, paths)
    (found,) = schedules_of(paths, hops)
    assert found.height == height and found.kind == kind_of(height, hops)
    assert found.reads == sum(path.query == "query" for path in paths)
    assert found.reads + found.ahead == hops


def test_names_by_height():
    """Six leaves: five merges in a row are a line, three the least; four are neither."""
    assert [kind_of(height, 5) for height in (3, 4, 5, 7)] == ["doubling", "mixed", "linear", "linear"]
    assert [kind_of(height, 7) for height in (3, 6, 7)] == ["doubling", "mixed", "linear"]
    assert [kind_of(2, hops) for hops in (2, 3)] == ["either", "doubling"]


def test_a_circuit_can_realise_several():
    """Two ways to the third hop: by the query itself, or in a block with the second."""
    both = circuit("1 query->value[1]; 1 value[2]->value[3]; 2 query->value[2]; 3 query->value[3]", 3)
    found = schedules_of(both, 3)
    assert [one.name for one in found] == ["doubling, by both", "linear, by the query"]
    assert [set(both) - set(one.paths) for one in found] == [{both[-1]}, {both[4]}]


def test_what_does_not_solve_has_no_schedule():
    paths = circuit("1 query->value[1]; 2 query->value[2]", 3)
    assert schedules_of(paths, 3) == []
    blind = circuit("1 query->value[2]; 2 query->value[1]", 2)
    assert schedules_of(blind, 2) == []  # the query shares nothing with the second fact yet


def solving(paths, hops):
    """All minimal schedules, by trying every subset."""
    chain = chain_of(hops, "none", "nearest_first")
    sets = [frozenset(some) for size in range(len(paths) + 1) for some in itertools.combinations(paths, size)]
    good = [some for some in sets if simulate(chain, some).solves]
    return {some for some in good if not any(other < some for other in good)}


@pytest.mark.parametrize("seed", range(12))
def test_schedules_are_those_that_trying_every_subset_finds(seed):
    chance = random.Random(seed)
    hops, roles = 3, ["query", "value[1]", "value[2]", "value[3]"]
    paths = {*pair_up(range(1, hops + 1))}
    while len(paths) < 13:
        first, second = sorted(chance.sample(range(4), 2))
        paths.add(Path(chance.randint(1, 4), chance.randint(0, 1), roles[first], roles[second]))
    assert {frozenset(one.paths) for one in schedules_of(sorted(paths), hops)} == solving(sorted(paths), hops)


def test_a_role_that_the_chain_lacks_is_refused():
    with pytest.raises(BadInput, match="no value"):
        schedules_of(circuit("1 query->value[4]", 3), 3)


def test_a_circuit_with_many_ways_is_named_by_the_flattest(monkeypatch):
    """A search that ends early neither fails nor takes long: the first schedule that is found is flat."""
    many = circuit("; ".join(f"{layer} query->value[1]" for layer in range(1, 9)), 1)
    assert len(schedules_of(many, 1)) == 8  # any of them
    monkeypatch.setattr(naming, "MOST_SCHEDULES", 3)
    assert len(schedules_of(many, 1)) == 3
    crowded = circuit("1 query->value[1]; 1 value[2]->value[3]; 2 query->value[2]; 3 query->value[3]", 3)
    crowded += [Path(layer, head, "query", "value[2]") for layer in range(2, 6) for head in range(1, 9)]
    assert schedules_of(crowded, 3)[0].name == "doubling, by both"
