"""Stability over seeds of the search: by hand, and on a model whose circuits are known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hopscope.circuits.circuit import Alternative, Circuit, Completeness, Found
from hopscope.circuits.families import Family
from hopscope.circuits.judging.stability import compared
from hopscope.circuits.losses import Loss
from hopscope.circuits.units import row_of
from hopscope.cli import main
from hopscope.problem.paths import Path

A, B, C = (Path.parse(text) for text in ("L0H0 value[1]->key[1]", "L1H0 query->value[1]", "L1H1 query->value[1]"))


def found(*paths, others=(), verdict="circuit", family=None):
    every = tuple(map(Alternative, [paths, *others]))
    named = tuple(Found(path, 1.0, "role", 1.0, 1.0, 1.0) for path in paths)
    done = Completeness("searched")
    about = {"verdict": verdict, "reason": "", "threshold": 0.05}
    return Circuit(named, (), {}, every, done, family=family, losses={}, accuracies={}, hop_losses={}, **about)


def test_alternatives_are_no_disagreement():
    one, two = found(A, B, others=[(A, C)]), found(A, C, others=[(A, B)])
    stable = compared([0, 1], [one, two])
    assert stable.agree == 1 and stable.jaccard == pytest.approx(1 / 3)


def test_what_the_other_does_not_list_is():
    stable = compared([0, 1, 2], [found(A, B), found(A, B, C), found(A, B)])
    assert stable.agree == pytest.approx(1 / 3) and stable.jaccard == pytest.approx((1 + 2 * 2 / 3) / 3)
    assert compared([0, 1], [found(A, B), found(A, B, verdict="partial")]).agree == 0
    assert compared([0, 1], [found(), found()]).jaccard == 1


def test_two_searches_that_refuse_a_model_for_the_same_reason_agree():
    """They claim no circuit, so it does not matter which paths each tells of, nor what fails beside the model."""

    def refused(*paths, high):
        losses = {name: 0.06 if name in high else 0.01 for name in ("model", "circuit", "live", "null")}
        at = {name: Loss(loss, loss - 0.005, loss + 0.005, 512) for name, loss in losses.items()}
        return replace(found(*paths, verdict="none"), losses=at)

    unsolved = refused(A, B, high=("model", "live", "null"))
    assert compared([0, 1], [unsolved, refused(A, C, high=("model", "circuit", "null"))]).agree == 1
    assert compared([0, 1], [unsolved, refused(A, B, high=("live", "null"))]).agree == 0
    assert compared([0, 1], [refused(A, high=("live",)), refused(A, C, high=("live", "null"))]).agree == 1
    assert compared([0, 1], [refused(A, high=("live",)), refused(A, high=("circuit",))]).agree == 0
    assert compared([0, 1], [unsolved, found(A, B)]).agree == 0


def test_of_a_family_rows_and_core_must_be_the_same():
    """A and B are paths of rows of their own; D is another path of B's row, and C one of a further head."""
    d = Path.parse("L1H0 query->value[2]")
    of = lambda core: Family((row_of(A), row_of(B)), tuple(core), 4, 9)  # noqa: E731
    first = found(A, B, family=of([A]))
    assert compared([0, 1], [first, found(A, d, family=of([A]))]).agree == 1
    assert compared([0, 1], [first, found(A, d)]).agree == 0  # which knows nothing of the first
    assert compared([0, 1], [first, found(A, d, family=of([A, d]))]).agree == 0  # the first lacks what that needs
    assert compared([0, 1], [first, found(A, C, family=of([A]))]).agree == 0  # another row
    assert compared([0, 1], [first, found(A, d, verdict="partial", family=of([A]))]).agree == 0


def test_the_command_writes_it_into_circuit_json(tmp_path, capsys):
    assert main(["build", "1", "--chains", "2", "--twins", "1", "--heads", "2", "--out", str(tmp_path / "b")]) == 0
    few = ["--discovery", "16", "--selection", "16", "--report", "32"]
    assert main(["circuit", str(tmp_path / "b"), "--seeds", "2", *few]) == 0
    assert "100% of pairs of 2 seeds agree" in capsys.readouterr().out
    stored = json.loads((tmp_path / "b" / "circuit.json").read_text())
    assert stored["stability"]["seeds"] == [0, 1] and stored["stability"]["verdicts"] == ["circuit", "circuit"]
    listed = [{json.dumps(path) for path in one} for one in stored["alternatives"]["circuits"]]
    assert all({json.dumps(path) for path in one} in listed for one in stored["stability"]["circuits"])
