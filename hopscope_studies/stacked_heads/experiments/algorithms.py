"""Which algorithm is learnt? Circuits by the schedules that they realise (beyond Musat, ICLR 2025, section 8.2).

In the paper's description the query follows the chain hop by hop, a fact per layer. In theory there are faster ways
(docs/theory.md): facts join with each other before the query reads them, and pointer doubling does five hops in four
layers. Here every trained model's circuit is found (`hopscope.circuits`) and named (`hopscope.theory.naming`), at the
exact minimum depth and where one hop per layer would fit, for three orders of the facts. All models have a prior that
the paper does not have (a learnt bias by distance, which starts above 0 for the token before in layer 0), and no MLP.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pandas
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.style import colour, picture, styled
from hopscope.emergence.onset import Onset
from hopscope.experiments.circuit_tables import NONE, UNSOLVED
from hopscope.experiments.curves import LEARNT
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.values import lags
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.experiments import minimum_depth
from hopscope_studies.stacked_heads.experiments.fig7 import moment
from hopscope_studies.stacked_heads.experiments.minimum_depth import least
from hopscope_studies.stacked_heads.named_circuits import parts_of
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores, without runs that are also those of `minimum_depth`.
SECONDS = {"quick": 8, "cpu": 240, "long": 5400, "paper": 9000}
CELL_SECONDS = 300
ORDERS = ("deepest_first", "shuffled", "nearest_first")

#: The number of seeds by order, D and layers: at the minimum depth, and at D + 1, where one hop per layer fits.
CELLS = {
    "deepest_first": {(2, 3): 3, (3, 4): 3, (4, 4): 3, (4, 5): 3, (5, 4): 2},
    "shuffled": {(2, 3): 3, (3, 4): 1},
    "nearest_first": {(2, 3): 1},
}
#: At larger scales: every order and depth, at `long` five seeds.
EVERY = {order: {(hops, n): 5 for hops in (2, 3, 4, 5) for n in (least(hops), hops + 1)} for order in ORDERS}
PAPER_SEEDS = 8  # the paper's number of seeds for figure 4 (section 7.1)
PRESETS = {4: "minimum_depth", 6: "five_hops"}  # for five hops, by layers
told = telling("algorithms")


def runs(scale: str) -> Iterator[Config]:
    """Every order; the runs are those of `minimum_depth`, and for five hops those of two presets."""
    if scale == "quick":
        yield minimum_depth.cell(1, 2, 0, scale)
        return
    for order, cells in (CELLS if scale == "cpu" else EVERY).items():
        for (hops, layers), some in cells.items():
            n_seeds = PAPER_SEEDS if scale == "paper" else some
            yield from (cell(order, hops, layers, seed) for seed in range(n_seeds))


def cell(order: str, hops: int, layers: int, seed: int) -> Config:
    """The configuration of one run."""
    if hops < 5:
        return minimum_depth.cell(hops, layers, seed, "cpu", order)
    config = recipe(PRESETS[layers]).config(seed=seed)
    return Config(config.task.but(order=order), config.model, config.training)


# The table -------------------------------------------------------------------------------------------------------


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run (`kind` is `circuit`), per path of its circuit (`path`), and per hop (`hop`).

    Columns of the run: run, version, seed, prior, D, order, layers, mse (on fresh sequences). Of a circuit: verdict
    (`unsolved` if none was searched); model, by_hand, live (its losses); name, height, reads, ahead (of the flattest
    schedule that it realises), names (of all); heads, fewest (its heads, and the fewest that would suffice). Of a path:
    path, strength, part (`join`, `read` by the query, `ahead` of it, `other` chains), onset (as JSON). Of a hop: hop,
    k, loss, learnt.
    """
    return pandas.concat([part for run in runs for part in parts_of(run, scale)], ignore_index=True)


# The picture -----------------------------------------------------------------------------------------------------

PALE = "#f0f0f0"  # colour of models that have not solved their task
NAMES = ("linear, by the query", "linear", "mixed", "doubling", "either", NONE)


@styled
def figure(table: DataFrame) -> Figure:
    """A row per order, D and depth, with a square per seed, coloured by the algorithm of its circuit.

    An unsolved model's square shows how many of its D hops it learnt."""
    hops = table[table.kind == "hop"]
    learnt = (hops.loss < LEARNT).groupby(hops.run).sum()
    circuits = table[table.kind == "circuit"].assign(learnt=lambda rows: rows.run.map(learnt))
    cells = [cell for order in ORDERS for cell in cells_of(circuits[circuits.order == order])]
    shown = picture(7.6, 1.3 + 0.3 * len(cells))
    ax = shown.subplots()
    for row, (_, part) in enumerate(cells):
        for place, model in enumerate(part.to_dict("records")):
            unsolved = model["verdict"] == UNSOLVED["verdict"]
            ax.barh(row, 0.92, 0.8, left=place, color=PALE if unsolved else tint_of(model["name"]), edgecolor="white")
            heads = f"{model['heads']:.0f} ({model['fewest']:.0f})" if model["heads"] == model["heads"] else ""
            told = f"{model['learnt']:.0f} of {model['D']:.0f}" if unsolved else heads
            ax.text(place + 0.46, row, told, ha="center", va="center", fontsize=7)
    ax.set_yticks(range(len(cells)), [label for label, _ in cells], fontsize=8)
    ax.set(xlabel="seeds (heads in use, in brackets the fewest that would do)", ylim=(len(cells) - 0.4, -0.6))
    ax.set_xticks([])
    ax.set_title("The algorithm of each circuit")
    words = [f"{kind}, look-ahead" if kind == "linear" else "no circuit" if kind == NONE else kind for kind in NAMES]
    patches = [Patch(color=tint_of(kind), label=word) for kind, word in zip(NAMES, words, strict=True)]
    patches.append(Patch(color=PALE, label="unsolved: hops learnt"))
    ax.legend(handles=patches, loc="upper left", bbox_to_anchor=(1, 1))
    return shown


def cells_of(circuits: DataFrame) -> Iterator[tuple[str, DataFrame]]:
    """Circuits by D and layers, with labels."""
    for hops, layers in sorted(set(zip(circuits.D.astype(int), circuits.layers.astype(int), strict=True))):
        part = circuits[(hops == circuits.D) & (circuits.layers == layers)].sort_values("seed")
        depth = "one hop per layer fits" if layers > hops else "the minimum"
        yield f"{part.order.iloc[0].replace('_', ' ')}, D = {hops}, {layers} layers ({depth})", part


def tint_of(name: str) -> str:
    """The colour of an algorithm; for linear ones it depends on who merges."""
    kind = name if name in NAMES else name.split(",")[0]
    return dict(zip(NAMES, (colour(4), colour(0), colour(5), colour(1), colour(2), "#c4c4c4"), strict=True))[kind]


# Claims ----------------------------------------------------------------------------------------------------------


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the learnt algorithms, against the paper's description and the optimum."""
    circuits = table[(table.kind == "circuit") & (table.verdict == "circuit")]
    long = circuits[circuits.D >= 3]
    yield are_schedules(circuits, table)
    yield one_by_one(long[long.layers > long.D], table)
    yield look_ahead(long[long.order == "deepest_first"], table)
    yield doubled(long[long.layers == long.D.map(least)], table)
    yield spare_heads(long[long.layers > long.D.map(least)], table)
    hops = table[table.kind == "hop"]
    for order in ORDERS:
        yield in_order(order, hops[hops.order == order], table)
    yield later(table[(table.kind == "path") & (table.D >= 3) & (table.order == "deepest_first")], table)


def are_schedules(circuits: DataFrame, table: DataFrame) -> Claim:
    """Judge whether the theory explains the circuits that are found."""
    of = table[table.kind == "circuit"]
    evidence, what = Evidence(circuits, "5, 8.2", among=table), "circuits whose paths suffice"
    said = {"n": len(circuits), "all": len(of)}
    return told(evidence, "circuits_are_schedules", circuits.name != NONE, what, of="share of", equals=1, said=said)


def one_by_one(circuits: DataFrame, table: DataFrame) -> Claim:
    """Judge whether circuits match the paper's description."""
    evidence, what = Evidence(circuits, "8.2, 9.2", source="paper", among=table), "circuits in which the query does all"
    return told(evidence, "one_hop_per_layer", circuits.name == "linear, by the query", what, of="share of", equals=1)


def look_ahead(circuits: DataFrame, table: DataFrame) -> Claim:
    """Judge whether, with deepest facts first, facts are joined ahead of the query."""
    evidence = Evidence(circuits, "beyond", among=table)
    return told(evidence, "facts_look_ahead", circuits.ahead, "number of merges by facts", at_least=1)


def doubled(circuits: DataFrame, table: DataFrame) -> Claim:
    """Judge whether circuits at the minimum depth are pointer doubling."""
    evidence, what = Evidence(circuits, "beyond (5)", among=table), "circuits that are pointer doubling"
    found = circuits.name.str.startswith("doubling")
    return told(evidence, "doubling_at_the_minimum", found, what, of="share of", equals=1)


def spare_heads(circuits: DataFrame, table: DataFrame) -> Claim:
    """Compare the number of heads in circuits with the fewest that would suffice."""
    beyond = circuits.heads - circuits.fewest
    evidence = Evidence(circuits, "8.2 (ii)", source="", among=table)
    return told(evidence, "more_heads_than_needed", beyond, "number of heads beyond the exact optimum", at_least=1)


def in_order(order: str, hops: DataFrame, table: DataFrame) -> Claim:
    """Judge whether hops are learnt in order; if so for all three orders of the facts, positions do not explain it."""
    learnt = hops.pivot(index="run", columns="k", values="learnt").sort_index(axis="columns")
    two = learnt.notna().sum(axis=1) >= 2
    evidence, what = Evidence(hops, "7.2, 9.2", source="paper", among=table), "number of steps from one hop to the next"
    said = {"order": order.replace("_", " "), "n": two.sum(), "all": len(learnt)}
    id, found = f"hops_in_order_{order}", lags(learnt[two].to_numpy())
    return told(evidence, id, found, what, at_least=0, said=said, sentence="hops_in_order")


def later(paths: DataFrame, table: DataFrame) -> Claim:
    """Judge whether look-ahead emerges after the query's first read."""
    both = [part for _, part in paths.groupby("run") if {"ahead", "read"} <= set(part.part)]
    waits = [first_of(part, "ahead") - first_of(part, "read") for part in both]
    evidence = Evidence(paths, "beyond (9.2)", among=table)
    what = "number of steps from the first read to the first merge ahead"
    return told(evidence, "look_ahead_comes_later", waits, what, n=len(waits), above=0, said={"n": len(waits)})


def first_of(paths: DataFrame, part: str) -> float:
    """The step at which the first path of a part emerged; −∞ if before training, ∞ if never."""
    return min(moment(Onset(**json.loads(text))) for text in paths.onset[paths.part == part])
