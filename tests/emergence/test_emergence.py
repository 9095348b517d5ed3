"""Onsets on curves whose onset is known, orders by hand, and the command on a real run."""

from __future__ import annotations

import json
import math

import numpy
import pandas
import pytest
import torch

from hopscope import Architecture, Config, Training, train
from hopscope.circuits.evaluator import AsIs, Evaluator, Silenced
from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged
from hopscope.drawing import emergence_curves, emergence_order
from hopscope.emergence.change_point import CENTRES, Grid, change_point
from hopscope.emergence.onset import Onset, causal_onset, onset, resamples
from hopscope.emergence.order import agreement, event_names, first_of_kind, precedes, tau_b, wilson
from hopscope.emergence.record import Record, attention, circuit_paths, recorded
from hopscope.emergence.refine import retrained
from hopscope.emergence.track import check_comparable, follow, follow_all, served, told
from hopscope.emergence.words import when
from hopscope.problem.paths import Path
from hopscope.runs.run import load
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from tests.brief_reports import brief_reports  # noqa: F401
from tests.pictures import drawn_once  # noqa: F401
from tests.small_runs import trained

STEPS = [0, 10, 20, 30, 40, 50, 60, 70]


def sigmoid(centre, width=4.0, floor=0.1, ceiling=0.9):
    return floor + (ceiling - floor) / (1 + numpy.exp(-(numpy.array(STEPS) - centre) / width))


def seen(step, after, by, low=None, high=None):
    """An onset between two checkpoints; its interval covers the time between them, unless it is given."""
    return Onset("seen", step, after if low is None else low, by if high is None else high, after, by, 0)


# Onsets ----------------------------------------------------------------------------------------------------------


def test_the_papers_rule_interpolates_between_checkpoints():
    found = onset([0, 10, 20], numpy.array([0.1, 0.3, 0.8]))
    assert (found.status, found.after, found.by) == ("seen", 10, 20)
    assert found.step == pytest.approx(10 + (0.5 - 0.3) / 0.5 * 10)  # 14


def test_an_interval_holds_what_lies_between_checkpoints():
    """Attention rises at step 87. Every 10 steps that is seen; every 100 a straight line says 47 to 54."""
    at = lambda steps: 0.1 + 0.85 / (1 + numpy.exp(-(numpy.array(steps) - 87) / 2))  # noqa: E731
    rarely, often = [0, 100, 200], list(range(0, 201, 10))
    random = numpy.random.default_rng(0)
    for steps, width in ((rarely, 100), (often, 20)):
        resampled = at(steps) + 0.01 * random.standard_normal((200, len(steps)))
        for found in (onset(steps, at(steps), resampled=resampled), onset(steps, at(steps))):
            assert found.low <= 87 <= found.high and found.high - found.low <= width
            assert found.low <= found.after and found.by <= found.high
    assert onset(rarely, at(rarely)).step == pytest.approx(47, abs=8)


def test_a_path_at_chance_has_no_causal_onset_yet():
    """Silencing costs half of what it will from step 10 on; but there the head attends as evenly as any."""
    effects = numpy.outer(numpy.ones(64), [0, 0.6, 0.7, 1.0]) + 0.01 * numpy.random.default_rng(1).standard_normal(
        (64, 4)
    )
    steps, weights = [0, 10, 20, 30], resamples(64, 200, 0)
    assert causal_onset(steps, effects, weights).onset.by == 10
    found = causal_onset(steps, effects, weights, above=numpy.array([False, False, True, True]))
    assert (found.onset.after, found.onset.by, found.hurts_from) == (10, 20, 20)
    never = causal_onset(steps, effects, weights, above=numpy.zeros(4, bool))
    assert never.onset.status == "never" and never.hurts_from is None and never.effect == pytest.approx(1.0, abs=0.01)


def test_what_is_not_seen_is_censored():
    never = onset([0, 10], numpy.array([0.1, 0.5]))  # not above
    assert (never.status, never.step, never.after, never.by) == ("never", None, 10, None)
    already = onset([0, 10], numpy.array([0.6, 0.4]))
    assert (already.status, already.step, already.by, already.falls) == ("already", None, 0, 1)


def test_falls_are_counted():
    assert onset([0, 1, 2, 3, 4], numpy.array([0.1, 0.9, 0.2, 0.9, 0.1])).falls == 2


def test_what_was_there_and_is_lost_is_told_so():
    assert when(onset(STEPS[:4], numpy.array([0.9, 0.7, 0.2, 0.1]))) == "from the start, fell back ×1"
    assert when(onset(STEPS[:3], numpy.array([0.9, 0.7, 0.8]))) == "from the start"


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


@pytest.mark.parametrize("noise", ["of sequences", "of training", "of both, with sequences that learn at other times"])
def test_the_interval_covers_whatever_the_noise(noise):
    """Noise that all sequences share at a checkpoint is in no bootstrap over sequences; the residuals hold it."""
    random = numpy.random.default_rng(7)
    hits = 0
    for trial in range(60):
        centre = random.uniform(20, 50)
        shift = 3 * random.standard_normal((40, 1)) if "both" in noise else numpy.zeros((40, 1))
        sequences = 0.1 + 0.8 / (1 + numpy.exp(-(numpy.array(STEPS) - centre - shift + shift.mean()) / 4))
        if "training" not in noise:
            sequences = sequences + 0.1 * random.standard_normal(sequences.shape)
        if noise != "of sequences":
            sequences = sequences + 0.02 * random.standard_normal(len(STEPS))
        weights = resamples(40, 100, trial)
        found = change_point(STEPS, sequences.mean(0), weights @ sequences / 40, trial)
        hits += found is not None and found.low <= centre <= found.high
    assert hits >= 52  # of 60; 57 are expected at least


def test_a_jump_between_two_checkpoints_is_anywhere_between_them():
    found = change_point(STEPS, numpy.array([0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9]))
    assert found is not None and found.low <= 20 and found.high >= 30


def test_without_sequences_the_interval_is_of_the_residuals():
    rough = sigmoid(35) + numpy.array([0.02, -0.03, 0.01, 0.03, -0.02, 0.02, -0.01, 0.01])
    smooth, found = change_point(STEPS, sigmoid(35)), change_point(STEPS, rough)
    assert smooth is not None and found is not None and found.high - found.low > smooth.high - smooth.low


def test_the_interval_of_an_onset_is_open_where_samples_never_pass():
    curve = numpy.array([0.1, 0.3, 0.51])
    resampled = numpy.array([[0.1, 0.3, last] for last in numpy.linspace(0.45, 0.57, 100)])
    found = onset([0, 10, 20], curve, resampled=resampled)
    assert found.status == "seen" and found.low is not None and found.high is None


def test_the_grid_does_not_grow_with_the_steps_that_were_streamed():
    """A run logs thousands of rows; one centre a row took memory quadratic in them, 4 GB for 3,000."""
    times = numpy.arange(1201.0)
    assert [len(Grid(times[:n]).centres) for n in (26, 401, 1201)] == [199, 399, CENTRES]
    noise = 0.02 * numpy.random.default_rng(0).standard_normal(1201)
    found = change_point(range(1201), 0.1 + 0.8 / (1 + numpy.exp(-(times - 445) / 12)) + noise)
    assert found is not None and found.step == pytest.approx(445, abs=2) and found.low <= 445 <= found.high


def test_a_flat_curve_has_no_change_point():
    assert change_point(STEPS, numpy.full(8, 0.3)) is None
    assert change_point(STEPS[:4], sigmoid(15)[:4]) is None  # too few checkpoints


def test_the_causal_onset_is_half_of_the_last_effect():
    random = numpy.random.default_rng(1)
    effects = numpy.outer(numpy.ones(64), [0, 0, 0.1, 0.5, 1.0]) + 0.01 * random.standard_normal((64, 5))
    found = causal_onset([0, 10, 20, 30, 40], effects, resamples(64, 200, 0))
    assert found.onset.step == pytest.approx(30, abs=1) and found.hurts_from == 20
    small = causal_onset([0, 10, 20, 30, 40], effects * 0.001, resamples(64, 200, 0), least=0.01)
    assert small.onset.status == "never" and small.hurts_from == 20  # certain, and negligible
    noise = 0.01 * random.standard_normal((64, 3))
    nothing = causal_onset([0, 10, 20], noise - noise.mean(0), resamples(64, 200, 0))
    assert nothing.onset.status == "never" and nothing.hurts_from is None


# Order -----------------------------------------------------------------------------------------------------------


def test_order_within_a_run_needs_a_checkpoint_between():
    assert precedes(seen(5, 0, 10), seen(15, 10, 20)) == 1
    assert precedes(seen(15, 10, 20), seen(5, 0, 10)) == -1
    assert precedes(seen(12, 10, 20), seen(18, 10, 20)) == 0  # both in one gap
    assert precedes(seen(9, 0, 10, 0, 10), seen(15, 10, 20, 10, 20)) == 1  # a checkpoint between them is enough
    assert precedes(seen(9, 0, 10, 5, 16), seen(15, 10, 20, 12, 19)) == 0  # intervals overlap
    never, already = Onset("never", None, None, None, 70, None, 0), Onset("already", None, None, None, None, 0, 0)
    assert precedes(already, seen(5, 0, 10)) == 1 and precedes(never, seen(5, 0, 10)) == -1
    assert precedes(never, never) == 0


def test_an_interval_beyond_the_checkpoints_overlaps_what_is_there():
    """Of 40 sequences 21 attend from step 200 on: over resampled sequences the mean may never pass 0.5."""
    weights, steps = resamples(40, 400, seed=0), [0, 100, 200, 300]
    doubtful, certain = numpy.zeros((40, 4)), numpy.zeros((40, 4))
    doubtful[:21, 2:], certain[:, 3:] = 1, 1
    first, second = (onset(steps, path.mean(0), resampled=weights @ path / 40) for path in (doubtful, certain))
    assert (first.by, second.after, first.high, second.low) == (200, 200, None, 200)
    assert precedes(first, second) == precedes(second, first) == 0
    early = Onset("seen", 150, None, 200, 100, 200, 0)  # it may have been there at the first checkpoint
    assert precedes(seen(50, 0, 100), early) == 0


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


def test_censored_absent_and_undetermined_pairs_are_counted():
    never = Onset("never", None, None, None, 70, None, 0)
    runs = [
        {"a": seen(5, 0, 10), "b": seen(15, 10, 20)},
        {"a": seen(5, 0, 10), "b": never},
        {"a": seen(12, 10, 20), "b": seen(11, 10, 20)},  # both in one gap
        {"a": never, "b": never},
        {"a": seen(5, 0, 10)},
    ]
    found = agreement(runs)
    [pair] = found.pairs
    assert (pair.before, pair.after, pair.undetermined, pair.absent) == (2, 0, 2, 1)
    assert (found.holds, found.confirmed) == (5, 2) and found.tau == (1.0, 1.0, None, None, None)
    assert found.mean_tau == 1.0 and found.mean_tau_interval is None  # not all runs are comparable


def test_the_interval_of_mean_tau_is_the_jackknifes():
    def run(*order):
        return {name: seen(10 * i + 5, 10 * i, 10 * i + 10) for i, name in enumerate(order)}

    found = agreement([run("a", "b", "c"), run("a", "b", "c"), run("a", "c", "b")])
    # pairs: 1, 1/3, 1/3; without run 1: 1/3; without 2: 1/3; without 3: 1; error √(2/3 · Σ(w − 5/9)²); t of 2 is 4.303
    error = math.sqrt(2 / 3 * (2 * (1 / 3 - 5 / 9) ** 2 + (1 - 5 / 9) ** 2))
    assert found.mean_tau_interval == (pytest.approx(max(-1, 5 / 9 - 4.303 * error)), 1.0)
    alike = agreement([run("a", "b", "c")] * 4)
    assert alike.mean_tau_interval == (1.0, 1.0) and alike.holds_interval[0] == pytest.approx(0.51, abs=0.005)


def test_the_order_does_not_depend_on_how_runs_are_listed():
    random = numpy.random.default_rng(3)
    names = ["a", "b", "c", "d"]
    runs = []
    for _ in range(12):
        noisy = numpy.argsort(numpy.arange(4) + 0.4 * random.standard_normal(4))
        runs.append({names[n]: seen(10 * i + 5, 10 * i, 10 * i + 10) for i, n in enumerate(noisy)})
    one, other = agreement(runs), agreement(runs[::-1])
    assert one.events == other.events == ("a", "b", "c", "d")
    assert (one.holds, one.mean_tau) == (other.holds, pytest.approx(other.mean_tau))


def test_the_first_of_a_kind_is_the_earliest_in_whatever_layer():
    never = Onset("never", None, None, None, 70, None, 0)
    late, early = seen(46, 40, 50), seen(15, 10, 20)
    found = first_of_kind({"query->value[1]": late, "query->value[1] #2": early, "value[1]->key[1]": never})
    assert found == {"query->value[1]": early, "value[1]->key[1]": never}


def test_a_path_serves_the_easiest_hop_that_it_hurts():
    assert served({"x1": 1.2, "x2": 1.3}) == "x1" and served({"x1": 0.01, "x2": 0.3}) == "x2"


def test_paths_are_aligned_by_what_they_do():
    paths = [Path(3, 0, "query", "value[2]"), Path(2, 1, "query", "value[2]"), Path(0, 0, "value[1]", "key[1]")]
    names = event_names(paths)
    assert [names[p] for p in sorted(paths)] == ["value[1]->key[1]", "query->value[2]", "query->value[2] #2"]


def test_wilsons_interval_by_hand():
    low, high = wilson(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-3), pytest.approx(0.9433, abs=1e-3))


# Runs ------------------------------------------------------------------------------------------------------------


def test_strengths_and_costs_are_those_of_the_evaluator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, path = load("packaged"), Path(1, 0, "query", "value[1]")
    evaluator = Evaluator(run.model, run.task.sample(16, 0))
    expected = evaluator.batch.roles.strengths(evaluator.patterns[1])
    names = evaluator.batch.roles.names
    sums, counts = attention(evaluator, [path])
    strength = float(expected[0, 0, names.index("query"), names.index("value[1]")])
    assert float(sums.sum() / counts.sum()) == pytest.approx(strength, abs=1e-5)
    record = recorded(run, [path], 16, 0, "uniform", lambda _: None)
    assert record.strength(0)[-1] == pytest.approx(strength, abs=1e-5)
    as_is, silenced = evaluator.losses([AsIs(), Silenced(frozenset([path]))])
    assert record.effects.mean(1)[0, -1] == pytest.approx(silenced.mean - as_is.mean, abs=1e-4)
    assert dict(zip(run.task.hop_names, record.hops[:, -1], strict=True)) == pytest.approx(
        evaluator.accounts([AsIs()])[0].hop_losses, abs=1e-5
    )


def test_sequences_count_by_their_attending_positions():
    """A sequence in which nobody could attend so says nothing, and must not count as one in which nobody did."""
    from hopscope.emergence.record import Record

    sums = numpy.array([[[0.0, 0.0], [0.6, 1.8]]])  # no attending position, and two
    record = Record("checkpoints", [0, 10], sums, numpy.array([[0.0, 2.0]]), numpy.zeros((1, 2)))
    assert record.strength(0).tolist() == [0.3, 0.9]
    assert record.resampled(0, numpy.array([[1.0, 1.0], [0.0, 2.0]])).tolist() == [[0.3, 0.9]] * 2


def test_chance_is_what_even_attention_gives(tmp_path, monkeypatch):
    """Position by position, by hand: targets that are seen, among all that is seen."""
    monkeypatch.chdir(tmp_path)
    run, path = load("packaged"), Path(0, 0, "value[1]", "key[1]")
    record = recorded(run, [path], 8, 0, "uniform", lambda _: None)
    batch = run.task.sample(8, 0)
    held = {name: batch.roles.chain[:, batch.roles.index(name)] for name in (path.query, path.key)}
    shares = [
        sum(int(held[path.key][row, k]) == int(chain) for k in range(q + 1)) / (q + 1)
        for row in range(8)
        for q, chain in enumerate(held[path.query][row])
        if chain >= 0
    ]
    shares = [share for share in shares if share]
    assert record.chance[0] == pytest.approx(sum(shares) / len(shares), abs=1e-6)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Two trained runs of a few steps, the second with streamed strengths."""
    folder = tmp_path_factory.mktemp("tiny")
    return trained(folder / "a"), trained(folder / "b", seed=1, measures="attention_on_path")


TINY = "L0H0 query->value[1]"


def test_a_trained_run_goes_through_the_command(tiny, tmp_path, capsys):
    assert main(["emerge", str(tiny[0].path), "--path", TINY, "--n", "16", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert TINY in out and "hops learnt at x1" in out
    table = pandas.read_csv(tmp_path / "emergence.csv")
    assert table.step.tolist() == [0, 4, 8, 12] and {"effect", "effect_low", "loss_x1", "query"} <= set(table.columns)
    assert ((table.low <= table.strength) & (table.strength <= table.high)).all()
    stored = json.loads((tmp_path / "emergence.json").read_text())
    assert stored["runs"][0]["source"] == "checkpoints" and len(stored["runs"][0]["hop_losses"]["x1"]) == 4
    assert (tmp_path / "pictures" / "emergence.png").is_file()


def test_a_gap_is_refined_by_retraining_to_the_bit(tiny, tmp_path, capsys):
    """Twelve steps, checkpoints every four: the ones between are those of a run that kept every step."""
    dense = trained(tmp_path / "dense", checkpoints="1")
    between = retrained(tiny[0], [(4, 8)], 1)
    assert between.steps == [0, 4, 5, 6, 7, 8, 12]
    for step in (5, 6, 7, 8):
        wanted, found = dense.at(step).state_dict(), between.at(step).state_dict()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    command = [
        "emerge",
        str(tiny[0].path),
        "--path",
        TINY,
        "--n",
        "16",
        "--refine",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(command) == 0
    stored = json.loads((tmp_path / "out" / "emergence.json").read_text())["runs"][0]
    gaps = [o for o in (stored["paths"][0]["onset"], *stored["hops"].values()) if o["status"] == "seen"]
    assert all(gap["by"] - gap["after"] == 1 for gap in gaps)


def test_numbers_below_one_are_told_in_a_sentence(tiny):
    with pytest.raises(BadInput, match="n must be at least 1; got 0"):
        follow(tiny[0], [Path(0, 0, "query", "value[1]")], n=0)
    with pytest.raises(BadInput, match="every must be at least 1; got 0"):
        retrained(tiny[0], [(4, 8)], 0)


@pytest.mark.parametrize("first", [{"threads": 2}, {"compiled": True}], ids=str)
def test_a_run_is_retrained_as_the_session_that_it_began_in(tmp_path, first):
    """A session that was killed before its first checkpoint left no weights, so its threads do not matter."""
    run = trained(tmp_path / "run")
    [session] = run.sessions
    before = session | {"environment": session["environment"] | first}
    with (run.path / "sessions.jsonl").open("w") as file:
        file.write("".join(json.dumps(each) + "\n" for each in (before, session)))
    run.seal()
    used = []
    assert run.bit_exact and retrained(run, [(4, 8)], 1, lambda _: used.append(torch.get_num_threads())).steps
    assert set(used) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rare_checkpoints_tell_no_onset_that_frequent_ones_deny(tmp_path, seed):
    """One run with checkpoints every 100 steps and every 10: the rare ones' intervals hold what the others see."""
    found = {}
    for every in (100, 10):
        recipe = {"steps": 400, "batch": 64, "lr": 3e-3, "log_every": 100, "val_size": 64, "checkpoints": str(every)}
        prior = "relative(start='L0 1:4')"
        shape = Architecture(n_layers=2, d_model=64, mlp=False, positions=prior, init="early_layers")
        config = Config(Induction(length=12, d_vocab=24), shape, Training(**recipe, seed=seed))
        run = train(config, tmp_path / str(every), threads=1, compile="off")
        found[every] = follow(run, [Path.parse("L0H0 value[1]->key[1]"), Path.parse("L1H0 query->value[1]")], n=64)
    for rare, frequent in zip(found[100].paths, found[10].paths, strict=True):
        if frequent.onset.status == "seen":
            assert rare.onset.low <= frequent.onset.step <= rare.onset.high, (rare.onset, frequent.onset)
    assert any(path.onset.status == "seen" for path in found[10].paths)


def test_what_does_not_come_out_the_same_is_not_refined(tiny, monkeypatch):
    from hopscope.training.trainer import Trainer

    honest = Trainer.step
    monkeypatch.setattr(Trainer, "step", lambda self, step: honest(self, step + 1))  # other data: another machine
    with pytest.raises(BadInput, match="bit"):
        retrained(tiny[0], [(4, 8)], 1)


def test_several_runs_get_an_order_and_a_figure_each(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = ["--path", TINY, "--path", "L0H0 value[1]->key[1]"]
    assert main(["emerge", *(str(run.path) for run in tiny), *paths, "--n", "16"]) == 0
    assert "over 2 runs" in capsys.readouterr().out
    drawn = {file.name for file in (tmp_path / "emergence" / "pictures").glob("*.svg")}
    marks = [run.config.identity for run in tiny]
    each = {f"{name}-{mark}.svg" for name in ("emergence", "emergence_circuit") for mark in marks}
    assert drawn == {"emergence.svg"} | each


def test_the_figures_say_what_was_found(tiny):
    asked = [Path.parse(TINY), Path.parse("L0H0 value[1]->key[1]")]
    found = follow_all(tiny, lambda run: asked, n=16)
    strip, curves, losses = emergence_curves(found[0]).axes
    assert [label.get_text() for label in strip.get_yticklabels()] == [str(f.path) for f in found[0].ordered]
    for followed in found[0].paths:
        [line] = [line for line in curves.lines if line.get_gid() == str(followed.path)]
        assert line.get_xydata().tolist() == list(map(list, zip(found[0].steps, followed.strength, strict=True)))
    assert losses.lines[0].get_ydata().tolist() == found[0].hops["x1"].tolist()
    order = agreement([emergence.first_events for emergence in found])
    left, right = emergence_order(found, order).axes
    assert [label.get_text() for label in left.get_yticklabels()] == [*order.events, "x1 learnt"]
    assert len(right.texts) == 2  # two events: one pair, either way round
    assert [text.get_text() for text in right.texts] == [
        f"{count}" + (f"  {order.pairs[0].undetermined}?" if order.pairs[0].undetermined else "")
        for count in (order.pairs[0].before, order.pairs[0].after)
    ]


def test_streamed_strengths_are_those_of_the_log(tiny, tmp_path, capsys):
    found = follow(tiny[1], [Path.parse(TINY)], was_streamed=True)
    rows = [row["measures"]["attention_on_path"] for row in tiny[1].rows]
    assert found.source == "streamed" and len(found.steps) == 13
    assert found.paths[0].strength.tolist() == pytest.approx([row[TINY] for row in rows])
    assert found.paths[0].cost is None and math.isnan(found.paths[0].low[0])
    arguments = [str(tiny[1].path), "--streamed", "--path", TINY, "--out", str(tmp_path), "--json"]
    assert main(["emerge", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["paths"][0]["causal"] is None
    assert main(["emerge", str(tiny[0].path), "--streamed", "--path", TINY]) == 2
    assert "streamed attention_on_path at 0 steps" in capsys.readouterr().err


def test_a_kind_that_did_not_come_is_followed_all_the_same(tiny):
    """One run's circuit lacks a kind of path that the other's has: there it is the strongest of the kind."""
    asked = {tiny[0].path: [TINY], tiny[1].path: [TINY, "L0H0 value[1]->key[1]"]}
    found = follow_all(tiny, lambda run: [Path.parse(text) for text in asked[run.path]], n=16)
    assert [set(emergence.events) for emergence in found] == [{"query->value[1]", "value[1]->key[1]"}] * 2


def test_the_stored_circuit_is_followed(tmp_path):
    run = trained(tmp_path / "run")
    (run.path / "circuit.json").write_text(json.dumps({"paths": [Path.parse(TINY).as_dict()]}))
    assert circuit_paths(run, print) == [Path.parse(TINY)]
    (run.path / "circuit.json").write_text(json.dumps({"paths": [{"layer": 0}]}))
    with pytest.raises(Damaged, match="holds no list of paths"):
        circuit_paths(run, print)


def test_a_damaged_or_missing_checkpoint_is_named(tmp_path, capsys):
    run = trained(tmp_path / "run")
    file = run.folder(4) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert main(["emerge", str(run.path), "--path", TINY, "--n", "8"]) == 2
    err = capsys.readouterr().err
    assert str(file) in err and err.count("\n") == 1
    file.unlink()
    assert main(["emerge", str(run.path), "--path", TINY, "--n", "8"]) == 2
    assert "model.safetensors is missing, though its folder's manifest lists it" in capsys.readouterr().err


def test_runs_that_cannot_be_compared_are_refused(tiny, tmp_path):
    with pytest.raises(BadInput, match="are the same run"):
        check_comparable([tiny[0], tiny[0], load(tiny[0].path)])
    with pytest.raises(BadInput, match="different tasks"):
        check_comparable([tiny[0], load("packaged")])


def test_the_shipped_demo_emerges(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    paths = ["--path", "L0H0 value[1]->key[1]", "--path", "L1H0 query->value[1]", "--path", "L2H0 query->value[2]"]
    assert main(["emerge", "packaged", *paths, "--n", "16", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    [run] = printed["runs"]
    by_name = {path["name"]: path for path in run["paths"]}
    assert 100 < by_name["query->value[1]"]["onset"]["step"] < 150 < by_name["query->value[2]"]["onset"]["step"] < 200
    assert by_name["query->value[1]"]["causal"]["onset"]["status"] == "seen"
    assert run["hops"]["x1"]["step"] < run["hops"]["x2"]["step"]
    assert printed["order"]["events"][-1] == "query->value[2]"
    folder = tmp_path / "packaged-emergence"
    assert json.loads((folder / "emergence.json").read_text()) == printed
    assert (folder / "pictures" / "emergence.svg").is_file() and (folder / "emergence.csv").is_file()
    step = by_name["query->value[2]"]["onset"]["step"]
    assert f"from step {step:,.0f}" in (folder / "pictures" / "emergence_circuit.svg").read_text()
    assert [by_name[name]["hop"] for name in ("value[1]->key[1]", "query->value[1]", "query->value[2]")] == [
        "x1",
        "x1",
        "x2",
    ]


def test_what_cannot_be_followed_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["build", "1", "--out", "b"]) == 0
    trained(tmp_path / "few", checkpoints="12")
    for arguments, words in (
        (["b"], "was built by hand: it has no training"),
        (["few"], "weights of 2 steps, and emergence needs at least 3"),
        (["packaged", "packaged"], "are the same run"),
        (["packaged", "--path", "L0H0 key[1]->value[2]"], "no key[1] sees a value[2] of same chain"),
        (["few", "--streamed"], "streamed attention_on_path at 0 steps"),
        (["packaged", "--path", "L9H0 query->value[1]"], "the last layer is 3, counted from 0; got 9"),
        (["packaged", "--path", "nonsense"], "must be written such as"),
        (["packaged", "--all", "--path", "L0H0 query->value[1]"], "not both"),
        (["nowhere"], "is not a run folder"),
    ):
        capsys.readouterr()
        assert main(["emerge", *arguments, "--n", "8"]) == 2
        assert words in capsys.readouterr().err
    run = load("packaged")
    with pytest.raises(BadInput, match="no role"):
        follow(run, [Path(0, 0, "query", "value[9]")], n=8)


def test_a_hop_that_nobody_asks_is_not_learnt():
    """Its losses are not known. Of the other, onset and effect are told; the path serves it."""
    steps, path = [0, 10, 20], Path.parse("L1H0 query->value[1]")
    unknown = numpy.full(3, numpy.nan)
    record = Record(
        "checkpoints",
        steps,
        attention=numpy.array([[[0.1, 0.9, 1.0], [0.1, 0.9, 1.0]]]),
        positions=numpy.ones((1, 2)),
        hops=numpy.array([unknown, [0.9, 0.2, 0.0]]),
        effects=numpy.array([[[0.0, 0.8, 0.9], [0.0, 0.8, 0.9]]]),
        hop_effects=numpy.array([[0.9]]),
        chance=numpy.array([0.2]),
    )
    found = told(record, [path], Retrieval(n_hops=2), "run", "identity", {"seed": 0})
    assert list(found.learnt) == ["x2"] and list(found.hops) == ["step", "x2"]
    assert found.paths[0].cost.by_hop == {"x2": 0.9}
    json.dumps(found.as_dict(), allow_nan=False)
