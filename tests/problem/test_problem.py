"""The oracle itself, by hand; and that every rendering of every option agrees with it over thousands of instances."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings, strategies as st

from hopscope.core.settings import BadInput
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import NO_CHAIN
from hopscope.problem.shapes import parse_order, parse_shape
from hopscope.problem.symbols import position_code
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from tests.contracts.test_every_task import assert_targets_are_the_oracles

LLAMAS = Problem(
    (
        Fact(("llama",), "herd", 2),  # llamas live in herds
        Fact(("cria",), "llama", 1),  # a cria is a baby llama
        Fact(("wolf",), "pack", 2),
        Fact(("cub",), "wolf", 1),
    ),
    ("cria", "cub"),
)


def test_a_chain_by_hand():
    """The paper's section 3.2: crias are llamas, llamas live in herds."""
    assert LLAMAS.hops("cria") == [{"llama"}, {"herd"}]
    assert LLAMAS.successors("cub") == ["wolf", "pack"]
    assert LLAMAS.hops("herd") == []


def test_the_order_of_facts_does_not_matter():
    for facts in itertools.permutations(LLAMAS.facts):
        assert Problem(facts, LLAMAS.queries).as_dict()["answers"] == [["llama", "herd"], ["wolf", "pack"]]


def test_a_fact_with_two_premises_waits_for_both():
    """f(2) = 3, g = f, a = 2, g(a) = ?  (formulation F4)"""
    facts = (Fact(("f", "2"), "3", 3), Fact(("f", "1"), "0", 3), Fact(("g(a)",), "f", 1), Fact(("g(a)",), "2", 2))
    assert Problem(facts, ("g(a)",)).hops("g(a)") == [{"f", "2"}, {"3"}]


def test_two_symbols_are_asked_about_together():
    """The same with both letters as the query: neither alone leads to the value."""
    facts = (Fact(("f", "2"), "3", 3), Fact(("f", "1"), "0", 3), Fact(("g",), "f", 1), Fact(("a",), "2", 2))
    asked = Problem(facts, ("g", "a"))
    assert asked.hops("g", "a") == [{"f", "2"}, {"3"}]
    assert asked.successors(*asked.queries) == ["f", "2", "3"]
    assert asked.hops("g") == [{"f"}] and asked.hops("a") == [{"2"}]


def test_a_circle_of_facts_ends():
    circle = Problem((Fact(("a",), "b"), Fact(("b",), "a")), ("a",))
    assert circle.hops("a") == [{"b"}]


ORDERS = st.sampled_from(["nearest_first", "deepest_first", "shuffled", "listed"])


@settings(max_examples=60, deadline=None)
@given(
    n_hops=st.integers(1, 6),
    n_chains=st.integers(1, 6),
    d_symbol=st.sampled_from([2, 4, 6]),
    order=ORDERS,
    curriculum=st.sampled_from(["implicit", "none"]),
    position=st.sampled_from(["token", "pair"]),
    seed=st.integers(0, 2**31),
)
def test_retrieval_equals_the_oracle_for_every_option(n_hops, n_chains, d_symbol, order, curriculum, position, seed):
    """Targets from plain-Python hops; inputs rebuilt token by token from the plain-Python facts: 60 × 16 instances."""
    listed = ",".join(map(str, torch.randperm(n_hops, generator=torch.Generator().manual_seed(seed)).add(1).tolist()))
    task = Retrieval(
        n_hops=n_hops,
        n_chains=n_chains,
        d_symbol=d_symbol,
        order=listed if order == "listed" else order,
        curriculum=curriculum,
        position_code=position,
    )
    assert_targets_are_the_oracles(task, n=16, seed=seed)
    batch = task.sample(4, seed)
    for row in range(4):
        problem, values = batch.problem(row), task.values(batch.draw, row)
        tokens = [name for fact in problem.facts for name in (*fact.premises, fact.conclusion)] + list(problem.queries)
        places = [i // 2 for i in range(2 * len(problem.facts))] + [len(problem.facts) + i for i in range(n_chains)]
        for i, name in enumerate(tokens):
            assert torch.equal(batch.inputs[row, i, :d_symbol], values[name])
            place = places[i] if position == "pair" else i
            code = position_code(torch.tensor(place), d_symbol, task.position_base)
            assert torch.equal(batch.inputs[row, i, d_symbol:], code)


def test_thousands_of_instances_equal_the_oracle():
    for order in ("nearest_first", "deepest_first", "shuffled", "3,1,2"):
        assert_targets_are_the_oracles(Retrieval(n_hops=3, order=order), n=350, seed=11)
        assert_targets_are_the_oracles(SymbolicRetrieval(n_hops=3, order=order), n=150, seed=12)
        assert_targets_are_the_oracles(ConditionalRetrieval(order=order), n=150, seed=13)


def test_position_code_by_hand():
    """[cos t, cos t/10, sin t, sin t/10] at K = 4 and base 100; t/100 with RoPE's base (docs/contracts.md)."""
    t = torch.tensor(7)
    seven = torch.tensor(7.0)
    assert torch.allclose(
        position_code(t, 4, 100.0), torch.stack([seven.cos(), (seven / 10).cos(), seven.sin(), (seven / 10).sin()])
    )
    assert torch.allclose(position_code(t, 4, 10000.0)[1], (seven / 100).cos())


@pytest.mark.parametrize("task", [Retrieval(n_hops=3), Retrieval(n_hops=3, order="deepest_first"), SymbolicRetrieval()])
def test_steps_are_presented_in_the_order_asked(task):
    problem = task.sample(1, 5).problem(0)
    steps = [fact.step for fact in problem.facts]
    assert steps == sorted(steps, reverse=task.order == "deepest_first")


def test_shuffled_steps_differ_between_sequences_and_stay_together():
    batch = Retrieval(n_hops=3, order="shuffled").sample(64, 0)
    seen = set()
    for problem in batch.problems():
        steps = tuple(step for step, _ in itertools.groupby(fact.step for fact in problem.facts))
        assert sorted(steps) == [1, 2, 3]
        seen.add(steps)
    assert len(seen) == 6


def test_chains_are_shuffled_within_a_step_and_among_queries():
    """Each of the 4 chains stands first in about a quarter of the sequences (4096 draws: ± 5 standard errors)."""
    batch = Retrieval().sample(4096, 0)
    for role, place in (("key[2]", 0), ("key[1]", 8), ("query", 16)):
        chains = batch.roles.chain[:, batch.roles.index(role), place]
        shares = torch.bincount(chains, minlength=4) / 4096
        assert shares.tolist() == pytest.approx([0.25] * 4, abs=0.034)


def test_the_best_answer_without_a_chain_costs_one_minus_one_over_n():
    """Answering the mean of the right step's N symbols leaves 1 − 1/N: the plateau that the paper sees above 0.7."""
    task = Retrieval(n_chains=4, n_hops=2)
    batch = task.sample(4096, 0)
    symbols = batch.draw["symbols"].view(4096, 3, 4, 4)  # batch step chain K: symbols are numbered by step
    means = symbols[:, 1:].mean(2).flatten(1)[:, None].expand(-1, 4, -1)
    assert task.hop_losses(means, batch.targets).tolist() == pytest.approx([0.75, 0.75], abs=0.01)


# Conditional retrieval ----------------------------------------------------------------------------------------------


def without_premise(problem, position):
    """The same problem to someone who overlooks the premise at a position of every fact with several."""
    facts = tuple(
        Fact(f.premises[:position] + f.premises[position + 1 :], f.conclusion, f.step) if len(f.premises) > 1 else f
        for f in problem.facts
    )
    return Problem(facts, problem.queries)


@pytest.mark.parametrize("overlooked", [0, 1])
def test_an_oracle_that_overlooks_either_premise_is_at_chance(overlooked):
    """With a premise dropped, N conclusions follow equally; guessing one of them is right once in N."""
    task = ConditionalRetrieval(n_chains=4)
    right = total = 0
    for row in range(500):
        batch = task.sample(1, row)
        problem = batch.problem(0)
        blind = without_premise(problem, overlooked)
        for answer in task.successors(batch.draw, 0):
            candidates = sorted({f.conclusion for f in blind.facts if f.step == 3 and {*f.premises} <= {*answer[:2]}})
            assert len(candidates) == 4
            assert answer[2] in candidates
            right += candidates[row % 4] == answer[2]
            total += 1
    assert right / total == pytest.approx(0.25, abs=0.05)


def test_every_pair_of_premises_has_a_conclusion_of_its_own():
    problem = ConditionalRetrieval(n_chains=3).sample(1).problem(0)
    joint = [fact for fact in problem.facts if len(fact.premises) == 2]
    assert len(joint) == 9
    assert len({fact.conclusion for fact in joint}) == 9
    for fact in joint:
        for position in (0, 1):
            sharing = [f for f in joint if f.premises[position] == fact.premises[position] and f != fact]
            assert len(sharing) == 2
            assert all(f.conclusion != fact.conclusion for f in sharing)


def test_distractors_belong_to_no_chain():
    roles = ConditionalRetrieval(n_chains=2).sample(3).roles
    values = roles.chain[:, roles.index("value[3]")]
    assert ((values == NO_CHAIN).sum(-1) == 2).all()  # of the 2 × 2 combinations two mix the chains
    assert ((values >= 0).sum(-1) == 2).all()


def test_deeper_shapes_follow_the_graph():
    task = ConditionalRetrieval(n_chains=2, shape="a>x a>y xy>z zx>w")
    assert_targets_are_the_oracles(task, n=50, seed=1)
    assert task.hop_names == ("x", "y", "z", "w")


@pytest.mark.parametrize("shape", ["", "a>", "ab>c", "a>x x>a", "a>x b>y", "a>xy", "a1>x", "a>x a>x", "aa>x"])
def test_shapes_that_are_none_are_refused(shape):
    with pytest.raises(BadInput, match="shape"):
        parse_shape(shape)


def test_a_shape_of_millions_of_facts_is_refused_before_they_are_made():
    with pytest.raises(BadInput, match="4294968320 facts"):
        ConditionalRetrieval(n_chains=256, shape="a>w a>x a>y a>z wxyz>v")


@pytest.mark.parametrize("order", ["", "3,1", "1,2,3,4", "1,1,2", "2;1;3", "backwards", "1,2,x"])
def test_orders_that_are_none_are_refused(order):
    with pytest.raises(BadInput, match="order must be"):
        parse_order(order, 3)


# hop_k, against a second implementation of its definition ---------------------------------------------------------


def test_hop_k_by_its_definition():
    """find¹(i) = latest j < i with x_(j−1) = x_i, iterated; written out in loops."""
    task = HopK(length=30, n_letters=4, n_hops=3)
    batch = task.sample(100, 0)
    for row in range(100):
        hops = int(batch.inputs[row, 0]) - task.n_letters - 1
        letters = batch.inputs[row, 1:].tolist()
        assert all(a != b for a, b in itertools.pairwise(letters))
        for i in range(30):
            place: int | None = i
            for _ in range(hops):
                place = next((j for j in reversed(range(1, place)) if letters[j - 1] == letters[place]), None)
                if place is None:
                    break
            expected = task.undefined if place is None else letters[place]
            assert batch.targets[row, i, hops] == expected


def test_hop_k_as_in_its_docstring():
    letters = torch.tensor([[1, 0, 2, 0, 1, 2]])  # b a c a b c
    task = HopK(length=6, n_letters=3, n_hops=1)
    targets = task.targets({"letters": letters, "hops": torch.tensor([[1]])})[0, :, 1].tolist()
    assert targets == [3, 3, 3, 2, 0, 0]  # ~ ~ ~ c a a
