"""Tests of claims on minimum depth, algorithms, longer chains and figure 4: hand-made tables for each verdict."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from pandas import DataFrame

from hopscope.configuration.presets import recipe
from hopscope.emergence.onset import Onset
from hopscope.emergence.track import follow
from hopscope.problem.paths import Path
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.stacked_heads import named_circuits
from hopscope_studies.stacked_heads.experiments import algorithms, fig4, longer_chains, minimum_depth
from tests.small_runs import trained

NAN, INF = float("nan"), float("inf")


def judged(source, table: DataFrame):
    """Verdict and number by claim."""
    return {claim.id: (claim.verdict, claim.number) for claim in source.claims(table)}


def ending(run: str, k: int, loss: float, learnt: float = 100.0, seed: int = 0, **columns) -> dict:
    about = {"run": run, "version": "v", "seed": seed, "hop": f"x{k}", "k": k, "steps": 1000, "prior": "none"}
    return {**about, "loss": loss, "learnt": learnt, "solved": loss < 0.05, **columns}


# minimum_depth ---------------------------------------------------------------------------------------------------


def deep_enough(hops: int, layers: int, seed: int = 0, learnt: int | None = None) -> list[dict]:
    """The rows of a run that learns as many hops as its layers reach, 2^(layers − 1) − 1, or a given number."""
    reach = 2 ** (layers - 1) - 1 if learnt is None else learnt
    about = {"D": hops, "layers": layers, "least": hops.bit_length() + 1, "paper_bound": 1}
    return [
        ending(f"{hops} {layers} {seed}", k, *((0.02, 90) if k <= reach else (0.8, NAN)), seed, **about)
        | {"least_k": k.bit_length() + 1}
        for k in range(1, hops + 1)
    ]


def grid(spoilt: tuple[int, int, int] | None = None, learnt: int = 0) -> DataFrame:
    """Rows of D = 1 to 8 at three depths with two seeds; one of the runs learns another number of hops."""
    rows = []
    for hops in range(1, 9):
        for more in (-1, 0, 1):
            for seed in (0, 1):
                cell = (hops, more, seed)
                rows += deep_enough(hops, hops.bit_length() + 1 + more, seed, learnt if cell == spoilt else None)
    return DataFrame(rows)


def test_what_theory_allows_is_learnt_and_no_more():
    found = judged(minimum_depth, grid())
    assert found["nothing_below_the_minimum"] == ("holds", 0.8)
    assert found["minimum_is_enough"] == found["one_more_is_enough"] == ("holds", 0.02)
    assert found["no_slack_is_hard"] == ("undecided", 0)
    assert minimum_depth.figure(grid()).axes


def test_time_against_the_length_of_chains():
    """If hops are learnt at step 90 whatever D is, the exponent is 0; if at step 10 D², it is 2."""
    assert judged(minimum_depth, grid())["time_grows_no_faster_than_chains"] == ("holds", pytest.approx(0, abs=1e-9))
    slow = grid().assign(learnt=lambda table: table.learnt.where(table.learnt.isna(), 10.0 * table.D**2))
    assert judged(minimum_depth, slow)["time_grows_no_faster_than_chains"] == ("fails", pytest.approx(2))


def test_a_hop_below_its_minimum_contradicts_theory():
    assert judged(minimum_depth, grid((5, -1, 0), learnt=4))["nothing_below_the_minimum"] == ("fails", 0.02)


def test_the_minimum_is_enough_if_some_seed_does_it():
    assert judged(minimum_depth, grid((7, 0, 0), learnt=1))["minimum_is_enough"] == ("holds", 0.02)
    table = grid()
    tight = ((table.D == 7) & (table.layers == 4)) | ((table.D == 3) & (table.layers == 3))
    never = table.assign(loss=table.loss.where(~tight | (table.k == 1), 0.8))
    found = judged(minimum_depth, never)
    assert found["minimum_is_enough"] == ("fails", 0.8)
    assert found["one_more_is_enough"] == ("holds", 0.02)
    assert found["no_slack_is_hard"] == ("holds", -1)  # none of four runs against ten of ten: by chance 1 in 1001
    assert minimum_depth.at_most(0, 4, 10, 14) == pytest.approx(1 / 1001)
    assert minimum_depth.at_most(2, 4, 12, 14) == pytest.approx(6 / 91)


def test_the_cells_of_minimum_depth():
    """Three depths around ⌈log2(D+1)⌉ + 1 and three seeds; all with a prior, deepest facts first, and no MLP."""
    configs = list(minimum_depth.runs("cpu"))
    depths = {(config.task.n_hops, config.model.n_layers) for config in configs}
    assert len(list(minimum_depth.runs("long"))) == 8 * 3 * 3
    assert len({config.identity for config in configs}) == len(configs) == 8 * 3 * 3
    assert {layers for hops, layers in depths if hops == 7} == {3, 4, 5}
    assert {layers for hops, layers in depths if hops == 8} == {4, 5, 6}
    assert {(c.task.order, c.model.mlp) for c in configs} == {("deepest_first", False)}
    starts = {config.task.n_hops: config.model.positions[-4:-2] for config in configs}
    assert starts == {hops: ":4" if hops < 6 else ":5" for hops in range(1, 9)}


# algorithms ------------------------------------------------------------------------------------------------------


def circuit_row(run: str, name: str, order: str = "deepest_first", D: int = 3, layers: int = 4, **more) -> dict:
    about = {"run": run, "version": "v", "seed": 0, "prior": "none", "D": D, "order": order, "layers": layers}
    numbers = {"heads": 4.0, "fewest": 3.0, "reads": 3, "ahead": 0 if "query" in name else 1}
    return {**about, "kind": "circuit", "verdict": "circuit", "name": name, **numbers, **more}


def path_row(run: str, part: str, step: float | None, status: str = "seen") -> dict:
    emerged = json.dumps(asdict(Onset(status, step, None, None, 0, 20, 0)))
    about = {"run": run, "version": "v", "seed": 0, "prior": "none", "D": 3, "order": "deepest_first", "layers": 4}
    return {**about, "kind": "path", "part": part, "onset": emerged}


def hop_row(run: str, k: int, learnt: float, order: str = "deepest_first") -> dict:
    about = {"run": run, "version": "v", "seed": 0, "prior": "none", "D": 3, "order": order, "layers": 4}
    return {**about, "kind": "hop", "hop": f"x{k}", "k": k, "loss": 0.02, "learnt": learnt}


def one_by_one() -> list[dict]:
    """Rows of a circuit as the paper describes it, for each order; its hops are learnt at steps 50, 60 and 70."""
    rows = [circuit_row(order, "linear, by the query", order) for order in algorithms.ORDERS]
    return rows + [hop_row(order, k, 40.0 + 10 * k, order) for order in algorithms.ORDERS for k in (1, 2, 3)]


def test_what_the_paper_describes():
    found = judged(algorithms, DataFrame([*one_by_one(), path_row("a", "read", 30.0)]))
    assert found["circuits_are_schedules"] == found["one_hop_per_layer"] == ("holds", 1)
    assert found["facts_look_ahead"] == ("fails", 0)
    assert found["more_heads_than_needed"] == ("holds", 1)
    assert found["look_ahead_comes_later"][0] == found["doubling_at_the_minimum"][0] == "undecided"
    assert {found[f"hops_in_order_{order}"] for order in algorithms.ORDERS} == {("holds", 10)}


def test_facts_that_look_ahead():
    rows = [circuit_row("a", "linear, by both", heads=3.0), circuit_row("b", "doubling, by both", layers=3)]
    rows += [circuit_row("c", "doubling, by both", layers=3), hop_row("a", 1, 90.0), hop_row("a", 2, 50.0)]
    rows += [path_row("a", "read", 30.0), path_row("a", "ahead", 70.0), path_row("a", "ahead", 50.0)]
    found = judged(algorithms, DataFrame(rows))
    assert found["one_hop_per_layer"] == ("fails", 0)
    assert found["facts_look_ahead"] == ("holds", 1)
    assert found["doubling_at_the_minimum"] == ("holds", 1)
    assert found["more_heads_than_needed"] == ("fails", 0)
    assert found["look_ahead_comes_later"] == ("holds", 20)
    assert found["hops_in_order_deepest_first"] == ("fails", -40)
    assert found["hops_in_order_shuffled"][0] == "undecided"
    sooner = [*rows[:-1], path_row("a", "ahead", None, "already")]
    assert judged(algorithms, DataFrame(sooner))["look_ahead_comes_later"] == ("fails", -INF)
    odd = [*rows, circuit_row("d", "none", layers=3, ahead=NAN), circuit_row("e", "linear, by both", layers=3)]
    found = judged(algorithms, DataFrame(odd))
    assert found["circuits_are_schedules"] == ("fails", pytest.approx(4 / 5))
    assert found["doubling_at_the_minimum"] == ("fails", pytest.approx(1 / 2))
    assert algorithms.figure(DataFrame(odd)).axes


def test_a_model_without_a_circuit_says_nothing():
    rows = [{**circuit_row("a", "none"), "verdict": "partial"}, hop_row("a", 1, NAN)]
    assert {verdict for verdict, _ in judged(algorithms, DataFrame(rows)).values()} == {"undecided"}


def test_a_circuit_is_named_and_measured():
    """The optimal circuit for three hops is pointer doubling with three heads, the fewest possible."""
    task = Retrieval(n_hops=3, order="deepest_first")
    text = "L0H0 value[1]->key[1]; L0H0 value[2]->key[2]; L0H0 value[3]->key[3]; L1H0 query->value[1]"
    paths = [Path.parse(one) for one in f"{text}; L1H0 value[2]->value[3]; L2H0 query->value[2]".split("; ")]
    losses = {kind: SimpleNamespace(mean=0.01) for kind in ("model", "circuit", "live")}
    found = [SimpleNamespace(path=path) for path in paths]
    row = named_circuits.named(SimpleNamespace(verdict="circuit", accepted=True, losses=losses, paths=found), task)
    assert (row["name"], row["height"], row["reads"], row["ahead"]) == ("doubling, by both", 2, 2, 1)
    assert (row["heads"], row["fewest"]) == (3, 3)
    assert [named_circuits.part_of(path) for path in paths] == ["join"] * 3 + ["read", "ahead", "read"]
    assert named_circuits.part_of(Path.parse("L0H0 key[2]->value[2] (other)")) == "other"


def test_onsets_are_those_of_emergence(tmp_path):
    """Another implementation measures the same paths with intervals and costs; both must give the same onsets."""
    run = trained(tmp_path / "run", steps=12, checkpoints="3")
    path = Path.parse("L0H0 query->value[1]")
    (ours,) = named_circuits.onsets_of(run, [path])
    theirs = follow(run, [path], n=named_circuits.SEQUENCES).paths[0].onset
    assert (ours.status, ours.after, ours.by) == (theirs.status, theirs.after, theirs.by)
    assert ours.step == pytest.approx(theirs.step) if theirs.step else ours.step is None


def test_a_run_becomes_rows(tmp_path, monkeypatch):
    """A tiny model, with a circuit put in by the test, gives one row of the circuit and one of each path and hop."""
    run = trained(tmp_path / "run", steps=6, checkpoints="2")
    path = Path.parse("L0H0 query->value[1]")
    losses = {kind: SimpleNamespace(mean=0.01) for kind in ("model", "circuit", "live")}
    claimed = SimpleNamespace(
        accepted=True, verdict="circuit", losses=losses, paths=[SimpleNamespace(path=path, strength=0.9)]
    )
    monkeypatch.setattr(named_circuits, "circuit_of", lambda run, scale: claimed)
    unsolved = algorithms.table([run], "quick")
    assert list(unsolved.kind) == ["circuit", "hop"] and unsolved.verdict[0] == "unsolved"
    assert algorithms.figure(unsolved).axes
    monkeypatch.setattr(Retrieval, "model_threshold", 10.0)
    table = algorithms.table([run], "quick")
    assert list(table.kind) == ["circuit", "path", "hop"]
    assert table.name[0] == "none"  # the query shares no piece with the value: by the flow of information nothing moves
    assert (table.path[1], table.part[1]) == (str(path), "read")
    assert set(table.run) == {run.config.identity} and set(table.prior) == {"none"}


# longer_chains ---------------------------------------------------------------------------------------------------


def losses(run: str, hop: str, values: list[float], every: int = 100, **more) -> list[dict]:
    about = {"run": run, "version": "v", "seed": 0, "hop": hop, "order": "deepest_first", "prior": "b", **more}
    return [{**about, "step": every * i, "hop_loss": x, "val_loss": x} for i, x in enumerate(values)]


def chain(run: str, hops: int, waits: list[int], steps: int = 2000) -> list[dict]:
    """Rows of a run; after its wait (in hundreds; 0: never) each hop's loss falls from 1 to 0 in 100 steps."""
    curves = [[1.0] * (wait + 1) + [0.0] * 20 if wait else [1.0] * 20 for wait in waits]
    return [
        row
        for k, curve in enumerate(curves, 1)
        for row in losses(run, f"x{k}", curve[: steps // 100 + 1], D=hops, steps=steps)
    ]


def test_longer_chains():
    """Two hops are learnt at 150 and 250, four at 150 to 450: twice the hops take 9/5 of the time."""
    found = judged(longer_chains, DataFrame(chain("a", 2, [1, 2]) + chain("b", 4, [1, 2, 3, 4])))
    assert found["every_hop_is_learnt"] == ("holds", 4)
    assert found["later_hops_take_longer"] == ("holds", pytest.approx(250 / 150))
    assert found["hops_in_order"] == ("holds", 100)
    assert found["time_grows_slower_than_chains"] == ("holds", pytest.approx(math.log2(450 / 250)))


def test_longer_chains_that_do_worse():
    slow = DataFrame(chain("a", 2, [1, 2]) + chain("b", 4, [3, 2, 8, 16]))
    found = judged(longer_chains, slow)
    assert found["hops_in_order"] == ("fails", -100)
    assert found["time_grows_slower_than_chains"] == ("fails", pytest.approx(math.log2(1650 / 250)))
    never = DataFrame(chain("a", 2, [1, 2]) + chain("b", 4, [1, 2, 3, 0]))
    found = judged(longer_chains, never)
    assert found["every_hop_is_learnt"] == ("fails", 3)
    assert found["time_grows_slower_than_chains"][0] == "undecided"
    assert longer_chains.figure(never).axes


def test_a_run_that_is_not_over_says_nothing_yet():
    rows = DataFrame(chain("a", 2, [1, 0]))
    assert judged(longer_chains, rows)["every_hop_is_learnt"] == ("fails", 1)
    assert judged(longer_chains, rows.assign(steps=5000))["every_hop_is_learnt"] == ("undecided", 1)


def test_ten_hops_come_in_the_order_of_their_numbers():
    """x10 is placed after x9, not after x1."""
    found = judged(longer_chains, DataFrame(chain("c", 10, list(range(1, 11)))))
    assert found["later_hops_take_longer"] == ("holds", pytest.approx(1050 / 150))
    assert found["hops_in_order"] == ("holds", 100)


def test_the_prior_holds_its_share_as_chains_grow():
    """The share is e^b over the mean number of positions before a token, 2 N D / 2, and is the same at every D."""
    starts = {hops: float(re.search(r"1:([\d.]+)", longer_chains.prior(hops))[1]) for hops in (2, 4, 8, 16)}
    shares = [math.exp(bias) / hops for hops, bias in starts.items()]
    assert shares == pytest.approx([shares[0]] * 4, rel=0.01) and starts[8] == 5


# fig4 ------------------------------------------------------------------------------------------------------------


def taught(layers: int, losses: list[float], seed: int = 0) -> list[dict]:
    about = {"layers": layers, "D": len(losses), "curriculum": "implicit", "order": "deepest_first", "heads": 8}
    return [
        ending(f"{layers} {seed}", k, loss, 90, seed, least=k.bit_length() + 1, **about)
        for k, loss in enumerate(losses, 1)
    ]


def test_figure_4_against_the_exact_minimum():
    """x1 needs two layers, x2 and x3 need three."""
    rows = taught(1, [0.9, 0.9, 0.9]) + taught(2, [0.02, 0.9, 0.9]) + taught(3, [0.02, 0.03, 0.3])
    found = judged(fig4, DataFrame(rows))
    assert found["minimum_depth_is_enough"] == ("holds", 0)
    assert found["minimum_depth_is_reached"] == ("fails", INF)  # x3 is learnt, not solved
    assert found["nothing_below_the_minimum"] == ("holds", 0.9)
    later = taught(1, [0.9, 0.9, 0.9]) + taught(2, [0.8, 0.4, 0.9]) + taught(3, [0.02, 0.03, 0.8])
    found = judged(fig4, DataFrame(later + taught(4, [0.02, 0.03, 0.04])))
    assert found["minimum_depth_is_enough"] == ("fails", 1)  # x1 and x3 with one layer more than they need
    assert found["nothing_below_the_minimum"] == ("fails", 0.4)


def test_a_depth_that_is_not_trained_yet_is_no_counterexample():
    """At scale `long` the runs of different depths come in one by one; missing ones leave the claim undecided."""
    found = judged(fig4, DataFrame(taught(3, [0.02, 0.03, 0.04])))
    assert found["minimum_depth_is_enough"][0] == "undecided"


def test_only_the_papers_own_runs_of_figure_4_are_without_the_prior():
    configs = list(fig4.runs("long"))
    assert {config.model.positions for config in configs} == {"relative(start='L0 1:4')"}
    assert {config.training.schedule for config in configs} == {"linear"}
    assert {(c.task.n_hops, c.task.curriculum, c.model.n_heads) for c in configs} == {
        (5, "implicit", 8),
        (3, "none", 8),
    }
    assert Counter((c.task.curriculum, c.training.steps) for c in configs) == {
        ("implicit", 400): 40,
        ("none", 400): 40,
        ("none", 10_000): 1,  # the paper's number of steps (section 7.1)
    }
    paper = [recipe(name).config(seed=0, dtype="bfloat16") for name in ("figure_4", "figure_4_no_curriculum")]
    assert {config.identity for config in paper} <= {config.identity for config in fig4.runs("paper")}
