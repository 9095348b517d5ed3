"""Measures and path strengths on patterns whose answer is known by hand."""

from __future__ import annotations

import math

import pytest
import torch
from jaxtyping import TypeCheckError

from hopscope import Architecture, Transformer
from hopscope.circuits.evaluator import Evaluator
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.measures import observe
from hopscope.measures.attention_on_path import attention_on_path
from hopscope.measures.base import numbers_of
from hopscope.measures.hop_loss import hop_loss
from hopscope.measures.induction_score import induction_score
from hopscope.measures.prefix_score import prefix_score
from hopscope.measures.previous_token_score import previous_token_score
from hopscope.measures.retrieval_accuracy import retrieval_accuracy
from hopscope.models.transformer import Cache
from hopscope.problem.roles import RELATIONS
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope.tasks.induction import Induction
from hopscope.tasks.k_fold import KFold
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.two_hop import TwoHop


def seen_with(pattern, task=None, n=16):
    """A one-layer, one-head model seen on a batch, as if its head had this pattern (a function of the batch)."""
    task = task or Retrieval()
    model = Transformer.for_task(Architecture(n_layers=1, d_model=8), task, generator(0, "init"))
    seen = observe(model, task.sample(n))
    seen.__dict__["cache"] = Cache({"blocks.0.attn.hook_pattern": pattern(seen.batch)[:, None].float()})
    return seen


def previous(batch):
    return torch.eye(batch.task.n_positions).roll(-1, 1).tril().expand(len(batch), -1, -1)


def uniform(batch):
    n = batch.task.n_positions
    return torch.full((len(batch), n, n), 1 / n)


def test_tests_check_shapes():
    """conftest.py has jaxtyping and beartype check every annotated shape: a pattern without heads is refused."""
    batch = Retrieval().sample(2)
    batch.roles.strengths(uniform(batch)[:, None])
    with pytest.raises(TypeCheckError, match="pattern"):
        batch.roles.strengths(uniform(batch))


def to_role(query, key, relation="same"):
    return lambda batch: batch.roles.pairs(query, key, relation)


def test_a_previous_token_head():
    assert previous_token_score(seen_with(previous)) == {"L0H0": 1.0}
    assert previous_token_score(seen_with(uniform))["L0H0"] == pytest.approx(1 / 20)
    paths = attention_on_path(seen_with(previous, Retrieval(order="nearest_first")))
    assert paths["L0H0 value[1]->key[1]"] == 1.0
    assert paths["L0H0 value[2]->key[2]"] == 1.0
    assert "L0H0 query->value[1]" not in paths


@pytest.mark.parametrize("task", [Retrieval(), Induction(length=8, d_vocab=8)])
def test_an_induction_head(task):
    seen = seen_with(to_role("query", "value[1]"), task)
    assert induction_score(seen) == {"L0H0": 1.0}
    assert attention_on_path(seen) == {"L0H0 query->value[1]": 1.0}
    assert induction_score(seen_with(previous, task))["L0H0"] < 0.5


def test_queries_that_cannot_see_their_value_do_not_count():
    """In a task without causal order an induction head can only attend to the values before it, and does."""
    pattern = lambda batch: to_role("query", "value[1]")(batch).tril()  # noqa: E731
    seen = seen_with(pattern, KFold(n_hops=2))
    assert (seen.cache["pattern", 0].sum(-1) == 0).any()
    assert induction_score(seen) == {"L0H0": 1.0}


@pytest.mark.parametrize("task", [Retrieval(), Induction(length=8, d_vocab=8)])
def test_prefix_matching_equals_its_definition_in_loops(task):
    """Attention to every j < i that directly follows the symbol of i, over all i that have such a j."""
    random = torch.rand(6, task.n_positions, task.n_positions, generator=torch.Generator().manual_seed(0))
    seen = seen_with(lambda _: random, task, n=6)
    sums = []
    for row, sequence in enumerate(seen.batch.inputs.tolist()):
        symbols = [tuple(x[:4]) if isinstance(x, list) else x for x in sequence]
        for i, symbol in enumerate(symbols):
            places = [j for j in range(1, i) if symbols[j - 1] == symbol]
            if places:
                sums.append(sum(float(random[row, i, j]) for j in places))
    assert len(sums) >= 6
    assert prefix_score(seen)["L0H0"] == pytest.approx(sum(sums) / len(sums), rel=1e-5)


def test_prefix_and_induction_agree_where_only_queries_repeat():
    seen = seen_with(to_role("query", "value[1]"), Induction(length=8, d_vocab=8))
    assert prefix_score(seen) == induction_score(seen) == {"L0H0": 1.0}


def test_strengths_of_uniform_attention_count_holders():
    """20 positions: a query finds 1 value[1] of its chain (1/20) and 3 of other chains (3/20)."""
    roles = Retrieval().sample(8).roles
    strengths = roles.strengths(torch.full((8, 1, 20, 20), 1 / 20))
    same, other = (strengths[RELATIONS.index(r), 0] for r in ("same", "other"))
    q, v = roles.index("query"), roles.index("value[1]")
    assert float(same[q, v]) == pytest.approx(1 / 20)
    assert float(other[q, v]) == pytest.approx(3 / 20)
    assert float(same[q, q]) == pytest.approx(1 / 20)


@pytest.mark.parametrize("task", [Retrieval(n_hops=3, order="shuffled"), ConditionalRetrieval(n_chains=2), Induction()])
def test_strengths_equal_a_sum_in_loops(task):
    """Against the definition in docs/contracts.md, written out over positions with `Roles.pairs`."""
    batch = task.sample(6)
    n = task.n_positions
    pattern = torch.rand(6, 2, n, n, generator=torch.Generator().manual_seed(0))
    strengths = batch.roles.strengths(pattern)
    for r, relation in enumerate(RELATIONS):
        for i, query in enumerate(batch.roles.names):
            for j, key in enumerate(batch.roles.names):
                wanted = batch.roles.pairs(query, key, relation)
                rows = wanted.any(-1)
                for head in range(2):
                    sums = (pattern[:, head] * wanted).sum(-1)[rows]
                    if len(sums):
                        assert float(strengths[r, head, i, j]) == pytest.approx(float(sums.mean()), rel=1e-4)
                    else:
                        assert not float(strengths[r, head, i, j]) > 0


@pytest.mark.parametrize("order", ["nearest_first", "shuffled"])
def test_a_position_that_sees_no_target_does_not_count(order):
    """As in a circuit, and in emergence at checkpoints: a head that always finds what the mask shows has strength 1."""
    task = Retrieval(n_hops=2, order=order)
    model = Transformer.for_task(Architecture(n_layers=2, d_model=8), task, generator(0, "init"))
    seen = observe(model, task.sample(16))
    expected = {str(path): strength for path, strength in Evaluator(model, seen.batch).strengths.items()}
    assert attention_on_path(seen) == pytest.approx(expected)

    def ideal(batch):
        targets = batch.roles.pairs("value[2]", "key[1]", "other").tril()
        return targets / targets.sum(-1, keepdim=True).clamp(min=1)

    assert attention_on_path(seen_with(ideal, task)) == {"L0H0 value[2]->key[1] (other)": pytest.approx(1)}


@pytest.mark.parametrize("size", [3, 24, 100])
def test_strengths_know_nothing_from_rounding(size):
    """On a processor whose sums round otherwise, a path that no position can take once had infinite attention."""
    batch = TwoHop().sample(size)  # with one query, which no other chain has
    n = batch.task.n_positions
    random = torch.rand(size, 4, n, n, generator=torch.Generator().manual_seed(size))
    same, other = batch.roles.strengths(random)
    q, pairs = batch.roles.index("query"), batch.roles.pairs("query", "value[1]", "same")
    assert other[:, q, q].isnan().all() and not other.isinf().any() and not same.isinf().any()
    same, other = batch.roles.strengths(random * pairs[:, None])
    v = batch.roles.index("value[1]")
    assert (same[:, q, v] > 0).all() and (other[:, q, v] == 0).all()


def test_unknown_roles_are_refused():
    with pytest.raises(ValueError, match="no role 'value\\[9\\]'"):
        Retrieval().sample(1).roles.index("value[9]")


def test_loss_and_accuracy_of_known_answers():
    seen = seen_with(uniform)
    seen.__dict__["outputs"] = seen.batch.targets
    assert hop_loss(seen) == {"x1": 0.0, "x2": 0.0}
    assert retrieval_accuracy(seen) == {"x1": 1.0, "x2": 1.0}
    swapped = seen.batch.targets.roll(4, -1)  # x2 where x1 is asked, and the reverse
    seen.__dict__["outputs"] = swapped
    assert retrieval_accuracy(seen) == {"x1": 0.0, "x2": 0.0}


def test_guessing_a_random_symbol_is_right_once_in_twelve():
    """12 symbols; outputs drawn like symbols fall nearest to the right one about 1 time in 12 (4096 × 8 answers)."""
    seen = seen_with(uniform, n=4096)
    seen.__dict__["outputs"] = torch.randn(seen.batch.targets.shape, generator=torch.Generator().manual_seed(1))
    for share in retrieval_accuracy(seen).values():
        assert share == pytest.approx(1 / 12, abs=4 * math.sqrt(1 / 12 / (4096 * 4)))


@pytest.mark.parametrize("returned", [0.5, {"score": "much"}, {"score": torch.zeros(2)}, None])
def test_what_a_measure_returns_is_numbers_by_name_or_refused_in_a_sentence(returned, monkeypatch):
    """A stranger's measure that returned a float was written into metrics.jsonl as it was."""
    seen = seen_with(previous)
    monkeypatch.setattr(catalogue, "find", lambda folder, name: lambda seen: returned)
    with pytest.raises(BadInput, match="measure mine must return finite numbers by name"):
        numbers_of("mine", seen)


def test_a_number_that_a_batch_does_not_determine_is_left_out_and_an_infinite_one_refused(monkeypatch):
    """NaN is no number of JSON; hops that a batch does not ask are left out of losses in the same way."""
    seen, returned = seen_with(previous), {"score": math.nan, "other": 0.5}
    monkeypatch.setattr(catalogue, "find", lambda folder, name: lambda seen: returned)
    assert numbers_of("mine", seen) == {"other": 0.5}
    returned["other"] = -math.inf
    with pytest.raises(BadInput, match="measure mine must return finite numbers by name"):
        numbers_of("mine", seen)
