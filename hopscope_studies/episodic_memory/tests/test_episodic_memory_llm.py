"""Tests of `episodic_memory_llm`: planted curves, a hand-set model, made-up tables, and the committed toy models."""

from __future__ import annotations

import io
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="transformers is not installed; run make language")

import torch

from hopscope.core.settings import BadInput
from hopscope.experiments.results import room, table_in
from hopscope.language.lens.scores import LAGS, LagCurves
from hopscope_studies.episodic_memory.cells import Simulations
from hopscope_studies.episodic_memory.context_maintenance import Memory, in_closed_form
from hopscope_studies.episodic_memory.experiments import episodic_memory_llm
from hopscope_studies.episodic_memory.language import lists
from hopscope_studies.episodic_memory.language.figure import figure
from hopscope_studies.episodic_memory.language.heads import (
    CHAINING,
    FAR,
    SHUFFLES,
    Curves,
    Fits,
    capped,
    chosen_heads,
    fitter_of,
    nearer,
)
from hopscope_studies.episodic_memory.language.measured import Recall, ToyRecall, toy
from hopscope_studies.episodic_memory.tests.made_up import ROWS, TOY, answers, heads, ranks, shares, silenced

FEW = Simulations(every=6, n_runs=50)  # γ = 0 alone

# Curves


def test_lags_are_counted_from_the_places_that_are_given():
    """Lags equal those of plain loops: three tokens twice, counted from positions 2, 0, 1 of the first copy."""
    pattern = torch.rand(2, 1, 7, 7, generator=torch.Generator().manual_seed(0)).tril()
    for order in (None, torch.tensor([2, 0, 1])):
        seen = LagCurves(3, order)
        seen.pattern(0, pattern)
        for at, lag in enumerate(LAGS):
            places = [(4 + i, 1 + place + lag) for i, place in enumerate([0, 1, 2] if order is None else [2, 0, 1])]
            found = [float(pattern[b, 0, q, k]) for b in range(2) for q, k in places if 1 <= k < q]
            if found:
                assert float(seen.curves[0][0, at]) == pytest.approx(sum(found) / len(found))


def planted(n: int = 4) -> Curves:
    """Curves of four heads: at lag +1, at lag 0, even, and with a context that drifts by half."""
    curve = torch.zeros(4, len(LAGS), dtype=torch.float64)
    curve[0, LAGS.index(1)] = curve[1, LAGS.index(0)] = 0.5
    curve[2] = 0.01
    curve[3] = 0.6 * torch.tensor(in_closed_form(0.5))
    own = curve.expand(n, 1, -1, -1)
    return Curves(own, own.flip(-1), torch.zeros(1, 4))


def test_planted_heads_are_fitted_as_they_were_made():
    curves, fitter = planted(), fitter_of(FEW)
    fits = Fits.of(curves, fitter, seed=0)
    forward, itself, even, drifting = (fits.judged[0, head] for head in range(4))
    assert (forward.memory, forward.distance, forward.like_recall) == (CHAINING, 0, True)
    assert itself.near and not itself.like_recall  # it does not recall
    assert capped(even.distance) == FAR
    assert drifting.memory == Memory(0.5, 1.0, 0.0) and drifting.distance < 1e-9
    assert [one.like_recall for one in fits.unrelated.values()] == [False] * 4  # they lean backward
    assert all(len(some) == SHUFFLES for some in fits.shuffled.values())
    found = fits.near("like_recall")
    assert found[:, 0].tolist() == [1, 0, 0, 1] and found[:, 2].tolist() == [0] * 4
    assert float(found[3, 1]) <= 0.2  # its lags shuffled
    assert chosen_heads(curves, fits) == {"matching": [(0, 0)], "recall": [(0, 0)]}


def test_drift_is_told_from_chaining():
    own, fitter = planted().own, fitter_of(FEW)
    drifting = nearer(own[:, 0, 3], fitter, Memory(0.5, 1.0, 0.0))
    assert drifting["low"] > 0.1
    assert nearer(own[:, 0, 0], fitter, CHAINING) == {"mean": 0, "low": 0, "high": 0}
    assert nearer(own[:, 0, 0], fitter, Memory(0.5, 1.0, 0.0))["high"] < -0.1


# The model by hand


@pytest.fixture(scope="module")
def by_hand() -> DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "DRAWS", 3)
        return DataFrame(Recall("by_hand", count=4, lists=4).report(FEW)["rows"])


def value(rows: DataFrame, kind: str, name: str, column: str = "value") -> float:
    (found,) = rows[(rows.kind == kind) & (rows.name == name)][column]
    return float(found)


def test_the_head_made_by_hand_recalls_by_chaining(by_hand):
    assert value(by_hand, "distance", "L1H0", "high") < 1e-6
    assert [value(by_hand, kind, "L1H0") for kind in ("encoding", "recall", "studied")] == [1, 1, 0]
    assert value(by_hand, "matching", "L1H0") == pytest.approx(1, abs=0.02)
    assert by_hand[by_hand.kind == "like recall"].value.tolist() == [0, 0, 1, 0]
    assert by_hand[by_hand.kind == "chosen"].other.tolist() == ["L1H0", "L1H0"]


def test_its_answers_go_forward_and_only_by_that_head(by_hand):
    assert value(by_hand, "following", "whole") > 14  # of 16
    assert value(by_hand, "left: contiguity", "matching") == pytest.approx(0, abs=1e-6)
    assert value(by_hand, "left: following", "same layers matching 0") == pytest.approx(1)
    assert value(by_hand, "beyond the worst same layers: following", "matching", "low") == pytest.approx(1)


def test_made_up_rows_are_of_the_kinds_of_real_ones(by_hand):
    made_up = DataFrame(ROWS)
    assert set(made_up.kind) == set(by_hand.kind)
    assert set(made_up.columns) == set(by_hand.columns)


# The toys


def test_the_toys_numbers_are_those_of_their_page():
    rows = DataFrame(toy(table_in(room("episodic_memory") / "episodic_memory"))["rows"])
    distances = rows[rows.kind == "distance"].value
    assert len(distances) == 26 and 0.0005 < distances.min() < distances.max() < 0.005
    assert set(rows[rows.kind == "encoding"].value) == {1.0}
    assert len(rows[rows.kind == "contiguity"]) == 13
    assert rows[rows.kind.str.startswith("left")].value.median() == pytest.approx(0, abs=0.001)


def test_missing_toys_are_asked_for(tmp_path):
    with pytest.raises(BadInput, match="run `hopscope reproduce episodic_memory --scale cpu` first"):
        ToyRecall(str(tmp_path)).report()


# Claims


def table(
    rows: list[dict[str, Any]] = ROWS,
    hand: list[dict[str, Any]] | None = None,
    idle: list[dict[str, Any]] | None = None,
    toys: list[dict[str, Any]] = TOY,
) -> DataFrame:
    """Rows of two seeds, controls and toy models, as read from table.csv."""
    found = []
    for run, seed, part, some in (
        ("a", 0, "language", rows),
        ("b", 1, "language", ROWS),
        ("c", 0, "by hand", hand or [*heads(0.001), *shares(), *silenced()]),
        ("d", 0, "untrained", idle or [*heads(), *shares(0.02, 0.01), *answers(1.0, 0.0)]),
        ("e", 0, "toy", toys),
    ):
        about = {"run": run, "version": "v", "seed": seed, "model": "m", "part": part, "other": "", "step": None}
        found += [{**about, **one} for one in some]
    return pandas.read_csv(io.StringIO(DataFrame(found).to_csv(index=False)))


def verdicts(**tables: Any) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in episodic_memory_llm.claims(table(**tables))}


def test_all_hold_where_one_head_recalls():
    found = verdicts()
    assert list(found) == claim_ids("episodic_memory_llm")
    assert {id for id, verdict in found.items() if verdict != "holds"} == set()


def test_each_fails_where_nothing_of_the_kind_is_so():
    """Distances are large, controls equally high, correlations zero, answers even, and random heads as important."""
    none = [*heads(1.0, 0.0, -0.1, -0.05), *shares(0.03, 0.03, 0.2), *ranks(0.0, 0.5), *answers(1.0, 0.0)]
    none += silenced(0.9, 0.9)
    none = [one | ({"low": -0.1} if one["kind"] == "asymmetry" else {}) for one in none]
    none = [one | ({"value": 0.5} if one["kind"] == "chance" else {}) for one in none]
    bad = [*heads(1.0, 0.0), *shares(0.5), *answers(9.0), *silenced()]
    far = [one | ({"value": 3.0} if one["kind"] == "distance" else {}) for one in TOY]
    found = verdicts(rows=none, hand=bad, idle=bad, toys=far)
    # Half of the heads are enough where one seed has them all.
    assert {id for id, verdict in found.items() if verdict != "fails"} == {
        "drift_fits_better_than_chaining",
        "attention_falls_off",
    }


def test_the_figure_shows_curves_floors_and_what_is_needed():
    titles = [ax.get_title("left") for ax in figure(table()).axes]
    assert titles == [
        "Highest matching scores",
        "Every head (dashed: CMR-like below)",
        "How many, and how many by chance",
        "Answers on lists (dashed: even recall)",
    ]
