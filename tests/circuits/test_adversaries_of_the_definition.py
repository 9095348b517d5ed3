"""Models that fooled the definition of a circuit: one of every kind, and many drawn anew."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from bench.definition import KINDS, RMSNorm, Truth, false, judged, posed, table
from hopscope.circuits.discovery import discover
from hopscope.circuits.units import Row, row_of
from hopscope.problem.paths import Path

EACH = 20
RIGHT = 0.8  # least share of each kind that is to be told rightly
QUICK = dict.fromkeys(KINDS, 0) | dict.fromkeys(("dormant", "null does the work"), 1)  # which take least


@pytest.mark.parametrize("kind", KINDS)
def test_models_solve_their_tasks_and_have_the_rows_they_are_said_to_have(kind):
    for number in (0, 1):
        made = posed(3, kind, number)
        batch = made.task.sample(256, 1)
        with torch.no_grad():
            outputs = made.model(batch.inputs, at=made.task.query_positions)
        right = float(made.task.correct(outputs, batch).float().mean())
        assert (right > 0.99 and float(made.task.loss(outputs, batch.targets)) < 0.05) == (kind != "half solved")
        rows = {row for row in made.truth.rows if row.query in batch.searched.names}
        assert rows == made.truth.rows and (rows or made.truth.verdicts != ("circuit",))


def test_a_name_is_all_that_it_takes():
    one, two = posed(5, "sink", 1), posed(5, "sink", 1)
    states = zip(one.model.state_dict().values(), two.model.state_dict().values(), strict=True)
    assert one.about == two.about and one.truth == two.truth and all(torch.equal(a, b) for a, b in states)
    assert posed(6, "sink", 1).about != one.about or posed(6, "sink", 3).about != one.about


def test_rms_norm_is_the_framework_s():
    x, norm = torch.randn(3, 5), RMSNorm(5)
    torch.testing.assert_close(norm(x), torch.nn.functional.rms_norm(x, (5,), eps=1e-6))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_each_kind_is_told_rightly(kind):
    """By construction; that no part of a circuit suffices is tried where many are drawn."""
    made = posed(3, kind, QUICK[kind])
    said, why = judged(made, discover(made.model, made.task), by_trying=False)
    assert said == "right", why


# How it is judged ------------------------------------------------------------------------------------------------

FIRST, SECOND, ASLEEP = (Path(layer, 0, "query", "value[1]") for layer in range(3))


def found(*units, verdict="circuit", reason="", hypothesis=""):
    """What a search may have found."""
    paths = tuple(SimpleNamespace(path=path, hypothesis=hypothesis) for path in units)
    return SimpleNamespace(verdict=verdict, units=frozenset(units), paths=paths, reason=reason)


def test_what_is_wrong_of_an_accepted_circuit():
    truth = Truth(rows=frozenset([row_of(FIRST), Row(1, 0, "query")]), asleep=frozenset([ASLEEP]))
    assert false(truth, found(FIRST, SECOND)) == ""
    assert false(truth, found(FIRST)) == "it lacks L1H0 query"
    assert "never uses" in false(truth, found(FIRST, SECOND, ASLEEP))
    assert false(replace(truth, verdicts=("partial", "none")), found(FIRST, SECOND)) == "there is no circuit to accept"


@pytest.mark.parametrize(
    ("change", "circuit", "why"),
    [
        ({}, found(verdict="none", reason="too few"), "none, not circuit: too few"),
        ({"says": ("a sink",)}, found(FIRST), "it is not said: a sink"),
        ({"never": ("words",)}, found(FIRST), "it is said: words"),
        ({"only": frozenset([SECOND])}, found(FIRST), "which the model does not use"),
        ({"untrue": frozenset([(row_of(FIRST), "uniform")])}, found(FIRST, hypothesis="uniform"), "said to be uniform"),
    ],
)
def test_what_is_missed(monkeypatch, change, circuit, why):
    monkeypatch.setattr("bench.definition.paragraph", lambda *_: "other words")
    made = replace(posed(3, "half solved", 0), truth=Truth(**change))
    said, because = judged(made, circuit, by_trying=False)
    assert said == "missed" and why in because


def test_the_table_counts_each_kind():
    said = [("a", "right"), ("b", "wrong"), ("a", "missed"), ("a", "right")]
    assert table(said).splitlines()[2:] == ["| a | 3 | 2 | 1 | 0 |", "| b | 1 | 0 | 0 | 1 |"]


@pytest.mark.slow
def test_of_many_no_circuit_is_wrong_and_most_of_each_kind_are_told_rightly():
    """Seeds are new every time; what fails is told by the name that makes it again."""
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    said, failures = [], []
    for kind in KINDS:
        for number in range(EACH):
            made = posed(seed, kind, number)
            word, why = judged(made, discover(made.model, made.task))
            said.append((kind, word))
            failures += [f"{made.name}: {word}: {why}"] * (word != "right")
    told = "\n".join([table(said), *failures])
    assert not any(word == "wrong" for _, word in said), told
    assert all(said.count((kind, "right")) >= RIGHT * EACH for kind in KINDS), told
