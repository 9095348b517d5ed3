"""Markov sources: chains and graphs by enumeration, predictors by counting, automata by walking them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.theory.markov.automata import random_automata
from hopscope.theory.markov.chains import chi_square, chosen, dirichlet, entropy, stationary, total_variation
from hopscope.theory.markov.graphs import GRAPHS, Graph, information, shuffled
from hopscope.theory.markov.predictors import backed_off, counted, integrated, interpolated


def drawn(n: int, V: int, alpha: float = 0.5, seed: int = 0) -> torch.Tensor:
    return dirichlet(alpha, (n, V, V), generator(seed, "test"))


# Chains ----------------------------------------------------------------------------------------------------------


def test_the_stationary_law_stays_under_a_step_and_is_the_limit_of_many():
    rows = drawn(2000, 4)
    law = stationary(rows)
    assert torch.allclose((law[:, None] @ rows)[:, 0], law, atol=1e-9)
    lazy = 0.5 * (drawn(50, 3, 1.0) + torch.eye(3))
    assert torch.allclose(torch.linalg.matrix_power(lazy, 4096)[:, 0], stationary(lazy), atol=1e-9)


def test_dirichlet_rows_have_the_laws_moments():
    """Mean 1/V, variance (V − 1) / (V² (α V + 1)): of 60,000 rows, within five standard errors."""
    rows = dirichlet(0.5, (60_000, 3), generator(0, "test"))
    assert rows.sum(-1).sub(1).abs().max() < 1e-12 and (rows > 0).all()
    variance = 2 / (9 * (0.5 * 3 + 1))
    assert rows[:, 0].mean() == pytest.approx(1 / 3, abs=5 * math.sqrt(variance / 60_000))
    assert rows[:, 0].var() == pytest.approx(variance, rel=0.03)


def test_a_state_is_chosen_by_the_inverse_of_the_distribution_function():
    law = torch.tensor([[0.25, 0.0, 0.75]]).double().expand(4, 3)
    assert chosen(law, torch.tensor([0.0, 0.2499, 0.25, 0.9999]).double()).tolist() == [0, 0, 2, 2]


def test_information_and_distance_by_hand():
    same, apart = torch.eye(3).double() / 3, torch.full((3, 3), 1 / 9).double()
    assert float(chi_square(same)) == pytest.approx(2) and float(chi_square(apart)) == pytest.approx(0, abs=1e-12)
    assert float(total_variation(torch.tensor([1.0, 0, 0]), torch.tensor([0.5, 0.5, 0]))) == 0.5
    assert float(entropy(torch.tensor([0.5, 0.5, 0.0]))) == pytest.approx(math.log(2))


# Graphs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRAPHS)
def test_parents_stand_before_their_children(name):
    for length, seed in itertools.product((3, 8, 13), range(4)):
        graph = Graph(GRAPHS[name](length, seed))
        assert graph.length == length and graph.parents[-1]
        for node, parents in enumerate(graph.parents):
            assert all(parent < node for parent in parents)
        other = shuffled(graph, seed)
        assert [bool(p) for p in other.parents] == [bool(p) for p in graph.parents]
        for child in graph.children:  # another parent wherever there is one to choose
            apart = not set(other.parents[child]) & set(graph.parents[child])
            assert apart or len(graph.parents[child]) == child


def test_a_parent_that_stands_behind_is_refused():
    with pytest.raises(BadInput, match="node 1 has"):
        Graph(((), (2,), ()))


def test_information_between_positions_by_enumerating_all_sequences():
    """A tree of five positions with two roots, three states: every one of the 243 sequences, with its probability."""
    graph = Graph(((), (0,), (0,), (), (2,), (4,)))
    rows, root = drawn(1, 3)[0], torch.tensor([0.5, 0.3, 0.2]).double()
    joint = torch.zeros(5, 5, 3, 3, dtype=torch.float64)
    for states in itertools.product(range(3), repeat=5):
        p = 1.0
        for node, parents in enumerate(graph.parents[:5]):
            p *= float(rows[states[parents[0]], states[node]] if parents else root[states[node]])
        for i, j in itertools.product(range(5), repeat=2):
            joint[i, j, states[i], states[j]] += p
    found = information(rows[None], graph, root[None])[0]
    for i, j in itertools.permutations(range(5), 2):
        assert float(found[i, j]) == pytest.approx(float(chi_square(joint[i, j])), abs=1e-9)


@pytest.mark.parametrize(("name", "V", "alpha"), [("tree", 3, 0.1), ("tree", 3, 1.0), ("chain", 5, 0.1)])
def test_the_parent_shares_most_information_of_all_earlier_positions(name, V, alpha):
    for seed in range(6):
        rows = drawn(400, V, alpha, seed)
        graph = Graph(GRAPHS[name](10, seed))
        shared = information(rows, graph, stationary(rows)).mean(0)
        assert all(int(shared[child, :child].argmax()) == graph.parents[child][0] for child in graph.children)


def test_information_is_of_one_parent_each():
    with pytest.raises(BadInput, match="several"):
        information(drawn(1, 2), Graph(GRAPHS["two_parents"](5, 0)), torch.full((1, 2), 0.5))


# Predictors ------------------------------------------------------------------------------------------------------


def test_counting_by_hand():
    """Chain a b a c | a: after a came b and c; with α = ½, (1½, 1½ …)."""
    graph = Graph(GRAPHS["chain"](5, 0))
    found = counted(torch.tensor([[0, 1, 0, 2, 0]]), graph, 3, 0.5)
    assert found[0].tolist() == pytest.approx([0.5 / 3.5, 1.5 / 3.5, 1.5 / 3.5])


def test_with_even_roots_counting_is_bayes():
    """By integrating over matrices drawn from the prior, each weighed by the likelihood of a whole sequence."""
    graph = Graph(((), (0,), (0,), (), (2,)))
    rows = dirichlet(0.7, (200_000, 2, 2), generator(1, "test"))
    tokens = [0, 1, 1, 1]
    likely = rows[:, 0, 1] * rows[:, 0, 1]
    expected = (likely[:, None] * rows[:, 1]).sum(0) / likely.sum()
    assert counted(torch.tensor([tokens]), graph, 2, 0.7)[0].tolist() == pytest.approx(expected.tolist(), abs=0.01)


def test_with_stationary_roots_bayes_weighs_them_too():
    """The same with the likelihood of the root; what counting says is then off, and the integral is not."""
    graph = Graph(((), (), (1,), (), (3,)))
    rows = dirichlet(0.7, (200_000, 2, 2), generator(2, "test"))
    law = stationary(rows)
    likely = law[:, 0] * law[:, 0] * rows[:, 0, 0]
    expected = ((likely[:, None] * rows[:, 1]).sum(0) / likely.sum()).tolist()
    tokens = torch.tensor([[0, 0, 0, 1]]).expand(20, 4)
    found = integrated(tokens, graph, 2, 0.7).mean(0).tolist()
    assert found == pytest.approx(expected, abs=0.01)
    assert counted(tokens, graph, 2, 0.7)[0].tolist() != pytest.approx(expected, abs=0.05)


def test_n_grams_by_hand():
    """a b a c a b | : separators are no answers; after `a` b, c, b; after `c a` b; after `b` a, then nothing."""
    tokens = torch.tensor([[0, 1, 0, 2, 0, 1, 3]])
    one, two = (backed_off(tokens, order, 4, skip=3)[0] for order in (1, 2))
    assert one[4].tolist() == pytest.approx([0, 0.5, 0.5, 0])  # what stands behind the last `a` is not seen yet
    assert one[5].tolist() == [1, 0, 0, 0]
    assert two[5].tolist() == [1, 0, 0, 0] and two[4].tolist() == one[4].tolist()
    assert one[6].tolist() == pytest.approx([4 / 9, 3 / 9, 2 / 9, 0])  # the separator is new: how often each stood
    mixed = interpolated(tokens, 1, 4, skip=3, weight=1.0)[0]
    zeroth = [(3 + 1 / 3) / 7, (2 + 1 / 3) / 7, (1 + 1 / 3) / 7]
    assert mixed[6].tolist() == pytest.approx([*zeroth, 0])
    assert mixed[5].tolist() == pytest.approx([(1 + zeroth[0]) / 2, zeroth[1] / 2, zeroth[2] / 2, 0])


# Automata --------------------------------------------------------------------------------------------------------


def test_automata_are_as_published():
    """One to three edges with different symbols and targets, none to itself, all within the automaton's states."""
    machines = random_automata(400, generator(0, "test"))
    assert set(machines.degree.flatten().tolist()) == {1, 2, 3}
    for row in range(400):
        for state, degree in enumerate(machines.degree[row].tolist()):
            symbols, targets = (x[row, state, :degree].tolist() for x in (machines.symbols, machines.targets))
            assert len(set(symbols)) == len(set(targets)) == degree
            assert state not in targets and all(0 <= s < 18 for s in symbols)
    used = [len({*machines.symbols[row, :4].flatten().tolist()}) for row in range(400)]
    assert min(used) >= 3 and max(used) <= 12  # of at most 18 symbols, in four states with three each
    assert {int(machines.targets[row].max()) for row in range(400)} <= {*range(2, 12)}


def test_walks_follow_edges_as_often_as_their_law_says():
    machines = random_automata(1, generator(3, "test"))
    many = type(machines)(
        *(x.expand(20_000, *x.shape[1:]) for x in (machines.symbols, machines.targets, machines.degree))
    )
    states = torch.zeros(20_000, dtype=torch.long)
    symbols, after = many.step(states, torch.rand(20_000, generator=generator(0, "walk"), dtype=torch.float64))
    shares = symbols.bincount(minlength=18) / 20_000
    law = machines.law(torch.zeros(1, dtype=torch.long), 18)[0]
    assert torch.allclose(shares.double(), law, atol=0.02) and float(law.sum()) == pytest.approx(1)
    edge = int((machines.symbols[0, 0] == symbols[0]).nonzero()[0])
    assert int(after[0]) == int(machines.targets[0, 0, edge])
