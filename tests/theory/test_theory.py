"""Information flow: the formulas, every answer against brute force, and what must hold of any schedule."""

from __future__ import annotations

import itertools
import random
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path as File

import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.patches import FancyArrowPatch, Rectangle

from hopscope.core.settings import BadInput
from hopscope.drawing import flow_diagram
from hopscope.problem.factsheet import FactSheet
from hopscope.problem.paths import Path, place_of, role_name
from hopscope.problem.shapes import parse_shape
from hopscope.theory import shapes
from hopscope.theory.algorithms.doubling import doubling
from hopscope.theory.algorithms.linear import linear
from hopscope.theory.depth import HEADS, MASKS, chain_of, check, minimum_depth, paper_bound
from hopscope.theory.flow import Chain, reach, simulate, trace, without_spare
from hopscope.theory.schedules import fewest_heads, is_minimal, optimal_schedules, redundancy
from hopscope.theory.search import Search

ROOT = File(__file__).parents[2]
MONOTONE = ("nearest_first", "deepest_first")


def all_orders(hops: int) -> list[str]:
    return [",".join(map(str, order)) for order in itertools.permutations(range(1, hops + 1))]


def ceil_log(base: int, number: int) -> int:
    return next(t for t in itertools.count() if base**t >= number)


# An oracle of its own: pieces as bits of a number, no intervals -----------------------------------------------------


def bits_at_start(chain: Chain) -> tuple[int, ...]:
    return tuple(sum(1 << e for e in (place - 1, place) if e >= 0) for place in range(2 * chain.hops + 1))


def visible(chain: Chain, query: int, key: int) -> bool:
    """From the sequence itself: the tokens in the order in which they are presented."""
    if not chain.causal:
        return True
    sequence = [place for k in chain.order for place in (2 * k - 1, 2 * k)] + [0]
    return sequence.index(key) <= sequence.index(query)


def moved(state: tuple[int, ...], moves: list[tuple[int, int]]) -> tuple[int, ...]:
    """A layer: pairs of who attends to whom; without a shared piece nothing moves."""
    after = list(state)
    for query, key in moves:
        if state[query] & state[key]:
            after[query] |= state[key]
    return tuple(after)


def choices(chain: Chain, state: tuple[int, ...], query: int, heads: int) -> Iterator[list[tuple[int, int]]]:
    """All ways in which a position may attend to at most so many others."""
    able = [k for k in range(len(state)) if k != query and visible(chain, query, k) and state[query] & state[k]]
    for n in range(min(heads, len(able)) + 1):
        for keys in itertools.combinations(able, n):
            yield [(query, key) for key in keys]


def brute_force(chain: Chain, layers: int, heads: int) -> bool:
    """Whether any consistent schedule of so many layers solves it: all joint states, layer by layer."""
    states = {bits_at_start(chain)}
    for _ in range(layers - 1):
        states = {
            moved(state, list(itertools.chain(*picked)))
            for state in states
            for picked in itertools.product(*(choices(chain, state, q, heads) for q in range(len(state))))
        }
    last = 2 * chain.hops
    return any(moved(state, picked)[0] >> last & 1 for state in states for picked in choices(chain, state, 0, heads))


def runs_on_bits(chain: Chain, paths: list[Path] | tuple[Path, ...]) -> list[tuple[int, ...]]:
    """What positions hold, layer by layer; asserts mask and assumption 1."""
    states = [bits_at_start(chain)]
    for layer in range(max((path.layer for path in paths), default=-1) + 1):
        moves = [(place_of(p.query), place_of(p.key)) for p in paths if p.layer == layer]
        assert all(states[-1][q] & states[-1][k] for q, k in moves), "attends without a shared piece"
        assert all(visible(chain, q, k) for q, k in moves), "attends against the mask"
        states.append(moved(states[-1], moves))
    return states


# The numbers ----------------------------------------------------------------------------------------------------------


#: All to 32; beyond, those between which a formula steps.
HOPS = (*range(1, 33), 40, 41, 60, 61, 63, 64)


@pytest.mark.parametrize("order", [*MONOTONE, "shuffled"])
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("mask", MASKS)
def test_the_formulas_from_1_to_64_hops(mask, heads, order):
    for hops in HOPS:
        depth = minimum_depth(hops, mask, heads, order)
        many_and_free = mask == "none" and heads == "many"
        assert depth.min_layers == (ceil_log(3, 4 * hops + 1) if many_and_free else ceil_log(2, 2 * hops + 1))
        assert depth.paper_bound == ceil_log(3, 2 * hops) <= depth.min_layers
        assert depth.order == order
        chain = chain_of(hops, mask, order)
        assert runs_on_bits(chain, depth.schedule)[-1][0] >> chain.last & 1
        assert 1 + max(path.layer for path in depth.schedule) == depth.min_layers
        if heads == "one":
            assert len({(path.layer, path.query) for path in depth.schedule}) == len(depth.schedule)


def test_the_table_of_the_page():
    rows = {
        1: (1, 2, 2),
        2: (2, 2, 3),
        3: (2, 3, 3),
        4: (2, 3, 4),
        5: (3, 3, 4),
        6: (3, 3, 4),
        7: (3, 4, 4),
        8: (3, 4, 5),
        16: (4, 4, 6),
        32: (4, 5, 7),
    }
    for hops, row in rows.items():
        free, causal = minimum_depth(hops, "none", "many"), minimum_depth(hops, "causal", "many")
        assert (paper_bound(hops), free.min_layers, causal.min_layers) == row


def test_at_four_hops_8_of_24_orders_save_a_layer_with_many_heads_and_none_with_one():
    depths = [minimum_depth(4, "causal", "many", order) for order in all_orders(4)]
    assert sorted(depth.min_layers for depth in depths) == [3] * 8 + [4] * 16
    assert all(check(depth) == [] for depth in depths)
    assert {minimum_depth(4, "causal", "one", order).min_layers for order in all_orders(4)} == {4}
    easy = next(depth for depth in depths if depth.min_layers == 3)
    assert check(minimum_depth(4, "causal", "one", easy.order)) == []
    assert minimum_depth(4, "causal", "one", easy.order).certificate.kind == "width"


@pytest.mark.parametrize("hops", [1, 2, 3, 5, 6, 7])
def test_at_other_small_numbers_of_hops_the_order_does_not_matter(hops):
    orders = all_orders(hops)
    if hops > 5:
        orders = random.Random(hops).sample(orders, 60)
    assert {minimum_depth(hops, "causal", "many", order).min_layers for order in orders} == {ceil_log(2, 2 * hops + 1)}


@pytest.mark.parametrize("order", [*MONOTONE, "shuffled"])
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("mask", MASKS)
def test_a_thousand_hops_have_a_schedule_that_solves_them(mask, heads, order):
    depth = minimum_depth(1000, mask, heads, order)
    assert depth.min_layers == (8 if mask == "none" and heads == "many" else 11)
    assert simulate(chain_of(1000, mask, order), depth.schedule).solves


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "hops must be from 1"),
        ((10**6,), "hops must be from 1"),
        ((2, "half"), "mask must be one of causal, none"),
        ((2, "none", "two"), "heads must be one of one, many"),
        ((2, "causal", "one", "1,2,3"), "order must be"),
    ],
)
def test_what_cannot_be_asked(arguments, words):
    with pytest.raises(BadInput, match=words):
        minimum_depth(*arguments)


# Against brute force --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("mask", MASKS)
def test_no_schedule_with_one_head_is_shorter(hops, mask):
    """All joint states of all positions; that the least depth suffices, the schedule shows (on sets, above)."""
    for order in all_orders(hops):
        chain, depth = chain_of(hops, mask, order), minimum_depth(hops, mask, "one", order)
        assert not any(brute_force(chain, layers, 1) for layers in range(1, depth.min_layers))
        assert runs_on_bits(chain, depth.schedule)[-1][0] >> chain.last & 1
        if hops < 3:
            assert brute_force(chain, depth.min_layers, 1)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("mask", MASKS)
def test_no_schedule_with_many_heads_is_shorter(hops, mask):
    for order in all_orders(hops):
        chain, depth = chain_of(hops, mask, order), minimum_depth(hops, mask, "many", order)
        assert not any(brute_force(chain, layers, 99) for layers in range(1, depth.min_layers))
        assert runs_on_bits(chain, depth.schedule)[-1][0] >> chain.last & 1


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("heads", HEADS)
def test_the_search_agrees(mask, heads):
    """The third way to the same number: demands, back from the last layer."""
    for hops in (1, 2, 3, 4, 5):
        for order in (*MONOTONE, *random.Random(0).sample(all_orders(hops), min(8, len(all_orders(hops))))):
            chain, least = chain_of(hops, mask, order), minimum_depth(hops, mask, heads, order).min_layers
            many = 1 if heads == "one" else 2
            assert Search(chain, (many,) * (least - 1)).any() is None
            found = Search(chain, (many,) * least).any()
            assert found is not None
            assert runs_on_bits(chain, found)[-1][0] >> chain.last & 1


def all_minimal(chain: Chain, layers: int, heads: int) -> set[frozenset[tuple[int, int, int]]]:
    """Every set of moves (layer, query, key) that solves it and contains no spare move, by trying them all."""

    def solves(moves: frozenset[tuple[int, int, int]]) -> bool:
        state = bits_at_start(chain)
        for layer in range(layers):
            state = moved(state, [(q, k) for n, q, k in moves if n == layer])
        return bool(state[0] >> 2 * chain.hops & 1)

    sets = {frozenset[tuple[int, int, int]]()}
    for layer in range(layers):
        larger = set()
        for moves in sets:
            state = bits_at_start(chain)
            for n in range(layer):
                state = moved(state, [(q, k) for m, q, k in moves if m == n])
            who = range(len(state)) if layer < layers - 1 else (0,)
            for picked in itertools.product(*(choices(chain, state, q, heads) for q in who)):
                larger.add(moves | {(layer, q, k) for q, k in itertools.chain(*picked)})
        sets = larger
    return {moves for moves in sets if solves(moves) and not any(solves(moves - {move}) for move in moves)}


@pytest.mark.parametrize(
    ("hops", "mask", "heads"),
    [
        (1, "causal", "one"),
        (1, "none", "one"),
        (1, "none", "many"),
        (2, "causal", "one"),
        (2, "none", "many"),
        (3, "causal", "one"),
    ],
)
@pytest.mark.parametrize("order", MONOTONE)
def test_all_optimal_schedules_are_found(hops, mask, heads, order):
    found = optimal_schedules(hops, mask, heads, order)
    least = minimum_depth(hops, mask, heads, order).min_layers
    moves = {frozenset((p.layer, place_of(p.query), place_of(p.key)) for p in paths) for paths in found}
    assert moves == all_minimal(chain_of(hops, mask, order), least, 1 if heads == "one" else 2)
    assert len(moves) == len(found)


def test_too_many_schedules_are_refused():
    with pytest.raises(BadInput, match="more than 100 schedules"):
        optimal_schedules(4, limit=100)


# What holds of every schedule -----------------------------------------------------------------------------------------


@st.composite
def chains(draw: st.DrawFn, most: int = 6) -> Chain:
    hops = draw(st.integers(1, most))
    return Chain(hops, tuple(draw(st.permutations(range(1, hops + 1)))), draw(st.booleans()))


@st.composite
def chains_with_paths(draw: st.DrawFn) -> tuple[Chain, list[Path]]:
    chain = draw(chains())
    places = st.integers(0, chain.last)
    moves = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), places, places), max_size=40))
    return chain, [Path(layer, head, role_name(query), role_name(key)) for layer, head, query, key in moves]


@settings(max_examples=100, deadline=None)
@given(chains_with_paths())
def test_what_is_held_is_an_interval_and_equals_the_sets(given):
    chain, paths = given
    flow = simulate(chain, paths)
    state = bits_at_start(chain)
    for layer, held in enumerate(flow.held):
        assert [sum(1 << e for e in range(low, high + 1)) for low, high in held] == list(state)
        moves = [(place_of(p.query), place_of(p.key)) for p in paths if p.layer == layer]
        state = moved(state, [(q, k) for q, k in moves if visible(chain, q, k)])
    assert {*flow.blind} <= {*paths} and {*flow.masked} <= {*paths}
    assert all(not visible(chain, place_of(p.query), place_of(p.key)) for p in flow.masked)


@settings(max_examples=60, deadline=None)
@given(chains_with_paths(), st.data())
def test_reach_grows_with_layers_and_with_paths_and_is_never_exceeded(given, data):
    chain, paths = given
    some = data.draw(st.lists(st.sampled_from(paths), unique=True)) if paths else []
    more, fewer = simulate(chain, paths).held, simulate(chain, some).held
    limit = reach(chain, len(more) - 1)
    for held in (more, fewer, limit):
        for before, after in itertools.pairwise(held):
            assert all(a[0] <= b[0] and b[1] <= a[1] for b, a in zip(before, after, strict=True))
    for layer in range(len(fewer)):
        for less, full, most in zip(fewer[layer], more[layer], limit[layer], strict=True):
            assert most[0] <= full[0] <= less[0] <= less[1] <= full[1] <= most[1]


@settings(max_examples=60, deadline=None)
@given(chains(most=12), st.sampled_from(["query", "chain"]))
def test_the_algorithms_solve_any_order_within_their_depth(chain, merging):
    for algorithm, most in ((doubling, ceil_log(2, 2 * chain.hops + 1)), (linear, 2 * chain.hops)):
        paths = algorithm(chain.hops, chain.order, chain.causal, merging)
        states = runs_on_bits(chain, paths)
        assert states[-1][0] >> chain.last & 1
        assert len(states) - 1 <= most


@settings(max_examples=40, deadline=None)
@given(chains(most=16), st.sampled_from(HEADS))
def test_a_returned_schedule_is_legal_and_has_no_spare_path(chain, heads):
    order = ",".join(map(str, chain.order))
    depth = minimum_depth(chain.hops, "causal" if chain.causal else "none", heads, order)
    runs_on_bits(chain, depth.schedule)
    assert is_minimal(chain, depth.schedule)
    assert check(depth) == []


@pytest.mark.parametrize("mask", MASKS)
def test_traced_schedules_are_minimal_before_they_are_pruned(mask):
    """So they may go unpruned for more than 64 hops; there they have two paths per hop as well."""
    for hops in (*range(1, 33), 40, 64):
        chain = chain_of(hops, mask, "nearest_first")
        held = reach(chain, minimum_depth(hops, mask, "many").min_layers)
        paths = trace(chain, held)
        assert without_spare(chain, paths) == paths


def test_a_certificate_that_is_wrong_is_noticed():
    from dataclasses import replace

    depth = minimum_depth(5, "none", "many")
    proof = depth.certificate
    assert check(replace(depth, schedule=depth.schedule[1:]))
    assert check(replace(depth, certificate=replace(proof, query_reach=(0, 1, 5))))
    assert check(replace(depth, certificate=replace(proof, held={**proof.held, "key[2]": (0, 9)})))
    assert check(replace(depth, min_layers=4))
    assert check(replace(depth, heads="one"))
    back = Path(0, 0, "key[1]", "value[1]")
    assert check(replace(minimum_depth(2), schedule=(back, *minimum_depth(2).schedule)))


# Yardsticks -----------------------------------------------------------------------------------------------------------


def test_three_heads_suffice_for_three_hops_and_four_for_four():
    """The paper's remark on Transformers A, B and C, which use four heads; and on D, which uses five for four hops."""
    assert fewest_heads(3) == 3
    assert fewest_heads(4) == 4
    assert fewest_heads(4, "none") == 4
    assert fewest_heads(4, n_layers=12) == 4


def test_with_fewer_layers_heads_stand_side_by_side():
    assert fewest_heads(2, "none", n_layers=2) == 3
    assert fewest_heads(4, "none", n_layers=3) == 4
    assert fewest_heads(13, "none", n_layers=4) == 6
    assert fewest_heads(4, order="1,2,4,3", n_layers=3) == 4
    with pytest.raises(BadInput, match="layers must be at least 4"):
        fewest_heads(4, n_layers=3)


@pytest.mark.parametrize(("hops", "layers"), [(1, 2), (2, 2)])
def test_fewest_heads_by_trying_every_minimal_schedule(hops, layers):
    found = all_minimal(chain_of(hops, "none", "nearest_first"), layers, 2)
    most = [
        sum(max(sum((n, q) == (layer, p) for n, q, _ in moves) for p in range(2 * hops + 1)) for layer in range(layers))
        for moves in found
    ]
    assert min(most) == fewest_heads(hops, "none", n_layers=layers)


def test_a_circuit_with_a_head_to_spare():
    circuit = linear(3, (1, 2, 3), True, "chain")
    yardstick = redundancy([*circuit, Path(3, 1, "query", "value[2]")], 3)
    assert yardstick.solves
    assert (yardstick.layers, yardstick.heads) == (4, 5)
    assert (yardstick.fewest_layers, yardstick.fewest_heads) == (3, 3)
    assert yardstick.spare == (Path(3, 1, "query", "value[2]"),)
    assert yardstick.minimal == tuple(circuit)
    assert yardstick.as_dict()["spare"][0]["query"] == "query"


def test_breaches_are_reported():
    blind, masked = Path(0, 0, "query", "value[2]"), Path(0, 0, "key[1]", "value[1]")
    other = Path(0, 0, "query", "value[1]", "other")
    yardstick = redundancy([*doubling(2, (1, 2), True, "query"), blind, masked, other], 2)
    assert (yardstick.blind, yardstick.masked, yardstick.elsewhere) == ((blind,), (masked,), (other,))
    assert yardstick.solves and yardstick.spare == ()
    assert not redundancy([blind], 2).solves
    with pytest.raises(BadInput, match="has no value"):
        redundancy([Path(0, 0, "query", "value[3]")], 2)


# Several premises -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", MONOTONE)
@pytest.mark.parametrize("mask", MASKS)
def test_a_plain_chain_given_as_a_shape(mask, order):
    for hops in range(1, 14):
        letters = string.ascii_letters[: hops + 1]
        depth = shapes.minimum_depth(" ".join(f"{a}>{b}" for a, b in itertools.pairwise(letters)), mask, order)
        plain = minimum_depth(hops, mask, "many", order)
        assert (depth.min_layers, depth.paper_bound) == (plain.min_layers, plain.paper_bound)
        chain = chain_of(hops, mask, order)
        assert runs_on_bits(chain, depth.schedule)[-1][0] >> chain.last & 1


@pytest.mark.parametrize("shape", ["a>x", "a>x a>y xy>z", "a>x a>y xy>z zx>w", "a>x a>y a>w xyw>z"])
def test_roles_of_shapes_are_the_tasks(shape):
    sheet = shapes.Sheet(parse_shape(shape), (1,))
    assert tuple(token.role for token in sheet.tokens) == FactSheet(2, parse_shape(shape), "nearest_first").role_names


@pytest.mark.parametrize(
    ("shape", "mask", "order", "layers"),
    [
        ("a>x a>y xy>z", "causal", "nearest_first", 3),
        ("a>x a>y xy>z", "causal", "shuffled", 3),
        ("a>x a>y xy>z", "none", "nearest_first", 3),
        ("a>x a>y xy>z zx>w", "causal", "nearest_first", 4),
        ("a>x a>y xy>z zx>w", "none", "nearest_first", 3),
    ],
)
def test_facts_with_several_premises(shape, mask, order, layers):
    depth = shapes.minimum_depth(shape, mask, order)
    assert depth.min_layers == layers
    assert depth.paper_bound is None
    steps = parse_shape(shape)
    sheet = shapes.Sheet(steps, tuple(range(1, len(steps) + 1)), mask == "causal")
    if order != "shuffled":
        assert sheet.answers <= shapes.simulate(sheet, depth.schedule)
        for path in depth.schedule:
            assert not sheet.answers <= shapes.simulate(sheet, [other for other in depth.schedule if other != path])
    proof = depth.certificate
    assert proof["missing"] and not set(proof["missing"]) & set(proof["query_holds"][-1])


def test_one_premise_does_not_single_out_a_fact_that_has_two():
    sheet = shapes.Sheet(parse_shape("a>x a>y xy>z"), (1, 2, 3))
    assert not sheet.pins(frozenset("x"), "z")
    assert not sheet.pins(frozenset("a"), "z")
    assert not sheet.pins(frozenset({"a", "p1"}), "z")
    assert sheet.pins(frozenset("xy"), "z")
    assert sheet.pins(frozenset({"p1", "p2"}), "z")
    assert sheet.pins(frozenset({"p3"}), "z")
    assert sheet.pins(frozenset("z"), "x")


# The picture ----------------------------------------------------------------------------------------------------------


def test_the_diagram_shows_every_path_and_what_is_held():
    depth = minimum_depth(3)
    blind = Path(0, 0, "query", "value[3]")
    ax = flow_diagram([*depth.schedule, blind], 3).axes[0]
    arrows = {patch.get_gid(): patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)}
    assert set(arrows) == {str(path) for path in (*depth.schedule, blind)}
    assert arrows[str(blind)].get_linestyle() == "--"
    bars = {patch.get_gid() for patch in ax.patches if isinstance(patch, Rectangle) and patch.get_gid()}
    held = simulate(chain_of(3, "causal", "nearest_first"), depth.schedule).held
    assert bars == {
        f"{role_name(place)} {row} holds {low} to {high}"
        for row, layer in enumerate(held)
        for place, (low, high) in enumerate(layer)
    }
    texts = {text.get_text() for text in ax.texts}
    assert {"query", "value[3]", "layer 0", "layer 2"} <= texts


def test_a_long_chain_is_not_drawn():
    with pytest.raises(BadInput, match="at most 16 hops"):
        flow_diagram([], 17)


def test_the_page_runs(capsys):
    """The Python of docs/theory.md, and what it says that it prints."""
    page = (ROOT / "docs" / "theory.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(compile(block, "docs/theory.md", "exec"), {})
        said = re.findall(r"# (.+)$", block, re.M)
        assert said and capsys.readouterr().out.splitlines() == said


def test_theory_needs_no_torch():
    code = "import sys, hopscope.theory.schedules, hopscope.theory.shapes; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"
