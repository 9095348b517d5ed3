"""Tests of the census: its grid, and each claim on tables for which it holds or fails."""

from __future__ import annotations

from collections import Counter

import pytest
from pandas import DataFrame

from hopscope.drawing.style import rendered
from hopscope.experiments.results import claim_ids
from hopscope_studies.census import cells, figure
from hopscope_studies.census.claims import claims
from hopscope_studies.census.entropy import Explained
from hopscope_studies.census.experiments import census

FOLLOWED = "L0H0 value[1]->key[1]; L0H0 value[2]->key[2]; L1H0 query->value[1]; L2H0 query->value[2]"
AHEAD = "L0H0 value[1]->key[1]; L0H0 value[2]->key[2]; L1H0 value[1]->value[2]; L2H0 query->value[1]"


def model(seed, wiring, **columns):
    about = {"seed": seed, "prior": "none", "D": 2, "layers": 3, "order": "shuffled", "rate": 1e-3, "weights": "fan_in"}
    found = {"trained": 600, "verdict": "circuit", "name": "either, by the query", "heads": 4, "fewest": 3}
    row = {"version": "v", **about, **found, "wiring": wiring, **columns}
    return row | {"run": str(sorted((key, str(value)) for key, value in row.items()))}


def judged(*rows):
    return {claim.id: (claim.verdict, claim.number) for claim in claims(DataFrame(rows))}


def test_the_claims_are_those_that_are_declared():
    assert list(judged(model(0, FOLLOWED), model(1, AHEAD, trained=0, verdict="none"))) == claim_ids("census")


def test_of_solved_models_nine_in_ten_pass_by_hand():
    nine = [model(seed, FOLLOWED) for seed in range(9)]
    lost, unsolved = model(9, "", verdict="partial"), model(10, "", verdict="unsolved")
    assert judged(*nine, lost, unsolved)["paths_suffice_by_hand"] == ("holds", 0.9)
    assert judged(*nine, lost, model(11, "", verdict="none"))["paths_suffice_by_hand"][0] == "fails"


def test_by_hand_alone_is_no_circuit_by_our_verdict():
    nine = [model(seed, FOLLOWED) for seed in range(9)]
    by_hand = [model(seed, FOLLOWED, verdict="partial") for seed in (9, 10)]
    assert judged(*nine, by_hand[0])["circuits_pass_live"] == ("holds", 0.9)
    assert judged(*nine, *by_hand)["circuits_pass_live"] == ("fails", pytest.approx(9 / 11))
    assert judged(*nine, *by_hand)["paths_suffice_by_hand"] == ("holds", 1)


def test_a_circuit_of_an_untrained_model_is_counted_against_the_search():
    control = model(1, "", trained=0, verdict="none")
    assert judged(model(0, FOLLOWED), control)["untrained_models_have_none"] == ("holds", 0)
    flattered = model(1, FOLLOWED, trained=0)
    found = judged(model(0, FOLLOWED), flattered)
    assert found["untrained_models_have_none"] == ("fails", 1)
    assert found["paths_suffice_by_hand"] == ("holds", 1)  # of the trained one alone


def test_seeds_are_compared_within_their_settings():
    """Two of three pairs agree; models with other settings are not compared."""
    same = [model(0, FOLLOWED), model(1, FOLLOWED), model(0, AHEAD, layers=4), model(1, AHEAD, layers=4)]
    apart = [model(0, FOLLOWED, layers=5), model(1, AHEAD, layers=5), model(0, AHEAD, D=3)]
    assert judged(*same, *apart)["seeds_agree"] == ("holds", pytest.approx(2 / 3))
    assert judged(*apart)["seeds_agree"] == ("fails", 0)


def test_heads_to_spare_are_counted():
    lean = model(1, FOLLOWED, heads=3)
    assert judged(model(0, FOLLOWED), lean)["heads_to_spare"] == ("fails", 0.5)
    assert judged(model(0, FOLLOWED), model(2, FOLLOWED), lean)["heads_to_spare"][0] == "holds"


def test_a_class_that_follows_the_order_alone_is_decided_by_it_alone():
    rows = [
        model(seed, FOLLOWED if order == "shuffled" else AHEAD, order=order, rate=rate, layers=layers, weights=weights)
        for order in ("shuffled", "nearest_first")
        for rate in (1e-3, 2e-3)
        for layers in (3, 4)
        for weights in ("fan_in", "early_layers")
        for seed in range(2)
    ]
    found = judged(*rows)
    assert found["order_decides"] == ("holds", pytest.approx(1))
    assert {found[f"{name}_decides"][0] for name in ("layers", "rate", "weights")} == {"undecided"}


def test_the_grid_is_balanced_and_its_controls_are_not_trained():
    configs = census.runs("cpu")
    grown, control = [], []
    for config in configs:
        (grown if config.training.steps else control).append(config)
    two = [c for c in grown if c.task.n_hops == 2]
    assert len(control) == cells.UNTRAINED["cpu"]
    assert set(Counter(c.task.order for c in two).values()) == {len(two) // 3}
    assert set(Counter(c.model.n_layers for c in two).values()) == {len(two) // 3}
    assert set(Counter(c.training.lr for c in two).values()) == {len(two) // 2}
    assert len([c for c in cells.cells("long") if c.training.steps]) >= 200


def test_words_stand_by_their_bars_however_short_these_are(monkeypatch):
    """Text at a distance in data units would be far outside the picture if all shares are rounding errors."""
    monkeypatch.setattr(figure, "explained_by", lambda factor, _: Explained(4e-15, 1, 1) if factor == "rate" else None)
    drawn = figure.figure(DataFrame([model(0, FOLLOWED), model(1, AHEAD)]))
    assert rendered(drawn, "png")
    [ax] = [ax for ax in drawn.axes if ax.get_title(loc="left").startswith("What decides")]
    [words] = ax.texts
    assert ax.bbox.x0 < words.get_window_extent().x0 < ax.bbox.x1
