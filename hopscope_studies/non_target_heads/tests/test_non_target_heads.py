"""Tests of `non_target_heads`: the task, hand-set weights, and claims that hold and that fail."""

from __future__ import annotations

import pandas
import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.experiments.results import claim_ids
from hopscope.problem.roles import ABSENT
from hopscope.tasks.base import NOT_ASKED
from hopscope_studies.non_target_heads import cells, scores
from hopscope_studies.non_target_heads.by_hand import by_hand
from hopscope_studies.non_target_heads.claims import claims
from hopscope_studies.non_target_heads.tasks.tagged_hops import END, MIDDLE, TaggedHops

# The task -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [TaggedHops(), TaggedHops(ordered=True), TaggedHops(related=False, share=0.7)])
def test_answers_are_those_of_following_pairs_in_a_thousand_sequences(task):
    batch = task.sample(1000, 0)
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets[:, 0].tolist(), strict=True):
        [best] = task.brute_force(inputs)
        assert [NOT_ASKED if answer is None else answer for answer in best] == targets


def test_half_are_tagged_and_only_their_head_is_asked():
    batch = TaggedHops().sample(2000, 0)
    asked = batch.targets[:, 0] != NOT_ASKED
    assert (asked.sum(1) == 1).all()
    assert (asked[:, END] == (batch.inputs[:, -2] == 25)).all()
    assert float(asked[:, MIDDLE].float().mean()) == pytest.approx(0.5, abs=0.05)


def test_sequences_of_other_tokens_share_none():
    task = TaggedHops(related=False)
    batch = task.sample(500, 0)
    one = batch.draw["tag"][:, 0] == MIDDLE
    shown = torch.cat([batch.inputs[:, :-2], batch.inputs[:, -1:]], 1)
    assert (shown[one] >= 12).all() and (shown[one] < 24).all() and (shown[~one] < 12).all()


def test_pairs_come_in_any_order_or_first_pairs_first():
    """A chain's first pair precedes its second in half of the sequences, or in all if they are ordered."""
    for ordered, expected in ((False, 0.5), (True, 1.0)):
        kind = TaggedHops(ordered=ordered).sample(2000, 0).draw["kind"]
        places = kind.argsort(1)
        assert float((places[:, 0] < places[:, 1]).float().mean()) == pytest.approx(expected, abs=0.05)


def test_roles_say_where_the_chain_stands():
    batch = TaggedHops().sample(200, 0)
    for row, (inputs, chain) in enumerate(zip(batch.inputs.tolist(), batch.roles.chain.tolist(), strict=True)):
        place = {
            name: [p for p, number in enumerate(chain[i]) if number == 0] for i, name in enumerate(batch.roles.names)
        }
        assert place["query"] == [13]
        [key], [value], [then], [end] = (place[name] for name in ("key[1]", "value[1]", "key[2]", "value[2]"))
        middle, last = batch.task.named(batch.draw)[row].tolist()
        assert [inputs[p] for p in (key, value, then, end)] == [inputs[13], middle, middle, last]
        assert all(kind[12] == ABSENT for kind in chain)


def test_a_batch_of_one_tag_has_a_finite_loss_and_gradient():
    task = TaggedHops(share=0.0)
    batch = task.sample(4, 0)
    outputs = torch.zeros(4, 1, task.d_output, requires_grad=True)
    task.loss(outputs, batch.targets).backward()
    assert outputs.grad is not None and outputs.grad.isfinite().all()
    assert (outputs.grad[..., : task.d_vocab] == 0).all()


def test_too_few_symbols_are_refused():
    with pytest.raises(BadInput, match="symbols must be at least 12"):
        TaggedHops(n_chains=4, n_symbols=11)


# By hand ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def control():
    task = TaggedHops()
    return by_hand(task), task


@pytest.mark.parametrize("ordered", [False, True])
def test_by_hand_both_heads_are_right_and_the_middle_is_named(control, ordered):
    model, task = control[0], control[1].but(ordered=ordered)
    found = dict(scores.readings(model, task, "cpu"))
    assert found == {
        "middle of one": 1.0,
        "end of two": 1.0,
        "non-target": 1.0,
        "non-target among middles": 1.0,
        "non-target says the end": 0.0,
    }


def test_by_hand_a_head_fitted_afterwards_finds_the_middle(control):
    found = dict(scores.probed(*control, "quick"))
    assert found["probe, middle of one"] > 0.99 and found["probe"] > 0.99 and found["probe says the end"] == 0


def test_by_hand_the_end_follows_the_middle_and_no_random_direction(control):
    assert dict(scores.swaps(*control, "quick")) == {
        "end follows the exchanged middle": 1.0,
        "end stays": 0.0,
        "end follows a random change": 0.0,
    }
    found = dict(scores.cuts(*control, "quick"))
    assert found["end, middle's directions cut"] < 0.85 < 0.99 < found["end, random directions cut"]


def test_a_head_that_says_something_else_is_seen():
    """With the two heads' weights exchanged, head `middle` names the end."""
    task = TaggedHops()
    model = by_hand(task)
    with torch.no_grad():
        model.W_U.copy_(model.W_U.roll(task.d_vocab, 1))
    found = dict(scores.readings(model, task, "quick"))
    assert found["non-target says the end"] == 1.0 and found["non-target"] == 0.0 == found["end of two"]


def test_names_and_middles_by_counting():
    task = TaggedHops()
    batch = task.sample(50, 0)
    logits = torch.randn(50, task.d_vocab, generator=generator(0, "test"))
    right = middles = 0
    for row in range(50):
        chains = batch.draw["tokens"][row].view(3, 3).tolist()
        asked = int(batch.draw["asked"][row, 0])
        best = [float(logits[row, chain[1]]) for chain in chains]
        right += int(logits[row].argmax()) == chains[asked][1]
        middles += best.index(max(best)) == asked
    assert scores.names(logits, batch, MIDDLE) == pytest.approx(right / 50)
    assert scores.names_among_middles(logits, batch) == pytest.approx(middles / 50)


def test_untrained_models_guess():
    task = TaggedHops()
    model = cells.cell("together", 0, "cpu").model.build(task, generator(0, "init"))
    found = dict(scores.readings(model, task, "cpu"))
    assert found["non-target"] < 0.15 and 0.2 < found["non-target among middles"] < 0.47


# Claims -------------------------------------------------------------------------------------------------------------


def row(condition: str, name: str, value: float, seed: int = 0, kind: str = "end") -> dict:
    about = {"run": f"{condition} {seed}", "seed": seed, "condition": condition}
    return about | {"kind": kind, "name": name, "value": value, "step": 9}


def made(bad: bool) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    good = {
        ("together", "middle of one"): 1.0,
        ("together", "end of two"): 0.99,
        ("together", "non-target"): 0.95,
        ("together", "non-target says the end"): 0.02,
        ("together", "non-target among middles"): 0.98,
        ("alone", "middle of one"): 0.05,
        ("alone", "probe, middle of one"): 0.6,
        ("alone", "probe among middles"): 0.4,
        ("alone", "end of two"): 0.97,
        ("unrelated", "non-target among middles"): 0.33,
        ("unrelated", "end of two"): 0.97,
        ("together", "end, middle's directions cut"): 0.7,
        ("together", "end, random directions cut"): 0.98,
        ("together", "end follows the exchanged middle"): 0.8,
        ("together", "end follows a random change"): 0.02,
        ("unrelated", "middle of one"): 1.0,
        ("ordered", "middle of one"): 1.0,
        ("ordered", "end of two"): 1.0,
        ("ordered", "non-target"): 0.95,
        ("ordered", "end follows the exchanged middle"): 0.01,
        ("by hand", "non-target"): 1.0,
        ("by hand", "end follows the exchanged middle"): 1.0,
    }
    worse = {
        ("together", "non-target"): 0.1,
        ("together", "non-target among middles"): 0.35,
        ("together", "end, middle's directions cut"): 0.99,
        ("together", "end follows the exchanged middle"): 0.1,
        ("ordered", "non-target"): 0.1,
        ("by hand", "non-target"): 0.5,
    }
    values = good | worse if bad else good
    rows = [row(condition, name, value, seed) for seed in range(5) for (condition, name), value in values.items()]
    if bad:  # beside runs that learnt, one of each condition that did not
        rows += [row("together", "middle of one", 1.0, 9), row("together", "end of two", 0.5, 9)]
        rows += [row("alone", "middle of one", 0.05, 9), row("alone", "end of two", 0.4, 9)]
    rows += [row("together", "non-target", 0.5 if bad else 0.04, seed, "start") for seed in range(5)]
    return pandas.DataFrame(rows)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made(bad=False))}
    assert list(found) == claim_ids("non_target_heads")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    found = {claim.id: claim.verdict for claim in claims(made(bad=True))}
    assert found == dict.fromkeys(claim_ids("non_target_heads"), "fails")


def test_of_runs_that_learnt_nothing_nothing_is_said():
    """A control with only two runs that learnt is undecided, and runs that failed are not counted."""
    table = made(bad=False)
    unlearnt = (table.condition == "unrelated") & (table.seed > 1) & (table.name == "end of two")
    failed = (table.condition == "together") & (table.seed == 4)
    table.loc[unlearnt | failed, "value"] = 0.3
    found = {claim.id: claim for claim in claims(table)}
    assert found["above_heads_of_unrelated_sequences"].verdict == "undecided"
    assert found["the_controls_were_trained"].verdict == "fails"
    assert found["it_names_the_argument"].verdict == "holds" and found["it_names_the_argument"].n == 4


def test_every_cell_has_its_name():
    for scale in ("quick", "cpu", "paper"):
        named = list(cells.cells(scale))
        assert len({config.identity for _, config in named}) == len(named)
        assert [name for name, _ in named[:4]] == list(cells.CONDITIONS)
