"""Tests of `kv_shift`: its tasks against their definitions, hand-set weights, and claims that hold and that fail."""

from __future__ import annotations

import math

import pandas
import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.experiments.results import claim_ids
from hopscope.measures import observe
from hopscope.measures.lag_attention import by_lag
from hopscope.tasks.base import NOT_ASKED
from hopscope.tasks.fixed_n_gram import FixedNGram
from hopscope.tasks.last_successor import LastSuccessor, last_follower, seen_so_far
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope_studies.kv_shift import cells
from hopscope_studies.kv_shift.claims import claims, most
from hopscope_studies.kv_shift.scores import accuracy, blends, with_blends
from hopscope_studies.kv_shift.tests.by_hand import by_hand, three_hops

# Tasks ------------------------------------------------------------------------------------------------------------


def test_followers_and_tokens_seen_by_hand():
    """In c a b c, the token after the last earlier c is at position 1; b has not occurred before."""
    tokens = torch.tensor([[2, 0, 1, 2]])
    assert [int(last_follower(tokens[:, :n])) for n in (1, 2, 3, 4)] == [-1, -1, -1, 1]
    assert seen_so_far(tokens).tolist() == [[1, 2, 3, 3]]


def test_what_came_before_is_followed_as_it_was_in_a_thousand_sequences():
    task = LastSuccessor(length=20, d_vocab=12)
    batch = task.sample(1000, 0)
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets[..., 0].tolist(), strict=True):
        known = [row[0] for row in task.brute_force(inputs)]
        assert [NOT_ASKED if answer is None else answer for answer in known] == targets
        assert all(t in (NOT_ASKED, after) for t, after in zip(targets, inputs[1:], strict=False))


def test_once_a_token_repeats_all_is_periodic_and_asked():
    """If position j first repeats the token of position i, the sequence has period j − i from i on."""
    batch = LastSuccessor(length=40, d_vocab=10).sample(200, 0)
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets[..., 0].tolist(), strict=True):
        j = next(j for j in range(len(inputs)) if inputs[j] in inputs[:j])
        i = inputs.index(inputs[j])
        assert all(inputs[t] == inputs[t - (j - i)] for t in range(j, len(inputs)))
        assert [target != NOT_ASKED for target in targets] == [t >= j for t in range(len(inputs))]


def test_the_first_repetition_comes_when_birthdays_say():
    """The first repetition comes after √(π V / 2) tokens on average, up to terms of order 1: 10.0 for V = 64."""
    asked = LastSuccessor(length=60, d_vocab=64).sample(4000, 0).targets[..., 0] != NOT_ASKED
    first = asked.float().argmax(1)[asked.any(1)].float()
    expected = sum(math.prod((64 - i) / 64 for i in range(n + 1)) for n in range(64))
    assert float(first.mean()) == pytest.approx(expected, abs=0.3)


def test_sequences_that_break_the_rule_are_refused():
    task = LastSuccessor(length=4, d_vocab=8)
    with pytest.raises(BadInput, match="token 4 must be 2"):
        task.read([1, 2, 1, 3])
    assert task.targets(task.read([1, 2, 1, 2]))[0, :, 0].tolist() == [NOT_ASKED, NOT_ASKED, 2, 1]


def test_the_n_gram_s_tokens_follow_its_table():
    """Over 64,000 tokens, counts of what follows each pair agree with the table's rows."""
    task = FixedNGram(n_tokens=3, length=32, concentration=1.0)
    batch = task.sample(2000, 0)
    counts = torch.zeros(9, 3, dtype=torch.float64)
    contexts, answers = task.context(batch.inputs).flatten(), batch.targets.flatten()
    counts.index_put_((contexts, answers), torch.ones(len(answers), dtype=torch.float64), accumulate=True)
    often = counts.sum(1) > 500
    assert often.sum() > 5
    shares = counts / counts.sum(1, keepdim=True)
    assert (shares - task.rows)[often].abs().max() < 0.05
    assert torch.equal(task.rows, FixedNGram(n_tokens=3, concentration=1.0).rows)
    assert not torch.equal(task.rows, task.but(table=1).rows)


def test_contexts_are_numbered_by_their_digits():
    task = FixedNGram(n_tokens=10, n_gram=3)
    assert task.context(torch.tensor([[4, 7, 1]])).tolist() == [[47, 71]]
    with pytest.raises(BadInput, match="tokens to the power of n-gram"):
        FixedNGram(n_tokens=256, n_gram=4)


# The positive control ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def control():
    task = LastSuccessor(length=24, d_vocab=32)
    return by_hand(task), task


def test_one_layer_by_hand_is_right_everywhere(control):
    model, task = control
    assert accuracy(model, task.sample(512, 0)) == 1.0


def test_its_head_attends_to_what_followed(control):
    model, task = control
    batch = task.sample(64, 0)
    wanted = batch.searched.matches["value[1]"]
    pattern = observe(model, batch).cache["pattern", 0][:, 0]
    asked = batch.targets[..., 0] != NOT_ASKED
    assert float((pattern * wanted).sum(-1)[asked].mean()) > 0.9
    assert by_lag(pattern, batch.searched.matches["key[1]"])[1] > 0.9


def test_without_its_blends_it_guesses_and_with_them_it_does_not(control):
    model, task = control
    batch = task.sample(256, 0)
    assert with_blends(model, batch, (1.0, 0.0), (1.0, 0.0)) < 0.5
    assert with_blends(model, batch, (0.0, 1.0), (1.0, 0.0)) == accuracy(model, batch) == 1.0
    assert blends(model) | {"keys_before": 1.0, "values_here": 1.0} == blends(model)


def test_two_layers_by_hand_follow_three_hops():
    """Real weights can reach the exact minimum depth; without their blends they cannot."""
    task = SymbolicRetrieval(n_hops=3, order="deepest_first", d_vocab=24)
    model, batch = three_hops(task), task.sample(300, 0)
    right = task.correct(model(batch.inputs, at=task.query_positions), batch).float().mean(0)
    assert right.tolist() == [1.0, 1.0, 1.0]
    assert with_blends(model, batch, (1.0, 0.0), (1.0, 0.0)) < 0.2


def test_untrained_models_guess():
    task = LastSuccessor()
    model = cells.cell("induction", "kv", 1, 0).model.build(task, generator(0, "init"))
    assert accuracy(model, task.sample(128, 0)) < 0.05


# Claims -----------------------------------------------------------------------------------------------------------


def end(part: str, attention: str, layers: int, seed: int, **values: float) -> dict:
    about = {"run": f"{part}-{attention}-{layers}-{seed}", "seed": seed, "kind": "end", "part": part}
    return about | {"attention": attention, "layers": layers, "start_accuracy": 0.01, "floor": 1.0} | values


def hop(part: str, attention: str, layers: int, k: int, loss: float) -> dict:
    about = {"run": f"{part}-{attention}-{layers}", "seed": 0, "kind": "hop", "part": part, "attention": attention}
    return about | {"layers": layers, "k": k, "loss": loss, "chance": 1.0}


def made(bad: bool) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    rows = []
    kv = {"keys_before": 0.1 if bad else 0.9, "values_here": 0.9}
    kv |= {"unshifted": 0.9 if bad else 0.2, "constructed": 0.99, "start_accuracy": 0.5 if bad else 0.01}
    for seed in range(8):
        rows += [
            end("induction", "kv", 1, seed, accuracy=0.5 if bad else 0.99, learnt=300 if bad else 100, **kv),
            end("induction", "kv drawn", 1, seed, accuracy=0.99, learnt=900 if bad else 110, **kv),
            end("induction", "plain", 1, seed, accuracy=0.9 if bad else 0.3, learnt=math.nan),
            end("induction", "plain", 2, seed, accuracy=0.99, learnt=200),
            end("n-gram", "kv", 1, seed, loss=1.0),
            end("n-gram", "plain", 1, seed, loss=1.2 if bad else 1.01),
        ]
    for part in ("letters", "chains"):
        for attention, layers in (("kv", 1), ("kv", 2), ("plain", 2), ("plain", 3)):
            for k in range(1, 5):
                rows.append(hop(part, attention, layers, k, 0.1 if (k <= most(attention, layers)) != bad else 0.9))
    rows.append({"run": "theory", "seed": 0, "kind": "theory", "formula": 3, "everyone": 3, "search": 2 if bad else 3})
    return pandas.DataFrame(rows)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made(bad=False))}
    assert list(found) == claim_ids("kv_shift")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    assert {claim.id: claim.verdict for claim in claims(made(bad=True))} == dict.fromkeys(
        claim_ids("kv_shift"), "fails"
    )


def test_hops_within_a_depth():
    assert [most("kv", n) for n in (1, 2, 3)] == [1, 3, 7]
    assert [most("plain", n) for n in (1, 2, 3)] == [0, 1, 3]


def test_every_run_is_named_once():
    named = {config.identity: name for name, config in cells.cells("cpu")}
    assert len(named) == sum(seeds for shapes in cells.CELLS.values() for seeds in shapes.values())
    for part, shapes in cells.CELLS.items():
        for attention, layers in shapes:
            assert named[cells.cell(part, attention, layers, 3).identity] == (part, attention, layers)
