"""Programs of circuits whose models are known: the benchmark's adversaries, a few of every kind that has a circuit."""

from __future__ import annotations

import pytest

from bench.adversaries import BUILDS, adversary
from hopscope.circuits.discovery import discover
from hopscope.circuits.program_trial import program_for

CHEAP = ["retrieval/0", "symbolic_retrieval/0", "induction/0", "two_hop/0"]
OTHERS = [f"{kind}/{number}" for kind in BUILDS for number in (0, 4) if f"{kind}/{number}" not in CHEAP]


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.heavy) for name in CHEAP)]
    + [pytest.param(name, marks=pytest.mark.slow) for name in OTHERS],
)
def test_an_accepted_circuit_is_a_program_that_agrees_with_model_and_oracle(name):
    """On at least 99 % of what the model answers rightly; with the oracle also where sequences are twice as large."""
    kind, number = name.split("/")
    made = adversary(14, kind, int(number))
    found = discover(made.model, made.task)
    if not found.accepted:
        assert kind == "hub"  # of which no set of paths is a circuit
        return
    tried = program_for([part.path for part in found.paths], made.model, made.task)
    assert all(one.n > 100 and one.agrees / one.n >= 0.99 for one in tried.trials), tried.trials
    assert [one.of for one in tried.trials][:2] == ["what the model answers rightly", "what is right"]
    assert len(tried.trials) > 2 and max(map(len, str(tried).splitlines())) < 100
