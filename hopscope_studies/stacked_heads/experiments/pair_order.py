"""Does the order of the facts matter? (Musat, ICLR 2025, sections 3.1 and 6, which differ; docs/fidelity.md)

Section 3.1 and appendix A list the deepest facts first. Section 6's interleaving, programmed in the natural way, lists
the nearest first. The experiment trains the packaged run's model with both orders, and with an order drawn anew for
each sequence.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.settings import by_setting
from hopscope.experiments.curves import endings_of
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.variants import variants
from hopscope.runs.run import Run
from hopscope.theory.depth import minimum_depth
from hopscope_studies.stacked_heads.one_setting import NO_CHAIN, columns, share_solved
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 130, "paper": 15_000}

ORDERS = ("nearest_first", "shuffled", "deepest_first")
told = telling("pair_order")


def runs(scale: str) -> Iterator[Config]:
    """Each order, over seeds; nearest first are `packaged_seeds`."""
    for order in ORDERS:
        yield from variants(scale, task={"order": order})


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop, as made by `endings_of`, with order and layers."""
    return endings_of(runs, **columns("order", "layers"))


def figure(table: DataFrame) -> Figure:
    """How hops ended, and when they were learnt, by order."""
    return by_setting(table, "order", "order of the facts", NO_CHAIN)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims that nearest first is learnt and deepest first is not, though in theory both need equally many layers."""
    near, deep = (table[table.order == order] for order in ("nearest_first", "deepest_first"))
    evidence, what = Evidence(near, "beyond (6)"), "share of runs with all hops below 0.05"
    found = share_solved(near, "order").get("nearest_first", float("nan"))
    yield told(evidence, "nearest_first_is_learnt", found, what, above=0.5, said={"steps": near.steps.max()})
    needed = minimum_depth(int(deep.k.max()), "causal", "one", "deepest_first").min_layers
    evidence = Evidence(deep, "beyond (3.1)", source="the paper's bound for not learnt")
    said = {"steps": deep.steps.max(), "needed": needed}
    yield told(evidence, "deepest_first_waits", deep.loss, "final partial loss", above=0.7, said=said)
