"""Tests of `retrieval_heads`: claims that hold and that fail on a made-up report; toy models scored by hand."""

from __future__ import annotations

import copy
import io
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids

pytest.importorskip("torch")

import torch

from hopscope.core.intervals import wilson
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.retrieval_heads.claims import by_context
from hopscope_studies.retrieval_heads.experiments import retrieval_heads
from hopscope_studies.retrieval_heads.figure import figure
from hopscope_studies.retrieval_heads.published import MODELS
from hopscope_studies.retrieval_heads.reading import needles, released, row
from hopscope_studies.retrieval_heads.tests.made_up import REPORT, compared, firing, lost, sparsity
from hopscope_studies.retrieval_heads.toys import drawn, score


def scores(**by_head: float) -> dict[str, Any]:
    """A report with these scores alone."""
    heads = [{"layer": 1, "head": int(h[1]), "forced": s, "free": s, "induction": s} for h, s in by_head.items()]
    return {**{k: v for k, v in REPORT.items() if k != "masking"}, "heads": heads, "firing": []}


def table(
    report: dict[str, Any] = REPORT,
    hand: dict[str, Any] | None = None,
    idle: dict[str, Any] | None = None,
    toys: tuple[float, float] = (0.01, 0.95),
) -> DataFrame:
    """Rows of two seeds, controls and one toy model (error, best head's score), as read from table.csv."""
    toy = [row("error", "second copy", toys[0]), row("forced", "L1H0", toys[1]), row("forced", "L0H0", 0.0)]
    rows = []
    for run, seed, part, found in (
        ("a", 0, "language", needles(report)),
        ("b", 1, "language", needles(REPORT)),
        ("c", 0, "by hand", needles(hand or scores(h0=1.0, h1=0.0))),
        ("d", 0, "untrained", needles(idle or scores(h0=0.01, h1=0.0))),
        ("e", 0, "toy", toy),
        ("e", 0, "untrained toy", [row("forced", "L1H0", toys[1] / 20)]),
        ("f", 0, "published", released({"models": MODELS})),
    ):
        about = {"run": run, "version": "v", "seed": seed, "model": "m", "part": part}
        rows += [{**about, "other": "", "step": None, **one} for one in found]
    return pandas.read_csv(io.StringIO(DataFrame(rows).to_csv(index=False)))


def verdicts(**reports: Any) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in retrieval_heads.claims(table(**reports))}


def test_all_hold_where_one_head_does_all_but_for_two_published_models():
    found = verdicts()
    assert list(found) == claim_ids("retrieval_heads")
    assert {id for id, verdict in found.items() if verdict != "holds"} == {"published_fewer_than_one_in_twenty"}


def test_numbers_are_those_of_the_report():
    found = {claim.id: claim.number for claim in retrieval_heads.claims(table())}
    assert found["fewer_than_one_in_twenty"] == 0.025
    assert found["masking_costs_more_than_random"] == pytest.approx(2.0 - 0.1 - 0.01)  # the interval's lower end
    assert found["plain_text_is_spared"] == pytest.approx(0.1 / 2.0)
    assert found["the_top_are_induction_heads"] == 5 / 8
    assert found["published_fewer_than_one_in_twenty"] == pytest.approx(63 / 1024, abs=1e-5)


def worse() -> dict[str, Any]:
    """A table in which no claim holds."""
    few = lost(0.1, 0.2)
    return copy.deepcopy(REPORT) | {
        "sparsity": {"forced": sparsity(0.2) | {"half_or_more": 0}, "free": sparsity(0.2)},
        "firing": [firing("L3H1", 0.5, 0.5), firing("L2H2", 0.5, 0.02)],  # 0.02 in one of six is chance
        "halves": compared(0.1, 2),
        "induction": compared(-0.1, 2),
        "by_force_and_free": compared(0.1, 2),
        "masking": {
            "heads": {"retrieval 8": []},
            "log_p": few,
            "zeroed": few,
            "aside": lost(0.1, 0.1),
            "answered": few,
        },
    }


def test_each_fails_where_nothing_of_the_kind_is_so():
    bad = scores(h0=0.9, h1=0.1)
    found = verdicts(report=worse(), hand=bad, idle=bad, toys=(0.05, 0.5))
    assert {id for id, verdict in found.items() if verdict == "holds"} == {"untrained_toys_none"}
    undecided = {id for id, verdict in found.items() if verdict == "undecided"}
    # If one seed is sparse and the other is not
    assert undecided == {"fewer_than_one_in_twenty", "fewer_where_it_writes_itself"}
    assert verdicts(toys=(0.5, 0.1))["toys_that_copy"] == "undecided"  # it does not copy
    assert verdicts(toys=(0.5, 2.0))["untrained_toys_none"] == "fails"


def test_dependence_on_context_is_corrected_for_all_that_was_tried():
    """Two heads in three groupings each: 0.001 is below 0.05 / 6, and 0.01 is not."""
    rows = table()
    assert by_context(rows[rows.part == "language"]).tolist() == [1, 1]
    report = copy.deepcopy(REPORT) | {"firing": [firing("L3H1", 1.0, 0.0001), firing("L2H2", 0.5, 0.01)]}
    some = table(report=report)
    assert by_context(some[some.part == "language"]).tolist() == [0, 1]


def test_published_shares_and_who_exceeds_the_papers_bound():
    rows = {one["name"]: one for one in released({"models": MODELS}) if one["kind"] == "share"}
    assert {name for name, one in rows.items() if one["value"] > 0.05} == {"Mixtral-8x7B-v0.1", "Yi-6B-200K"}
    assert (rows["Yi-6B-200K"]["low"], rows["Yi-6B-200K"]["high"]) == wilson(53, 1024)


def test_the_score_of_a_toy_by_hand():
    """A head that attends to the next token in the first copy, one to the token itself, one to every other token."""
    task = RepeatedSegment()
    batch = drawn(task, 16)
    first, second = batch.draw["starts"].unbind(1)
    places = torch.arange(task.length)
    earlier = (places - (second - first)[:, None]).clamp(0)
    assert score(earlier + 1, batch).tolist() == [1.0] * 16
    assert float(score(earlier, batch).max()) < 0.5  # it hits where the segment has a token twice running
    assert score(places.expand(16, -1), batch).tolist() == [0.0] * 16
    seldom = torch.where(places % 2 == 1, earlier + 1, places)
    asked = task.copied(batch.draw)
    assert score(seldom, batch).tolist() == pytest.approx((asked[:, 1::2].sum(1) / asked.sum(1)).tolist())


def test_the_figure_shows_heads_shares_and_costs():
    shown = figure(table())
    titles = [ax.get_title("left") for ax in shown.axes]
    assert "Share of heads with a score ≥ 0.1 (95 %)" in titles and "Always on, and by context" in titles
    shares = next(ax for ax in shown.axes if ax.get_title("left").startswith("Share"))
    labels = [text.get_text() for text in shares.get_yticklabels()]
    assert labels == [*(one["model"] for one in MODELS), "m, forced, seed 0", "m, forced, seed 1",
                      "m, free, seed 0", "m, free, seed 1"]  # fmt: skip
