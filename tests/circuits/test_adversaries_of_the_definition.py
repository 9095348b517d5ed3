"""Models that fooled the definition of a circuit: one of every kind, and many drawn anew."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from bench.definition import KINDS, RMSNorm, Truth, by_kind, by_method, false, judged, judged_set, main, posed, scored
from bench.verdicts import OURS
from hopscope.circuits.discovery import discover
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.units import row_of
from hopscope.circuits.use import ASLEEP
from hopscope.problem.paths import Path

EACH = 20
RIGHT = 0.8  # least share of each kind that is to be told rightly
QUICK = dict.fromkeys(KINDS, 0) | dict.fromkeys(("dormant", "null does the work"), 1)  # which take least


@pytest.mark.parametrize("kind", KINDS)
def test_models_solve_their_tasks_and_have_the_rows_they_are_said_to_have(kind):
    for number in (0, 1, 2, 3):
        made = posed(3, kind, number)
        batch = made.task.sample(256, 1)
        attention = Evaluator(made.model, batch)
        assert all(attention.strength(path) < ASLEEP for path in made.truth.asleep)
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

FIRST, SECOND = (Path(layer, 0, "query", "value[1]") for layer in range(2))


def found(*units, verdict="circuit", reason="", hypothesis=""):
    """What a search may have found."""
    paths = tuple(SimpleNamespace(path=path, hypothesis=hypothesis) for path in units)
    return SimpleNamespace(verdict=verdict, units=frozenset(units), paths=paths, reason=reason)


@pytest.fixture(scope="module")
def asleep():
    """A model whose route in layer 2 is asleep."""
    made = posed(3, "dormant", 1)
    used = [Path(0, 0, "value[1]", "key[1]"), *(Path(1, head, "query", "value[1]") for head in range(2))]
    assert made.truth.rows == {*map(row_of, used)}
    return made, frozenset(used)


def test_what_is_wrong_of_an_accepted_circuit(asleep):
    made, used = asleep
    [sleeper] = made.truth.asleep
    assert false(made, used, ()) == ""
    assert false(made, used - {Path(1, 0, "query", "value[1]")}, ()) == "it lacks L1H0 query"
    assert false(made, used | {sleeper}, ()) == f"the model never uses {sleeper}"
    assert (
        false(made, used | {Path(0, 0, "query", "query")}, ()) == "by trying it does not suffice, or a part of it does"
    )
    refused = replace(made, truth=Truth(("partial", "none")))
    assert false(refused, used, None) == "there is no circuit to accept"
    assert [judged_set(one, units) for one in (made, refused) for units in (used, None)] == [
        *("right", "missed"),
        *("wrong", "right"),
    ]


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


def test_tables_count_each_kind_and_method():
    one = {"name": "0/a/0", "kind": "a", "method": OURS, "said": "right", "why": "", "seconds": 1.0}
    other = one | {"name": "0/a/1", "said": "missed", "seconds": 4.0}
    scores = [one, one | {"method": "ACDC", "said": "wrong", "seconds": 2.0}, other]
    assert by_kind(scores).splitlines()[2:] == ["| a | 2 | 1 | 1 | 0 | 2.5 |"]
    assert by_method(scores).splitlines()[2:] == [
        "| hopscope | 1 | 1 | 0 | 0 | 1.00 |",
        "| ACDC | 1 | 0 | 0 | 1 | 2.00 |",
    ]


def test_one_command_draws_and_writes(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("bench.definition.KINDS", {"two tasks": KINDS["two tasks"]})
    main(["--each", "2", "--others", "0", "--seed", "3", "--json", str(tmp_path / "d.json")])
    assert capsys.readouterr().out.startswith("3/two tasks/0: right\n3/two tasks/1: right\n\n| kind |")
    assert len(json.loads((tmp_path / "d.json").read_text())["scores"]) == 2


@pytest.mark.slow
def test_baselines_see_the_same_model():
    """Attention alone shows the two paths of one head; in a random order others come before them."""
    scores = scored(posed(3, "two tasks", 0), others=True)
    said = {one["method"]: one["said"] for one in scores}
    assert said[OURS] == said["attention weight"] == "right" and said["random order"] == "wrong" and len(said) == 13


@pytest.mark.slow
def test_of_many_no_circuit_is_wrong_and_most_of_each_kind_are_told_rightly():
    """Seeds are new every time; what fails is told by the name that makes it again."""
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    scores = [one for kind in KINDS for n in range(EACH) for one in scored(posed(seed, kind, n), others=False)]
    failures = [f"{one['name']}: {one['said']}: {one['why']}" for one in scores if one["said"] != "right"]
    told = "\n".join([by_kind(scores), *failures])
    assert not any(one["said"] == "wrong" for one in scores), told
    right = Counter(one["kind"] for one in scores if one["said"] == "right")
    assert all(right[kind] >= RIGHT * EACH for kind in KINDS), told
