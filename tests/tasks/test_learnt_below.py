"""A hop of tokens is learnt below half of the best guess, not of any token: a plateau is no learning."""

from __future__ import annotations

import math

import pytest

from hopscope.cli.commands.show import verdict
from hopscope.tasks.base import NOT_ASKED
from hopscope.tasks.induction import Induction
from hopscope.tasks.item_labels import ItemLabels
from hopscope.tasks.last_successor import LastSuccessor
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope.tasks.two_hop import TwoHop


def test_what_guesses_any_end_of_a_chain_has_learnt_nothing():
    """At 11 pairs and 4 chains the guess costs (ln 1 + … + ln 4) / 4 = 0.795 nats, half of chance 1.70."""
    task = TwoHop()
    guess = sum(map(math.log, (1, 2, 3, 4))) / 4
    assert task.learnt_below == pytest.approx(guess / 2)
    assert guess < 0.5 * math.log(30)
    assert [verdict(loss, task) for loss in (0.9551, 0.795, 0.39, 0.1)] == ["not learnt"] * 2 + ["learnt", "solved"]


def test_induction_is_learnt_below_half_of_any_token_of_the_sequence():
    assert Induction(length=32, d_vocab=64).learnt_below == pytest.approx(0.5 * math.log(31))


def test_a_task_with_a_floor_is_learnt_halfway_from_it():
    """What nobody can know is no guess that is left, and a loss below the floor is asked of nobody."""
    task = RepeatedSegment(asked="all")
    guess = min(loss for loss in task.baselines.values() if loss > task.floor)
    assert task.learnt_below == pytest.approx((task.floor + guess) / 2)
    assert [verdict(task.floor + more, task) for more in (0.01, 0.2)] == ["solved", "learnt"]


@pytest.mark.parametrize("settings", [{"n_pairs": 1}, {"n_pairs": 4, "burst": 4}])
def test_a_context_of_one_label_leaves_a_loss_to_learn(settings):
    assert ItemLabels(**settings).learnt_below > 0


def test_a_task_that_asks_nothing_has_no_baseline_of_what_it_asks():
    assert all(map(math.isfinite, LastSuccessor(length=3, d_vocab=65536).baselines.values()))


def test_long_copies_of_rare_tokens_are_certain():
    """The likelihood ratio of 64 tokens of 65,536 is beyond the largest double."""
    task = RepeatedSegment(length=142, d_vocab=65536, shortest=64, longest=66, frequencies="uniform")
    batch = task.sample(1)
    last = batch.targets[0, :, 0].ne(NOT_ASKED).nonzero()[-1, 0]
    assert task.brute_force(batch.inputs[0].tolist())[last][0][int(batch.targets[0, last, 0])] > 0.99
