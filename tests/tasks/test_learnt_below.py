"""A hop of tokens is learnt below half of the best guess, not of any token: a plateau is no learning."""

from __future__ import annotations

import math

import pytest

from hopscope.cli.commands.show import verdict
from hopscope.tasks.induction import Induction
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
