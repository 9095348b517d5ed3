"""Onsets on curves whose onset is known, orders by hand, and the command on a real run."""

from __future__ import annotations

import json
import math

import numpy
import pytest

from hopscope.circuits.evaluator import Evaluator
from hopscope.cli import main
from hopscope.emergence.onset import Onset, causal_onset, change_point, onset, resamples
from hopscope.emergence.order import agreement, event_names, precedes, tau_b, wilson
from hopscope.emergence.track import attention, costs, follow
from hopscope.paths import Path
from hopscope.roles import path_strengths
from hopscope.runs import load
from hopscope.settings import BadInput

STEPS = [0, 10, 20, 30, 40, 50, 60, 70]


def sigmoid(centre, width=4.0, floor=0.1, ceiling=0.9):
    return floor + (ceiling - floor) / (1 + numpy.exp(-(numpy.array(STEPS) - centre) / width))


def seen(step, after, by, low=None, high=None):
    return Onset("seen", step, low, high, after, by, 0)


# Onsets ----------------------------------------------------------------------------------------------------------


def test_the_papers_rule_interpolates_between_checkpoints():
    found = onset([0, 10, 20], numpy.array([0.1, 0.3, 0.8]))
    assert (found.status, found.after, found.by) == ("seen", 10, 20)
    assert found.step == pytest.approx(10 + (0.5 - 0.3) / 0.5 * 10)  # 14


def test_what_is_not_seen_is_censored():
    never = onset([0, 10], numpy.array([0.1, 0.5]))  # not above
    assert (never.status, never.step, never.after, never.by) == ("never", None, 10, None)
    already = onset([0, 10], numpy.array([0.6, 0.4]))
    assert (already.status, already.step, already.by, already.falls) == ("already", None, 0, 1)


def test_falls_are_counted():
    assert onset([0, 1, 2, 3, 4], numpy.array([0.1, 0.9, 0.2, 0.9, 0.1])).falls == 2


@pytest.mark.parametrize(
    ("steps", "curve", "words"),
    [
        ([0], [0.1], "at least two steps"),
        ([0, 0], [0.1, 0.2], "must increase"),
        ([0, 1], [0.1, math.nan], "not finite"),
    ],
)
def test_what_is_no_curve_is_refused(steps, curve, words):
    with pytest.raises(BadInput, match=words):
        onset(steps, numpy.array(curve))


@pytest.mark.parametrize("centre", [22.0, 35.0, 41.5])
def test_a_clean_rise_has_its_change_point_in_its_middle(centre):
    found = change_point(STEPS, sigmoid(centre))
    assert found is not None and found.step == pytest.approx(centre, abs=0.5)
    assert found.floor == pytest.approx(0.1, abs=0.03) and found.ceiling == pytest.approx(0.9, abs=0.03)
    assert found.low <= centre <= found.high


def test_the_change_points_interval_covers():
    random = numpy.random.default_rng(0)
    hits = 0
    for trial in range(60):
        centre = random.uniform(20, 50)
        sequences = sigmoid(centre) + 0.05 * random.standard_normal((40, len(STEPS)))
        weights = resamples(40, 100, trial)
        found = change_point(STEPS, sequences.mean(0), weights @ sequences / 40, trial)
        hits += found is not None and found.low <= centre <= found.high
    assert hits >= 52  # 95 % of 60 are 57; the interval is said to be rather too wide


def test_a_flat_curve_has_no_change_point():
    assert change_point(STEPS, numpy.full(8, 0.3)) is None
    assert change_point(STEPS[:4], sigmoid(15)[:4]) is None  # too few checkpoints


def test_the_causal_onset_is_half_of_the_last_effect():
    random = numpy.random.default_rng(1)
    effects = numpy.outer(numpy.ones(64), [0, 0, 0.1, 0.5, 1.0]) + 0.01 * random.standard_normal((64, 5))
    found = causal_onset([0, 10, 20, 30, 40], effects, resamples(64, 200, 0))
    assert found.onset.step == pytest.approx(30, abs=1) and found.hurts_from == 20
    noise = 0.01 * random.standard_normal((64, 3))
    nothing = causal_onset([0, 10, 20], noise - noise.mean(0), resamples(64, 200, 0))
    assert nothing.onset.status == "never" and nothing.hurts_from is None


# Order -----------------------------------------------------------------------------------------------------------


def test_order_within_a_run_needs_a_checkpoint_between():
    assert precedes(seen(5, 0, 10), seen(15, 10, 20)) == 1
    assert precedes(seen(15, 10, 20), seen(5, 0, 10)) == -1
    assert precedes(seen(12, 10, 20), seen(18, 10, 20)) == 0  # both in one gap
    assert precedes(seen(9, 0, 10, 5, 16), seen(15, 10, 20, 12, 19)) == 0  # intervals overlap
    never, already = Onset("never", None, None, None, 70, None, 0), Onset("already", None, None, None, None, 0, 0)
    assert precedes(already, seen(5, 0, 10)) == 1 and precedes(never, seen(5, 0, 10)) == -1
    assert precedes(never, never) == 0


@pytest.mark.parametrize(
    ("a", "b", "tau"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4], [1, 2, 4, 3], 4 / 6),
        ([1, 1, 2, 3], [1, 2, 3, 3], 4 / 5),  # a pair tied in each: 4 agree, √(5·5)
    ],
)
def test_kendalls_tau_by_hand(a, b, tau):
    assert tau_b(a, b) == pytest.approx(tau)


def test_the_order_over_runs_is_counted():
    def run(*order):
        return {name: seen(10 * i + 5, 10 * i, 10 * i + 10) for i, name in enumerate(order)}

    found = agreement([run("a", "b", "c"), run("a", "b", "c"), run("a", "c", "b")])
    assert found.events == ("a", "b", "c") and (found.holds, found.confirmed, found.runs) == (2, 2, 3)
    pair = next(p for p in found.pairs if {p.first, p.second} == {"b", "c"})
    assert (pair.before, pair.after, pair.undetermined, pair.absent) == (2, 1, 0, 0)
    assert found.tau == (1.0, 1.0, pytest.approx(1 / 3))
    assert found.mean_tau == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)


def test_paths_are_aligned_by_what_they_do():
    paths = [Path(3, 0, "query", "value[2]"), Path(2, 1, "query", "value[2]"), Path(0, 0, "value[1]", "key[1]")]
    names = event_names(paths)
    assert [names[p] for p in sorted(paths)] == ["value[1]->key[1]", "query->value[2]", "query->value[2] #2"]


def test_wilsons_interval_by_hand():
    low, high = wilson(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-3), pytest.approx(0.9433, abs=1e-3))


# Runs ------------------------------------------------------------------------------------------------------------


def test_strengths_of_sequences_average_to_the_roles_mean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = load("demo")
    evaluator = Evaluator(run.model, run.task.sample(16, 0))
    path = Path(1, 0, "query", "value[1]")
    expected = path_strengths(evaluator.patterns[1], evaluator.batch.roles)
    names = evaluator.batch.roles.names
    mean = attention(evaluator, [path]).mean()
    assert mean == pytest.approx(float(expected[0, 0, names.index("query"), names.index("value[1]")]), abs=1e-5)
    assert float(costs(evaluator, [path]).mean()) > 0.5


def test_the_shipped_demo_emerges(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    paths = ["--path", "L0H0 value[1]->key[1]", "--path", "L1H0 query->value[1]", "--path", "L2H0 query->value[2]"]
    assert main(["emerge", "demo", *paths, "--n", "16", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    [run] = printed["runs"]
    by_name = {path["name"]: path for path in run["paths"]}
    assert 100 < by_name["query->value[1]"]["onset"]["step"] < 150 < by_name["query->value[2]"]["onset"]["step"] < 200
    assert by_name["query->value[1]"]["causal"]["onset"]["status"] == "seen"
    assert run["hops"]["x1"]["step"] < run["hops"]["x2"]["step"]
    assert printed["order"]["events"][-1] == "query->value[2]"
    folder = tmp_path / "demo-emergence"
    assert json.loads((folder / "emergence.json").read_text()) == printed
    assert (folder / "pictures" / "emergence.svg").is_file() and (folder / "emergence.csv").is_file()
    assert main(["emerge", "demo", "demo", *paths, "--n", "16"]) == 0
    assert "holds in 2 of 2 runs" in capsys.readouterr().out


def test_what_cannot_be_followed_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["build", "1", "--out", "b"]) == 0
    for arguments, words in (
        (["b"], "needs at least 3"),
        (["demo", "--path", "L9H0 query->value[1]"], "has no path L9H0"),
        (["demo", "--path", "nonsense"], "must be written such as"),
        (["demo", "--all", "--path", "L0H0 query->value[1]"], "not both"),
        (["nowhere"], "is not a run folder"),
    ):
        capsys.readouterr()
        assert main(["emerge", *arguments, "--n", "8"]) == 2
        assert words in capsys.readouterr().err
    run = load("demo")
    with pytest.raises(BadInput, match="no role"):
        follow(run, [Path(0, 0, "query", "value[9]")], n=8)
