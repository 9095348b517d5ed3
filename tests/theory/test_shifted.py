"""Information flow with shifted keys and values: closed forms against complete searches, by hand, on whole sheets."""

from __future__ import annotations

import itertools
import random

import pytest

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.theory import depth
from hopscope.theory.flow import Chain, reach, simulate
from hopscope.theory.shifted import (
    chain_of,
    closed_form,
    layers_needed,
    minimum_depth,
    offered,
    schedule,
    sheet_depth,
    solvable,
)

ORDERS = ("nearest_first", "deepest_first")


def test_a_second_token_offers_its_fact_and_a_first_token_itself():
    """D = 2: s_0 {e0}, s_1 {e0, e1}, s_2 {e1, e2}, s_3 {e2, e3}, s_4 {e3, e4}."""
    assert offered(Chain(2, (1, 2)).start()) == ((0, 0), (0, 1), (0, 2), (2, 3), (2, 4))


def test_one_layer_is_an_induction_head():
    flow = simulate(Chain(1, (1,)), [Path(0, 0, "query", "value[1]")], offered)
    assert flow.solves and not flow.blind
    without = depth.minimum_depth(1)
    assert (minimum_depth(1), without.min_layers) == (1, 2)


def test_what_is_blind_or_masked_moves_nothing():
    """The query shares nothing with fact 2; key[1] stands before value[1]."""
    chain = Chain(2, (1, 2))
    flow = simulate(chain, [Path(0, 0, "query", "value[2]"), Path(0, 0, "key[1]", "value[1]")], offered)
    assert flow.held[-1] == chain.start()
    assert [str(path) for path in flow.blind + flow.masked] == ["L0H0 query->value[2]", "L0H0 key[1]->value[1]"]


@pytest.mark.parametrize("hops", [1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 31, 32, 40])
def test_closed_forms_are_what_everyone_can_reach(hops):
    for mask in depth.MASKS:
        for order in ORDERS:
            assert layers_needed(chain_of(hops, mask, order)) == closed_form(hops, mask), (mask, order)


@pytest.mark.parametrize("hops", [1, 2, 3, 4, 5])
def test_a_complete_search_over_one_head_schedules_agrees(hops):
    settings = [("causal", order) for order in ORDERS] + ([("none", ORDERS[0])] if hops < 4 else [])
    for mask, order in settings:
        chain, least = chain_of(hops, mask, order), closed_form(hops, mask)
        assert solvable(chain, least) and not solvable(chain, least - 1), (mask, order)


def test_the_query_s_reach_is_that_of_the_proofs():
    for order in ORDERS:
        causal, free = (reach(chain_of(20, mask, order), 3, offered) for mask in ("causal", "none"))
        assert [held[0][1] for held in causal] == [0, 2, 6, 14]
        assert [held[0][1] for held in free] == [0, 2, 8, 26]


@pytest.mark.parametrize("hops", range(1, 16))
def test_under_a_causal_mask_the_shift_saves_one_layer(hops):
    assert minimum_depth(hops) == depth.minimum_depth(hops).min_layers - 1


@pytest.mark.parametrize("hops", range(1, 9))
def test_pointer_doubling_without_its_first_layer_attains_it_in_any_order(hops):
    orders = [
        tuple(range(1, hops + 1)),
        tuple(range(hops, 0, -1)),
        tuple(random.Random(0).sample(range(1, hops + 1), hops)),
    ]
    for order in orders:
        paths = schedule(hops, order)
        flow = simulate(Chain(hops, order), paths, offered)
        assert flow.solves and not flow.blind and not flow.masked
        assert len(flow.held) - 1 == closed_form(hops)
        assert len({(path.layer, path.query) for path in paths}) == len(paths)  # one head


def test_of_24_orders_of_four_facts_8_need_two_layers_with_one_head_or_many():
    for heads in depth.HEADS:
        found = [
            minimum_depth(4, "causal", heads, ",".join(map(str, order)))
            for order in itertools.permutations(range(1, 5))
        ]
        assert (found.count(2), found.count(3)) == (8, 16)


def test_long_chains_of_one_head_in_other_orders_are_refused():
    with pytest.raises(BadInput, match="searched up to 6 hops"):
        minimum_depth(7, "causal", "one", "2,1,3,4,5,6,7")


def sheet(order: tuple[int, ...], n_chains: int, draw: random.Random) -> list[tuple[int, int]]:
    return [(chain, step) for step in order for chain in draw.sample(range(n_chains), n_chains)]


@pytest.mark.parametrize("n_chains", [2, 5])
@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_whole_sheets_nearest_first_need_as_much_in_every_draw(hops, n_chains):
    draw = random.Random(hops)
    for _ in range(10):
        facts = sheet(tuple(range(1, hops + 1)), n_chains, draw)
        assert sheet_depth(facts, hops, n_chains) == [closed_form(hops)] * n_chains


def test_side_by_side_two_facts_of_a_chain_save_a_layer_deepest_first():
    """a2 stands last of step 2, a1 first of step 1: what precedes a1's first token is a2's end."""
    together = sheet_depth([(1, 2), (0, 2), (0, 1), (1, 1)], 2, 2)
    apart = sheet_depth([(0, 2), (1, 2), (2, 2), (1, 1), (0, 1), (2, 1)], 2, 3)
    assert together[0] == 1
    assert apart[0] == closed_form(2) == 2
