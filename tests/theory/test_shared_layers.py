"""Shared layers: the search against every assignment of heads, run loop by loop on sets of pieces."""

from __future__ import annotations

import itertools
from functools import reduce
from operator import or_

import pytest

from hopscope.core.settings import BadInput
from hopscope.theory.depth import MASKS, chain_of, everyone_to_everyone, minimum_depth, pieces_at_start
from hopscope.theory.loops import minimum_loops

ORDERS = ("nearest_first", "deepest_first")


def by_force(hops: int, own_layers: int, heads: int, mask: str, order: str) -> int | None:
    """The fewest loops over all ways to say, per layer of the block and position, to whom it attends; None: never."""
    chain = chain_of(hops, mask, order)
    places = range(chain.last + 1)
    able = [[key for key in places if key != query and chain.sees(query, key)] for query in places]
    layers = itertools.product(*(list(itertools.combinations(keys, min(heads, len(keys)))) for keys in able))
    blocks = itertools.product(list(layers), repeat=own_layers)
    counts = [loops_of(block, pieces_at_start(chain), chain.last) for block in blocks]
    return min((count for count in counts if count is not None), default=None)


def loops_of(block, held: list[int], wanted: int) -> int | None:
    """When the query first holds the answer; None if a loop changes nothing before."""
    for loop in itertools.count(1):
        at_first = list(held)
        for layer in block:
            before = list(held)
            for query, keys in enumerate(layer):
                held[query] = reduce(or_, (before[key] for key in keys if before[key] & before[query]), before[query])
        if held[0] >> wanted & 1:
            return loop
        if held == at_first:
            break
    return None


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("hops", "own_layers"), [(1, 1), (1, 2), (2, 1)])
def test_the_search_finds_what_trying_everything_finds(hops, own_layers, mask, order):
    loops, heads = minimum_loops(hops, own_layers, mask, order)
    assert by_force(hops, own_layers, heads, mask, order) == loops
    if heads > 1:
        fewer = by_force(hops, own_layers, heads - 1, mask, order)
        assert fewer is None or fewer > loops


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("own_layers", [1, 2, 3])
def test_the_loops_are_those_after_which_all_attend_to_all(mask, order, own_layers):
    chain = chain_of(2, mask, order)
    held = everyone_to_everyone(chain, 12)
    loops = next(n for n in range(12) if held[n * own_layers][0] >> chain.last & 1)
    assert minimum_loops(2, own_layers, mask, order)[0] == loops


def test_one_shared_head_follows_two_hops_in_more_loops_where_facts_come_nearest_first_and_else_never():
    assert [by_force(hops, 1, 1, "causal", order) for hops in (1, 2) for order in ORDERS] == [2, 2, 4, None]


@pytest.mark.parametrize("hops", range(1, 5))
@pytest.mark.parametrize("order", ORDERS)
def test_under_a_causal_mask_one_shared_layer_of_two_heads_reaches_the_unshared_depth(hops, order):
    expected = minimum_depth(hops, "causal", "many", order).min_layers, 1 if hops == 1 else 2
    assert minimum_loops(hops, 1, "causal", order) == expected


def test_a_block_has_layers():
    with pytest.raises(BadInput, match="own layers must be at least 1; got 0"):
        minimum_loops(2, 0)
