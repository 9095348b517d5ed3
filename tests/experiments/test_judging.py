"""Claims: those of every committed table are judged today as they were, and `Evidence` against sums done by hand."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

import pytest
from pandas import DataFrame, Index, Series

import hopscope
from hopscope.core.intervals import interval_of_mean
from hopscope.experiments.base import SCALES, experiment
from hopscope.experiments.judging import (
    Bound,
    Claim,
    Evidence,
    around,
    between,
    bound,
    factor,
    judge,
    significant,
    telling,
    without_prior,
)
from hopscope.experiments.results import judged, results_in, rooms, table_in
from hopscope.experiments.values import lags, power_law

PACKAGE = Path(hopscope.__file__).parent
COMMITTED = [folder for folder in results_in(*rooms()) if (folder / "claims.json").is_file()]
NAN, INF = math.nan, math.inf

#: What no change of code may change; words (sentence, section, threshold) may become better.
KEPT = ("id", "scale", "number", "spread", "n", "seeds", "verdict", "runs", "version")

#: Three runs, two of one seed.
ROWS = DataFrame({"run": ["a", "b", "b", "c"], "seed": [3, 0, 0, 3]})


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda folder: folder.name)
def test_committed_tables_are_judged_as_they_were(folder: Path):
    source, table = experiment(folder.name), table_in(folder)
    scales = [scale for scale in SCALES if (table.scale == scale).any()]
    found = [row for scale in scales for row in judged(source, table[table.scale == scale], scale)]
    committed = json.loads((folder / "claims.json").read_text())
    assert len(committed) == len(found)
    for then, now in zip(committed, found, strict=True):
        assert {name: now[name] for name in KEPT} == {name: then[name] for name in KEPT}
        assert now["threshold"] == then["threshold"]  # else: hopscope report --redraw


def calls(path: Path) -> set[str]:
    """Names of what a file calls."""
    nodes = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def test_every_claim_is_made_where_it_is_judged():
    """None is put together by hand, where number, verdict and words could part ways."""
    judging = PACKAGE / "experiments" / "judging.py"
    assert "Claim" in calls(judging)
    files = [path for folder in (PACKAGE, PACKAGE.parent / "hopscope_studies") for path in folder.rglob("*.py")]
    assert [path for path in files if path != judging and "Claim" in calls(path)] == []


def one(values, what: str = "loss", **more: Any) -> Claim:
    of = {name: more.pop(name) for name in ("section", "rows", "among") if name in more}
    evidence = Evidence(**{"section": "7.2", "rows": ROWS, "source": more.pop("source", ""), **of})
    return evidence.claim("id", "A sentence.", values, what, **more)


def test_a_call_of_before_makes_the_same_claim():
    """Plug-ins say rows, section and source with each claim; whose threshold it is had no default."""
    how = {"at_least": 0.5, "of": "median", "n": 7}
    then = judge("id", "A sentence.", [0.5, 0.75], "loss", section="8", rows=ROWS[:0], among=ROWS, source="ours", **how)
    assert then == Evidence(ROWS[:0], "8", among=ROWS).claim("id", "A sentence.", [0.5, 0.75], "loss", **how)
    plain = judge("id", "A sentence.", [0.5], "loss", section="8", rows=ROWS, above=0)
    assert plain.threshold == "lowest loss > 0" and plain.seeds == (0, 3)


# The values, their number and their spread -----------------------------------------------------------------------


def test_a_told_claim_fills_its_sentence():
    told = telling({"most": "Most of {what} are learnt.", "all": "All are learnt."})
    evidence = Evidence(ROWS, "section 2")
    plain = evidence.claim("all", "All are learnt.", [1.0], "share", above=0.5)
    assert told(evidence, "all", [1.0], "share", above=0.5) == plain
    hops = told(evidence, "most_hops", [1.0], "share", said={"what": "8 hops"}, sentence="most", above=0.5)
    assert (hops.id, hops.sentence) == ("most_hops", "Most of 8 hops are learnt.")
    for id in ("most", "some"):  # braces that nothing fills, and no sentence at all
        with pytest.raises(KeyError):
            told(evidence, id, [1.0], "share", above=0.5)


def test_a_claim_says_what_it_is_made_of():
    claim = one([0.8, 0.9, 0.75], above=0.7, source="paper")
    assert claim == Claim(
        "id", "7.2", "A sentence.", 0.75, (0.75, 0.9), None, 3, (0, 3), "lowest loss > 0.7 (paper)", "holds"
    )


@pytest.mark.parametrize(
    ("limit", "number", "threshold", "verdict"),
    [
        ({"above": 1}, 1, "lowest loss > 1", "fails"),
        ({"at_least": 1}, 1, "lowest loss ≥ 1", "holds"),
        ({"below": 5}, 5, "highest loss < 5", "fails"),
        ({"at_most": 5}, 5, "highest loss ≤ 5", "holds"),
        ({"equals": 2}, 2.5, "every loss = 2; the number is the mean", "fails"),
        ({"within": between(1, 5)}, 2.5, "every loss in [1, 5]; the number is the mean", "holds"),
        ({"within": around(2, 1)}, 2.5, "every loss within 1 of 2; the number is the mean", "fails"),
        ({"within": factor(2, 2.5)}, 2.5, "every loss within a factor 2.5 of 2; the number is the mean", "holds"),
        ({"of": "mean", "equals": 2.5}, 2.5, "mean loss = 2.5", "holds"),
        ({"of": "median", "below": 2}, 2, "median loss < 2", "fails"),
        ({"of": "total", "at_least": 10}, 10, "total loss ≥ 10", "holds"),
        ({"of": "highest", "above": 4}, 5, "highest loss > 4", "holds"),
        ({"of": "lowest", "equals": 1}, 1, "lowest loss = 1", "holds"),
        ({"above": 0, "number": "median"}, 2, "lowest loss > 0; the number is the median", "holds"),
    ],
)
def test_every_comparison_and_statistic(limit, number, threshold, verdict):
    """Of 1, 2, 2 and 5: mean 2.5, median 2, total 10."""
    claim = one([1, 2, 2, 5], **limit)
    assert (claim.number, claim.threshold, claim.verdict) == (number, threshold, verdict)
    assert claim.spread == (1, 5)


def test_an_iterator_is_read_once():
    assert one(iter([1, 2, 2, 5]), above=0) == one([1, 2, 2, 5], above=0)


def test_a_geometric_mean():
    """The third root of 1 · 3 · 9 is 3."""
    assert one([1, 3, 9], of="geometric mean", within=around(3, 1e-9)).number == pytest.approx(3)
    assert one([0, 3, 9], of="geometric mean", above=0).verdict == "fails"


def test_a_share_of_truth_values():
    claim = one([True, False, True, True], "runs that learn", of="share of", above=0.75)
    assert (claim.number, claim.spread, claim.verdict) == (0.75, (0, 1), "fails")
    assert claim.threshold == "share of runs that learn > 0.75"


def test_a_single_number_stands_alone():
    claim = one(0.93, "exponent of N", within=between(0.75, 1.1), source="ours")
    assert (claim.number, claim.spread, claim.verdict) == (0.93, (0.93, 0.93), "holds")
    assert claim.threshold == "exponent of N in [0.75, 1.1] (ours)"
    assert one(Series([1.0]).iloc[0], above=1).threshold == "loss > 1"


def test_number_and_spread_may_be_given():
    claim = one([1, 2], above=0, number=1.25, spread=(-1, 4))
    assert (claim.number, claim.spread, claim.threshold) == (1.25, (-1, 4), "lowest loss > 0")
    assert one([], above=0, number=0.0).spread == (0, 0)


def by(name, labels, values):
    return Series(values, index=Index(labels, name=name))


@pytest.mark.parametrize(
    "values",
    [by("seed", [0, 1, 4], [1, 2, 3]), by("seed", [0, 1, 4, 5], [1, 2, NAN, 3]), by("run", list("abc"), [1, 2, 3])],
    ids=["seeds", "unknown", "runs"],
)
def test_values_of_several_seeds_have_the_interval_of_their_mean(values):
    """1, 2 and 3: a standard error of 1 / √3 times 4.303, the 97.5 % point of Student's t at two degrees of freedom."""
    claim = one(values, above=0, rows=ROWS.assign(seed=[3, 0, 0, 1]))
    assert claim.interval == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5))


def test_the_interval_of_rows_and_of_truth_values():
    """Wilson's for three of three: z²/(3 + z²) = 3.841 of 6.841 lies below it."""
    rows = DataFrame({"run": ["a", "b", "c"], "seed": [0, 1, 2], "loss": [0.5, 0.75, 0.25]})
    labelled = rows.set_index(Index([5, 7, 9]))
    assert one(labelled.loss, above=0, rows=labelled).interval == interval_of_mean([0.5, 0.75, 0.25])
    shares = one(labelled.loss > 0, above=0, of="share of", rows=labelled)
    assert shares.interval == pytest.approx((1 - 3.8415 / 6.8415, 1), abs=1e-4)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 3.0],
        Series([1.0, 2.0, 3.0]),
        by("seed", [3, 0], [1.0, 2.0]),
        by("seed", [3, 0, 1], [1.0, 1.0, 1.0]),
        by("seed", [3, 0, 3], [1.0, 2.0, 3.0]),
        by("seed", [3, 0, 1], [1.0, 2.0, INF]),
        by("run", ["a", "b", "c"], [1.0, 2.0, 3.0]),
        by("run", ["a", "b", "z"], [1.0, 2.0, 3.0]),
        by("k", [3, 1, 2], [1.0, 2.0, 3.0]),
    ],
    ids=["list", "counted", "two", "equal", "twice", "infinite", "same-seed", "unknown-run", "others"],
)
def test_values_that_are_not_one_per_seed_have_no_interval(values):
    """`k` has labels of rows by chance; a list does not say whose its values are."""
    assert one(values, above=0).interval is None


def test_values_that_are_not_what_is_counted_have_no_interval():
    """Five values that show two behaviours, for example, are no five observations."""
    values = by("seed", [0, 1, 4], [1, 2, 3])
    assert one(values, above=0, n=3).interval is not None and one(values, above=0, n=2).interval is None


def test_who_stands_behind_it():
    """n counts runs unless told, and none is none; where no rows are left the seeds are of those they were among."""
    assert (one([1], above=0).n, one([1], above=0, n=7).n) == (3, 7)
    nobody = one([], above=0, rows=ROWS[:0], among=ROWS)
    assert (nobody.n, nobody.seeds, nobody.verdict) == (0, (0, 3), "undecided")
    assert one([], above=0, n=0).n == 0


# What is unknown, what is censored -------------------------------------------------------------------------------


def test_nothing_known_is_undecided():
    for nothing in ([], [NAN, NAN], NAN, Series(dtype=float)):
        for limit in ({"above": 0}, {"of": "median", "below": 0}, {"equals": 0, "unanimous": True}):
            claim = one(nothing, **limit)
            assert (claim.verdict, math.isnan(claim.number), claim.n) == ("undecided", True, 3)
            assert all(map(math.isnan, claim.spread))


def test_a_value_that_is_not_known_counts_against_a_bound_on_every_one():
    """It is left out of number and spread, and of a statistic."""
    assert (one([1, NAN, 3], above=0).verdict, one([1, NAN, 3], above=0).spread) == ("fails", (1, 3))
    assert (one([1, NAN, 3], of="mean", above=0).verdict, one([1, NAN, 3], of="mean", above=0).number) == ("holds", 2)


def test_what_never_came_is_later_than_any_number():
    assert one([40, INF, 90], "number of steps", at_least=40).verdict == "holds"
    assert one([40, INF, 90], "number of steps", below=1000).verdict == "fails"
    assert one([40, INF, 90], "number of steps", of="median", below=100).number == 90
    assert math.isnan(one([INF, -INF], of="mean", above=0).number)


def test_lags():
    """From 10 to 15 to 40; never; a later one without the earlier; both before anything was watched."""
    assert lags([[10, 15, 40]]) == [5, 25]
    assert lags([[10, NAN, 40], [10, INF]]) == [-INF]
    assert lags([[NAN, 20]]) == [-INF]
    assert lags([[NAN, NAN], [-INF, -INF]]) == []
    assert lags([[-INF, 20], [30, -INF]]) == [INF, -INF]
    assert lags([[7, 7]]) == [0]


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ([[10, 15], [20, 60]], "holds"),
        ([[10, 15], [60, 20]], "fails"),
        ([[10, 15], [60, NAN]], "holds"),
        ([[10, 15], [NAN, 60]], "fails"),
        ([[10, NAN], [NAN, NAN]], "undecided"),
    ],
)
def test_orderings(times, verdict):
    assert one(lags(times), "number of steps", above=0).verdict == verdict


# Several bounds, intervals, tests and laws -----------------------------------------------------------------------


def test_the_interval_of_a_mean_by_hand():
    margin = 2.776 * math.sqrt(2.5 / 5)  # five values of variance 2.5, and t of four degrees of freedom
    assert interval_of_mean([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx((3 - margin, 3 + margin))
    unknown = [], [1.0], [math.nan, math.nan]
    assert all(math.isnan(end) for values in unknown for end in interval_of_mean(values))


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([1], [1], "holds"),
        ([1], [-1], "fails"),
        ([-1], [], "fails"),
        ([1], [], "undecided"),
        ([], [], "undecided"),
    ],
)
def test_all_bounds_must_be_met(first, second, verdict):
    """One that is not met is enough to fail, whatever the others leave open."""
    claim = one(first, above=0, also=[bound("accuracy", second, above=0)], source="ours")
    assert claim.verdict == verdict
    assert claim.threshold == "lowest loss > 0, and lowest accuracy > 0 (ours)"


def test_other_values_may_decide():
    learnt = bound("runs that learn", [True, False], of="share of", above=0.5)
    claim = one([0.1, 0.9, 0.8], number="median", also=[learnt])
    assert (claim.number, claim.verdict) == (0.8, "fails")
    assert claim.threshold == "share of runs that learn > 0.5; the number is the median loss"


@pytest.mark.parametrize(("met", "verdict"), [(True, "fails"), (False, "undecided"), (None, "undecided")])
def test_what_must_be_so_to_ask(met, verdict):
    claim = one([1], above=2, provided=Bound("somebody learnt", met))
    assert (claim.verdict, claim.threshold) == (verdict, "lowest loss > 2; asked only if somebody learnt")


@pytest.mark.parametrize(
    ("priors", "said"),
    [
        (["none"] * 4, "A sentence."),
        (["L0 1:4"] * 4, "A sentence. (With a prior: L0 1:4.)"),
        (["none", "L0 1:4", "L0 1:4", "none"], "A sentence. (Some runs with a prior: L0 1:4.)"),
        (["L0 1:4", "L0 1:2", "none", "none"], "A sentence."),
    ],
)
def test_a_sentence_says_whether_all_runs_or_some_had_a_prior(priors, said):
    assert one([0.5], above=0, rows=ROWS.assign(prior=priors)).sentence == said


@pytest.mark.parametrize(("priors", "verdict"), [(["none"] * 4, "fails"), (["L0 1:4"] * 4, "undecided")])
def test_what_a_prior_takes_away_is_not_judged_by_runs_that_have_it(priors, verdict):
    rows = ROWS.assign(prior=priors)
    assert one([0.02], "wait", at_least=0.5, rows=rows, provided=without_prior(rows)).verdict == verdict


def test_two_are_needed_to_compare():
    asked = [one([5] * n, above=1, provided=bound("the number of ratios", n, above=1)) for n in (1, 2)]
    assert [claim.verdict for claim in asked] == ["undecided", "holds"]


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.3, 0.4), "holds"), ((0.2, 0.4), "undecided"), ((0.1, 0.2), "fails"), ((0.25, 0.25), "fails")],
)
def test_an_interval_that_straddles_the_limit_is_undecided(interval, verdict):
    claim = one(interval, "accuracy", number=0.28, above=0.25, unanimous=True)
    assert (claim.verdict, claim.spread) == (verdict, interval)
    assert claim.threshold == "accuracy > 0.25 in all; undecided if in some"


@pytest.mark.parametrize(
    ("chance", "contrary", "verdict"),
    [(0.01, 1.0, "holds"), (1.0, 0.01, "fails"), (0.3, 0.7, "undecided"), (0.05, 0.96, "undecided")],
)
def test_one_sided_tests(chance, contrary, verdict):
    claim = one([0.4, 0.6], number=0.5, also=[significant("τ > 0", chance, contrary)])
    assert (claim.number, claim.verdict) == (0.5, verdict)
    assert claim.threshold == "τ > 0 with a one-sided permutation probability below 0.05"


def test_a_law_with_its_fitted_exponent():
    """y = 3 x²: the exponent is 2, the constants y / x² are 3; of y = 3 x it is 1."""
    x, square, line = [1, 2, 4], [3, 12, 48], [3, 6, 12]

    def law(y):
        constants = [b / a**2 for a, b in zip(x, y, strict=True)]
        exponent = bound("the exponent", power_law(x, y)[1], within=around(2, 0.15))
        return one(constants, "constant", of="geometric mean", within=factor(2, 1.6), also=[exponent])

    assert (law(square).verdict, law(square).number) == ("holds", pytest.approx(3))
    assert law(square).threshold == (
        "geometric mean constant within a factor 1.6 of 2, and the exponent within 0.15 of 2"
    )
    assert law(line).verdict == "fails"
    assert power_law(x, line)[1] == pytest.approx(1)
    known = one(power_law([1, 1], [2, 3])[1], "exponent", within=around(2, 1))  # one width shows no law
    assert known.verdict == "undecided"


def test_a_claim_is_held_to_something():
    with pytest.raises(TypeError, match="held to nothing"):
        one([1])
    for wrong in ({"of": "mean"}, {"above": 0, "below": 1}, {"abvoe": 0}, {"above": 0, "abvoe": 1}):
        with pytest.raises(TypeError, match="a bound needs one of above, at_least"):
            one([1], **wrong)
