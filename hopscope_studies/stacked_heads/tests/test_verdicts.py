"""Tests of claims on hand-made tables: each holds, fails or is undecided as it should be."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pandas
import pytest
from pandas import DataFrame

from hopscope.configuration.presets import recipe
from hopscope.experiments import circuit_tables
from hopscope.experiments.priors import prior_of
from hopscope.experiments.variants import packaged_seeds, variants
from hopscope.problem import paths
from hopscope_studies.stacked_heads.circuit_shapes import first_look_ups, hop_by_hop, merged_heads, spare_heads
from hopscope_studies.stacked_heads.experiments import (
    appendix_c,
    appendix_d,
    chains,
    conditional,
    depth_width,
    emergent_ability,
    fig4,
    fig5,
    fig6,
    fig7,
    pair_order,
    reuse,
)
from hopscope_studies.stacked_heads.one_setting import grows_with, somebody_solves
from tests.small_runs import trained

NAN = float("nan")


def judged(source, table: DataFrame):
    """Verdict and number by claim."""
    return {claim.id: (claim.verdict, claim.number) for claim in source.claims(table)}


def ending(run: str, k: int, loss: float, learnt: float = 100.0, seed: int = 0, **columns) -> dict:
    about = {"run": run, "version": "v", "seed": seed, "hop": f"x{k}", "k": k, "steps": 1000}
    return {**about, "loss": loss, "learnt": learnt, "solved": loss < 0.05, **columns}


def settings(learnt: list[float]) -> DataFrame:
    """Rows for settings 1, 2, 3, … with two seeds each, learnt at these steps."""
    return DataFrame(
        [
            ending(f"{value}.{seed}", 1, 0.01, step, seed, size=value)
            for value, step in enumerate(learnt, 1)
            for seed in range(2)
        ]
    )


def test_a_setting_that_delays_is_told_from_one_that_hastens():
    """In eight runs every pair of settings that is not tied agrees with the trend, so τ-b = 1."""
    slower = settings([100, 200, 300, 400])
    claim = grows_with(slower, "size", "later", "Larger is later.")
    assert (claim.verdict, claim.number, claim.n) == ("holds", pytest.approx(1.0), 8)
    assert grows_with(slower, "size", "sooner", "Larger is sooner.", -1).verdict == "fails"
    assert grows_with(settings([100, 400, 400, 100]), "size", "later", "Larger is later.").verdict == "undecided"
    assert grows_with(settings([NAN, NAN, NAN, NAN]), "size", "later", "Larger is later.").verdict == "undecided"
    assert grows_with(settings([100, 200, 300, NAN]), "size", "later", "Larger is later.").number == pytest.approx(1.0)


def test_a_setting_is_judged_within_seeds():
    """With one seed per value, shuffles within seeds change nothing, so seeds may explain the trend."""
    slower = settings([100, 200, 300, 400])
    apart = slower.assign(seed=range(len(slower)))
    assert grows_with(apart, "size", "later", "Larger is later.").verdict == "undecided"


def test_every_setting_needs_a_seed_that_solves():
    table = settings([100, 100])
    assert somebody_solves(table, "size", "All do.").verdict == "holds"
    worse = table.assign(solved=[True, False, False, False])
    claim = somebody_solves(worse, "size", "All do.")
    assert (claim.verdict, claim.number, claim.spread) == ("fails", 0.0, (0.0, 0.5))


def test_pair_order():
    rows = [ending(f"n{s}", k, 0.02, 90, s, order="nearest_first", layers=4) for s in (0, 1) for k in (1, 2)]
    rows += [ending("d", k, 0.75, NAN, order="deepest_first", layers=4) for k in (1, 2)]
    found = judged(pair_order, DataFrame(rows))
    assert found == {"nearest_first_is_learnt": ("holds", 1.0), "deepest_first_waits": ("holds", 0.75)}
    rows[-1]["loss"] = 0.3
    assert judged(pair_order, DataFrame(rows))["deepest_first_waits"] == ("fails", 0.3)


def test_depth_and_width():
    shape = {"layers": 2, "d_model": 180, "shape": "2 × 180", "parameters": 100}
    rows = [ending("wide", 1, 0.01, 50, least=2, **shape), ending("wide", 2, 0.8, NAN, least=3, **shape)]
    for layers in (3, 4, 6, 8):
        shape = {"layers": layers, "d_model": 9, "shape": f"{layers}", "parameters": 110}
        rows += [
            ending(f"{layers}.{s}", k, 0.01, 900 / layers, s, least=k + 1, **shape) for s in (0, 1) for k in (1, 2)
        ]
    found = judged(depth_width, DataFrame(rows))
    assert found["width_is_no_depth"] == ("holds", 0.8)
    assert found["every_setting_can"] == ("holds", 1.0)
    assert found["sooner_if_deeper"] == ("holds", pytest.approx(-1.0))
    rows[1]["loss"] = 0.4
    assert judged(depth_width, DataFrame(rows))["width_is_no_depth"] == ("fails", 0.4)


def test_the_step_of_a_continuous_loss():
    """x1 falls at 2 layers, from 0.9 by 0.85; x2 at 3 layers, from 0.9 by 0.8; at 2 layers x2 falls by only 0.02."""
    losses = {1: (0.9, 0.05, 0.05, 0.0), 2: (0.9, 0.88, 0.1, 0.1)}
    rows = [
        ending(f"{layers}", k, loss, layers=layers, least=k + 1)
        for k, curve in losses.items()
        for layers, loss in enumerate(curve, 1)
    ]
    found = judged(emergent_ability, DataFrame(rows))
    assert found["loss_steps_at_minimum_depth"] == ("holds", pytest.approx(0.85 / 0.9))
    assert found["nothing_gradual_before"] == ("holds", pytest.approx(0.02))
    worse = {1: (0.9, 0.05, 0.0, 0.0), 2: (0.9, 0.93, 0.05, 0.0)}
    for row in rows:
        row["loss"] = worse[row["k"]][row["layers"] - 1]
    assert judged(emergent_ability, DataFrame(rows))["nothing_gradual_before"] == ("holds", pytest.approx(-0.03))
    gradual = {1: (0.9, 0.05, 0.05, 0.0), 2: (0.9, 0.5, 0.2, 0.1)}
    for row in rows:
        row["loss"] = gradual[row["k"]][row["layers"] - 1]
    found = judged(emergent_ability, DataFrame(rows))
    assert found["loss_steps_at_minimum_depth"] == ("fails", pytest.approx(0.3 / 0.8))
    assert found["nothing_gradual_before"] == ("fails", pytest.approx(0.4))


def serving(path: str, serves: str, costs: tuple[float, ...], then: tuple[float, ...], run: str = "a") -> list[dict]:
    """Rows of a circuit's path: the cost of silencing it for each hop, and its attention when that hop was learnt."""
    about = {"run": run, "version": "v", "seed": 0, "in_circuit": True, "last_learnt": True, "now": 0.95}
    hops = [f"x{k}" for k in range(1, len(costs) + 1)]
    rows = zip(hops, costs, then, strict=True)
    return [{**about, "path": path, "serves": serves, "hop": hop, "cost": cost, "then": at} for hop, cost, at in rows]


def test_reuse():
    """Silencing the path of x1 costs x2 0.6 and x3 0.5, that of x2 costs x3 0.4; a weaker path of x1 does not count.

    The path of x1 has attention 0.2 when x1 is learnt, but 0.9 when x2 is, near its final value. The path of the layer
    that joins facts serves every hop and does not count either.
    """
    first, one, two = "L0H0 value[1]->key[1]", "L1H0 query->value[1]", "L2H0 query->value[2]"
    rows = serving(one, "x1", (0.8, 0.6, 0.5), (0.2, 0.9, 0.95)) + serving(two, "x2", (0, 0.7, 0.4), (0.1, 0.3, 0.8))
    rows += serving("L5H0 query->value[1]", "x1", (0.3, 0.0, 0.0), (0.1, 0.1, 0.1))
    rows += serving("L3H0 query->value[3]", "x3", (0, 0, 0.9), (0, 0, 0.5))
    rows += serving(first, "x1", (0.9, 0.0, 0.0), (0.1, 0.1, 0.1))
    found = judged(reuse, DataFrame(rows))
    assert found["later_hops_reuse"] == ("holds", 0.4)
    assert found["adjustments_are_slight"] == ("holds", pytest.approx(0.15))
    whole = serving(first, "x1", (0.9, 0.9, 0.9), (0.9, 0.9, 0.9))
    alone = serving(one, "x1", (0.8, 0.6, 0.01), (0.2, 0.9, 0.95)) + whole
    assert judged(reuse, DataFrame(alone))["later_hops_reuse"] == ("fails", 0.01)
    grown = serving(one, "x1", (0.8, 0.6, 0.5), (0.1, 0.4, 0.95)) + whole
    assert judged(reuse, DataFrame(grown))["adjustments_are_slight"] == ("fails", pytest.approx(0.55))
    assert {verdict for verdict, _ in judged(reuse, DataFrame(whole)).values()} == {"undecided"}
    unlearnt = judged(reuse, DataFrame(rows).assign(last_learnt=False))
    assert {verdict for verdict, _ in unlearnt.values()} == {"undecided"}


def test_maps_and_circuits():
    about = {"run": "a", "version": "v", "seed": 0, "layers": 2, "heads": 1, "kind": "path", "verdict": "circuit"}
    rows = [
        {**about, "layer": 0, "head": 0, "path": "p", "attention": 0.9, "in_circuit": True},
        {**about, "layer": 1, "head": 0, "path": "q", "attention": 0.3, "in_circuit": False},
    ]
    found = judged(appendix_c, DataFrame(rows))
    assert found == {"circuits_are_seen": ("holds", 0.9), "what_is_seen_is_used": ("holds", 0)}
    rows[0]["attention"], rows[1]["attention"] = 0.4, 0.8
    found = judged(appendix_c, DataFrame(rows))
    assert found == {"circuits_are_seen": ("fails", 0.4), "what_is_seen_is_used": ("fails", 1)}


def test_paths_over_training():
    about = {"run": "a", "version": "v", "seed": 0, "hop": "x1", "in_circuit": True}
    steady = [{**about, "path": "p", "step": i, "strength": s} for i, s in enumerate((0.1, 0.4, 0.8, 0.9))]
    assert judged(appendix_d, DataFrame(steady)) == {"paths_end_strong": ("holds", 0.9), "paths_stay": ("holds", 0)}
    shaky = [{**about, "path": "q", "step": i, "strength": s} for i, s in enumerate((0.1, 0.6, 0.4, 0.55))]
    found = judged(appendix_d, DataFrame(steady + shaky))
    assert found == {"paths_end_strong": ("holds", 0.55), "paths_stay": ("fails", 1)}
    lost = [{**about, "path": "r", "step": i, "strength": s} for i, s in enumerate((0.1, 0.9, 0.2, 0.1))]
    assert judged(appendix_d, DataFrame(steady + lost))["paths_stay"] == ("fails", 1)
    weak = DataFrame(steady).assign(strength=0.3)
    assert judged(appendix_d, weak)["paths_stay"][0] == "undecided"  # none emerged, so none can stay
    foreign = DataFrame(steady).assign(in_circuit=False)
    assert {verdict for verdict, _ in judged(appendix_d, foreign).values()} == {"undecided"}


@pytest.mark.parametrize(
    ("verdict", "high", "counts"),
    [("circuit", 0.04, True), ("partial", 0.04, True), ("partial", 0.06, False), ("none", 0.04, False)],
)
def test_a_path_is_in_a_circuit_only_if_all_patterns_by_hand_do(verdict, high, counts, tmp_path: Path, monkeypatch):
    """Its attention is tabulated in any case, but it counts as part of a circuit only if the circuit passes by hand."""
    path = paths.Path(0, 0, "value[1]", "key[1]")
    losses = {"circuit": SimpleNamespace(high=high)}
    circuit = SimpleNamespace(verdict=verdict, threshold=0.05, losses=losses, paths=[SimpleNamespace(path=path)])
    monkeypatch.setattr(circuit_tables, "circuit_of", lambda run, scale: circuit)
    run = trained(tmp_path / "run")
    for experiment in (appendix_d, reuse):
        table = experiment.table([run], "quick")
        assert set(table.path) == {str(path)}
        assert set(table.in_circuit) == {counts}


def losses(run: str, hop: str, values: list[float], every: int = 10, **more) -> list[dict]:
    about = {"run": run, "version": "v", "seed": 0, "hop": hop, **more}
    return [{**about, "step": every * i, "hop_loss": x, "val_loss": x, "train_loss": x} for i, x in enumerate(values)]


def test_an_abrupt_fall():
    """A loss that falls from 1 to 0 passes 0.7 at step 53 and 0.1 at 59: a fall of 6 steps after a wait of 53."""
    abrupt = losses("a", "x1", [1, 1, 1, 1, 1, 1, 0, 0, 0])
    found = judged(fig6, DataFrame(abrupt))
    assert found["first_hop_abrupt"] == ("holds", pytest.approx(6 / 53))
    assert found["first_hop_waits"] == ("holds", pytest.approx(53 / 80))
    assert found["solved"] == found["every_hop_solved"] == ("holds", 0)
    gradual = losses("a", "x1", [1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
    assert judged(fig6, DataFrame(gradual))["first_hop_abrupt"][0] == "fails"
    assert judged(fig6, DataFrame(gradual))["first_hop_waits"] == ("fails", pytest.approx(15 / 50))
    never = judged(fig6, DataFrame(losses("a", "x1", [1.0, 1.0, 0.9])))
    assert never["first_hop_abrupt"] == ("undecided", pytest.approx(NAN, nan_ok=True))
    assert never["first_hop_waits"] == ("holds", float("inf"))
    assert never["solved"] == never["every_hop_solved"] == ("fails", 0.9)
    assert never["hops_in_order"][0] == never["last_hop_late"][0] == "undecided"


def test_hops_fall_in_order_and_the_last_of_three_waits_longest():
    """Losses pass 0.5 at steps 5, 15 and 65: 10 steps from the first hop to the second, 50 to the last."""
    falls = {"x1": 1, "x2": 2, "x3": 7}
    rows = [row for hop, at in falls.items() for row in losses("a", hop, [1.0] * at + [0.0] * (9 - at))]
    found = judged(fig6, DataFrame(rows))
    assert found["hops_in_order"] == ("holds", pytest.approx(10)) and found["last_hop_late"] == ("holds", 5)
    backwards = [{**row, "hop": {"x1": "x2", "x2": "x1"}.get(row["hop"], "x3")} for row in rows]
    assert judged(fig6, DataFrame(backwards))["hops_in_order"] == ("fails", pytest.approx(-10))


def depths(D: int, curriculum: str, loss: float, seed: int = 0) -> list[dict]:
    """Rows of a run of four layers that asks all hops, or the last alone; all asked hops end at the given loss."""
    hops = range(1, D + 1) if curriculum == "implicit" else (D,)
    about = {"layers": 4, "D": D, "curriculum": curriculum, "order": "nearest_first", "heads": 1}
    return [ending(f"{curriculum} {D} {seed}", k, loss, 90, seed, least=k + 1, **about) for k in hops]


def test_without_curriculum_nothing_is_learnt_that_can_be_learnt_with_it():
    """D = 3 ends above 0.7, too, but no run with curriculum shows that it can be learnt, so it is not judged."""
    taught, alone, longer = depths(2, "implicit", 0.02), depths(2, "none", 0.75), depths(3, "none", 0.72)
    claim = next(c for c in fig4.claims(DataFrame(taught + alone + longer)) if c.id == "no_curriculum_fails")
    assert (claim.verdict, claim.number, claim.n) == ("holds", 0.75, 1)
    twice = depths(2, "implicit", 0.02) + alone + [row | {"run": "long", "steps": 10_000} for row in alone]
    claim = next(c for c in fig4.claims(DataFrame(twice)) if c.id == "no_curriculum_fails")
    assert (claim.verdict, claim.n) == ("holds", 2)
    deeper = DataFrame(alone).assign(layers=6)
    assert judged(fig4, pandas.concat([DataFrame(taught), deeper]))["no_curriculum_fails"] == ("undecided", 0.75)
    assert judged(fig4, DataFrame(taught + longer))["no_curriculum_fails"] == ("undecided", 0.72)
    assert judged(fig4, DataFrame(taught + depths(2, "none", 0.6)))["no_curriculum_fails"] == ("fails", 0.6)


def circuit(seed: int, *paths: tuple[str, float], **more: float) -> list[dict]:
    """Rows of a circuit in six layers; each path has the loss without it, with all patterns set by hand."""
    about = {"run": f"r{seed}", "version": "v", "seed": seed, "D": 2, "order": "nearest_first", "layers": 6}
    about |= {"heads_in_model": 6, "mse": 0.01, "threshold": 0.05, "n": 512, "verdict": "circuit", "by_hand": 0.02}
    about |= {"live": 0.02, "null": 1.0, "heads": 3, "fewest": 3, "strength": 0.9, "removal_loss": 0.9}
    about |= {"worst": 0.03, "first_uniform": 0.08, **more}
    return [about | {"path": path, "removal_by_hand": loss} for path, loss in paths]


def test_paths_left_out_by_hand():
    """The lowest layer in use is judged as a whole, in whichever layer it is, and later layers path by path."""
    first = ("L1H0 value[1]->key[1]", 0.5), ("L1H0 value[2]->key[2]", 0.06)
    later = ("L3H0 query->value[1]", 0.6), ("L4H0 query->value[2]", 0.2)
    found = judged(fig5, DataFrame(circuit(0, *first, *later)))
    assert found["every_path_is_needed"] == ("holds", 0.2)
    assert found["first_layer_costs_little"] == ("holds", 0.08)
    idle = circuit(1, ("L0H0 value[1]->key[1]", 0.5), ("L2H0 query->value[1]", 0.03), later[1], first_uniform=0.7)
    found = judged(fig5, DataFrame(circuit(0, *first, *later) + idle))
    assert found["every_path_is_needed"] == ("fails", 0.03)
    assert found["first_layer_costs_little"] == ("fails", 0.7)


def test_how_a_circuit_of_the_paper_is_counted():
    """Four heads where three would do, two that could be merged, and hops that follow one after the other."""
    paths = ("L0H0 value[1]->key[1]", "L1H0 value[2]->key[2]", "L2H0 query->value[1]", "L4H0 query->value[2]")
    found = judged(fig5, DataFrame(circuit(0, *((path, 0.5) for path in paths), heads=4)))
    assert found["four_heads"] == ("holds", 4)
    assert found["more_heads_than_needed"] == ("holds", 1)
    assert found["two_heads_combine"] == ("holds", 3)  # those of layers 0 and 1 into each other, that of 2 into 1
    assert found["one_hop_after_the_other"] == ("holds", 1)
    assert found["every_hop_solved"] == ("holds", 0.03)
    least = ("L0H0 value[1]->key[1]", "L0H0 value[2]->key[2]", "L2H0 query->value[1]", "L4H0 query->value[2]")
    found = judged(fig5, DataFrame(circuit(0, *((path, 0.5) for path in least), worst=0.06)))
    verdicts = {name: found[name][0] for name in ("four_heads", "more_heads_than_needed", "two_heads_combine")}
    assert set(verdicts.values()) == {"fails"}
    assert found["two_heads_combine"] == ("fails", 0)
    assert found["every_hop_solved"] == ("fails", 0.06)


def test_one_hop_after_the_other():
    pairs = "L0H0 value[1]->key[1]; L0H0 value[2]->key[2]"
    assert hop_by_hop(f"{pairs}; L1H0 query->value[1]; L2H0 query->value[2]", 2)
    assert not hop_by_hop(f"{pairs}; L1H0 query->value[1]; L1H0 value[1]->value[2]; L2H0 query->value[1]", 2)
    assert not hop_by_hop(f"{pairs}; L2H0 query->value[1]; L1H0 query->value[2]", 2)
    assert not hop_by_hop(f"{pairs}; L1H0 value[1]->value[2]; L2H0 query->value[1]; L3H0 query->value[2]", 2)
    twice = f"{pairs}; L3H0 query->value[1]; L1H0 query->value[1]; L2H0 query->value[2]"
    assert hop_by_hop(twice, 2) and first_look_ups(twice, 3) == [1, 2, float("inf")]


def onset_row(seed: int, kind: str, event: str, status: str, step: float | None) -> dict:
    onset = {"status": status, "step": step, "low": None, "high": None, "after": None, "by": None, "falls": 0}
    about = {"run": f"r{seed}", "seed": seed, "kind": kind, "event": event, "onset": json.dumps(onset)}
    about |= {"path": f"L0H0 {event}", "in_circuit": kind == "path"}
    return about | {"model": 0.01, "circuit": 0.02, "verdict": "circuit"}


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (("seen", 80.0), ("seen", 120.0), "holds"),
        (("seen", 120.0), ("seen", 80.0), "fails"),
        (("never", None), ("seen", 80.0), "fails"),
        (("already", None), ("seen", 80.0), "holds"),
        (("seen", 80.0), ("never", None), "undecided"),
    ],
)
def test_what_comes_never_comes_last(first, second, verdict):
    """A path or hop that never emerged counts as later than all others."""
    names = (("path", "query->value[1]", "query->value[2]"), ("hop", "x1", "x2"))
    rows = [
        onset_row(0, kind, event, *when)
        for kind, *events in names
        for event, when in zip(events, (first, second), strict=True)
    ]
    found = judged(fig7, DataFrame(rows))
    assert (found["induction_head_first"][0], found["hops_in_order"][0]) == (verdict, verdict)


@pytest.mark.parametrize(
    ("path", "hop", "verdict"),
    [
        (("seen", 80.0), ("seen", 90.0), ("holds", 10)),
        (("seen", 80.0), ("seen", 95.0), ("fails", 15)),
        (("seen", 80.0), ("never", None), ("fails", float("inf"))),
        (("never", None), ("seen", 90.0), ("fails", float("inf"))),
        (("never", None), ("never", None), ("undecided", pytest.approx(NAN, nan_ok=True))),
    ],
)
def test_a_path_and_its_hop_come_together_or_not_at_all(path, hop, verdict):
    rows = [onset_row(0, "path", "query->value[1]", *path), onset_row(0, "hop", "x1", *hop)]
    assert judged(fig7, DataFrame(rows))["paths_drive_losses"] == verdict


def test_paths_that_connect_the_same_positions():
    """The second of two circuits has two paths from the query to value[1], in different layers."""
    rows = [onset_row(seed, "path", "query->value[1]", "seen", 80.0) for seed in (0, 1)]
    rows += [onset_row(seed, "hop", "x1", "seen", 80.0) for seed in (0, 1)]
    assert judged(fig7, DataFrame(rows))["several_paths_for_one_step"] == ("fails", 1)
    again = onset_row(1, "path", "query->value[1] #2", "seen", 90.0) | {"path": "L2H0 query->value[1]"}
    assert judged(fig7, DataFrame([*rows, again]))["several_paths_for_one_step"] == ("holds", 2)
    assert judged(fig7, DataFrame(rows).assign(in_circuit=False))["several_paths_for_one_step"][0] == "undecided"


def conditionals(run: str, prior: str, z: list[float]) -> DataFrame:
    """Rows of a run at N = 2, where a hop is learnt below 1/3; x and y are learnt by step 100."""
    curves = (("x", [1, 0, 0, 0]), ("y", [1, 0, 0, 0]), ("z", z))
    rows = [row for hop, values in curves for row in losses(run, hop, values, 100, prior=prior, below=1 / 3, order="o")]
    return DataFrame(rows).assign(kind="loss")


def test_conditional():
    circuit = {"run": "a", "version": "v", "seed": 0, "path": "p", "model": 0.01, "by_hand": 0.02, "threshold": 0.05}
    found = DataFrame([{**circuit, "prior": "some", "verdict": "circuit", "kind": "path"}])
    table = pandas.concat([conditionals("a", "some", [1, 1, 0, 0]), conditionals("b", "none", [1, 1, 0.5, 0.5]), found])
    assert judged(conditional, table) == {
        "learnt": ("holds", 0),
        "not_without_the_prior": ("holds", pytest.approx(0.5 - 1 / 3)),
        "premises_first": ("holds", pytest.approx(100)),
        "circuit_found": ("holds", 0.02),
    }
    assert all("prior: some" in claim.sentence for claim in conditional.claims(table) if "not" not in claim.id)
    without_x = table[(table.hop != "x") | (table.step == 0)]
    assert judged(conditional, without_x)["premises_first"] == ("fails", -float("inf"))  # z without one of its premises
    assert judged(conditional, table.assign(verdict="none"))["circuit_found"][0] == "fails"
    assert judged(conditional, table.assign(model=0.5))["circuit_found"][0] == "undecided"
    also = pandas.concat([conditionals("a", "some", [1, 1, 0.4, 0.4]), conditionals("b", "none", [1, 1, 0, 0]), found])
    assert {name: verdict for name, (verdict, _) in judged(conditional, also).items()} == {
        "learnt": "fails",
        "not_without_the_prior": "fails",
        "premises_first": "undecided",  # at N = 2 a loss of 0.4 is not learnt yet
        "circuit_found": "holds",
    }


def test_heads_that_could_be_one():
    """Two hops need at least three layers, so a circuit with three heads has none to spare."""
    least = "L0H0 value[1]->key[1]; L0H0 value[2]->key[2]; L1H0 query->value[1]; L2H0 query->value[2]"
    assert merged_heads(least, 2, "nearest_first") == []
    apart = "L0H0 value[1]->key[1]; L1H0 value[2]->key[2]; L2H0 query->value[1]; L3H0 query->value[2]"
    found = merged_heads(apart, 2, "nearest_first")
    assert {((0, 0), (1, 0)), ((1, 0), (0, 0))} <= set(found)
    assert not any({one, other} == {(2, 0), (3, 0)} for one, other in found)  # both move the query
    assert spare_heads(apart, 2, "nearest_first") == len({one for one, _ in found})


def four(seed: int, *steps: float) -> list[dict]:
    """Rows of a run whose hops are learnt, and looked up, at these steps, in layers 1, 2, …."""
    rows = []
    for k, step in enumerate(steps, 1):
        rows.append(onset_row(seed, "hop", f"x{k}", "seen", step))
        event = f"query->value[{k}]"
        rows.append(onset_row(seed, "path", event, "seen", step - 2) | {"path": f"L{k}H0 {event}"})
    return rows


def test_the_last_comes_late():
    """For waits of 10, 10 and 40 steps the last is four times as long; for 10, 40 and 10 it is a quarter."""
    found = judged(fig7, DataFrame(four(0, 50, 60, 70, 110)))
    assert found["last_hop_late"] == found["last_path_late"] == ("holds", 4)
    found = judged(fig7, DataFrame(four(0, 50, 60, 100, 110)))
    assert found["last_hop_late"] == found["last_path_late"] == ("fails", 0.25)
    assert judged(fig7, DataFrame(four(0, 50, 60)))["last_path_late"][0] == "undecided"


def test_answers_are_looked_up_in_the_order_of_layers():
    table = DataFrame(four(0, 50, 60, 70))
    assert judged(fig7, table)["answers_in_layer_order"] == ("holds", 1)
    same = table.assign(path=table.path.str.replace("L3", "L2"))
    assert judged(fig7, same)["answers_in_layer_order"] == ("fails", 0)
    missing = table.assign(in_circuit=table.in_circuit & (table.event != "query->value[2]"))
    assert judged(fig7, missing)["answers_in_layer_order"] == ("fails", 0)


def test_the_seeds_of_the_demo_have_a_home():
    """Runs with unchanged settings are the packaged run's eight seeds, and identities stay the same over versions."""
    found = [config.identity for config in packaged_seeds()]
    assert found == [config.identity for config in variants("cpu")] and len(found) == 8
    assert found[:2] == ["f4551ca98f74", "d6fc2399c384"]
    assert set(found) <= {config.identity for config in chains.runs("cpu")}


def test_a_prior_is_told_in_every_sentence():
    rows = DataFrame(losses("a", "x1", [1, 1, 0], prior="some words"))
    assert all(claim.sentence.endswith(" (With a prior: some words.)") for claim in fig6.claims(rows))
    plain = rows.assign(prior="none")
    assert not any("prior" in claim.sentence for claim in fig6.claims(plain))
    assert prior_of(recipe("transformer_d").config()) == prior_of(recipe("packaged").config()) == "none"
    told = prior_of(recipe("transformer_d_prior").config())
    assert told == "attention's bias by distance starts at 4 for distance 1 in L0"
