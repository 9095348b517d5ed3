"""Why heads wait: learning time by the attention of a fact's value position to its key at the start.

In the paper's figure 6 (Musat, ICLR 2025, section 9.2) nothing is learnt for some 0.9 million sequences, and then one
hop after the other is learnt. Here layer 0 starts with a bias b for the previous token, and so with a weaker or
stronger form of the head that joins the two tokens of a fact. Models have 5 layers of one head, for D = 3 and deepest
facts first (section 3.1). Cells at `cpu`: b = 0, 1, 1.5, 2, 3, 4 with and without MLP, 5 seeds, up to 400 steps,
stopped below 0.2. At `long`: b = 0, 1, 2, 4 at D = 2, 3, 5 in three orders, with and without MLP, 1 and 8 heads, 3
seeds, seed by seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.runs.run import Run
from hopscope_studies.plateau.cells import bias, cell, start_of
from hopscope_studies.plateau.course import courses_of
from hopscope_studies.plateau.figure import figure as figure
from hopscope_studies.plateau.law import claims as claims, is_central

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 720, "long": 10_500, "paper": 3_000_000}
CELL_SECONDS = 160

STARTS = {"quick": (4, 1), "cpu": (4, 3, 2, 1.5, 1, 0), "long": (4, 2, 1, 0), "paper": (4, 3, 2, 1.5, 1, 0)}
SEEDS = {"quick": 1, "cpu": 5, "long": 3, "paper": 8}
#: Whether layers have MLPs, which at least double the cost.
WITH_MLP = {"quick": (False,), "cpu": (False, True), "paper": (False, True)}
#: Layers by D at `long`: one more than the exact minimum depth, and two more for D = 3, as at `cpu`.
LAYERS = {2: 4, 3: 5, 5: 6}
ORDERS = ("deepest_first", "shuffled", "nearest_first")


def runs(scale: str) -> Iterator[Config]:
    """Every start over seeds; at `paper` also with MLPs, and at `long` for every D, order and number of heads."""
    for seed in range(SEEDS[scale]):
        if scale == "long":
            yield from long_cells(seed)
            continue
        for mlp in WITH_MLP[scale]:
            for start in STARTS[scale]:
                yield cell({"model": {"mlp": mlp, **bias(start)}}, seed, scale)


def long_cells(seed: int) -> Iterator[Config]:
    """The cells of one seed, listed before any was trained, the cheap and central ones first."""
    every = product((1, 8), (False, True), LAYERS.items(), ORDERS, STARTS["long"])
    for heads, mlp, (hops, layers), order, start in every:
        model = {"n_layers": layers, "n_heads": heads, "mlp": mlp, **bias(start)}
        yield cell({"task": {"n_hops": hops, "order": order}, "model": model}, seed)


def table(runs: list[Run], scale: str) -> DataFrame:
    """The course of each hop; at `long` only first and last steps, except for cells that the theory is fitted to."""
    columns = {
        "start": start_of,
        "D": lambda config: config.task.as_dict()["n_hops"],
        "order": lambda config: config.task.as_dict()["order"],
        "heads": lambda config: config.model.n_heads,
        "mlp": lambda config: config.model.mlp,
    }
    return courses_of(runs, whole=lambda config: scale != "long" or is_central(config), **columns)
