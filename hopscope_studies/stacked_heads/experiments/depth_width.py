"""Depth against width at equal parameters (beyond Musat; the paper's section 5 says that depth cannot be replaced).

Models have two, three, four, six or eight layers, each as wide as the parameters of four layers of 128 allow. In theory
no width replaces a layer below the minimum; whether layers beyond it help is an open question. The recipe is the
packaged run's, with D = 2.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.settings import by_setting
from hopscope.experiments.curves import LEARNT, endings_of
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.variants import variants
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.experiments.fig4 import least
from hopscope_studies.stacked_heads.one_setting import columns, grows_with, somebody_solves
from hopscope_studies.stacked_heads.telling import SENTENCES, telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 310, "paper": 25_000}

#: Layers and d_model with which a transformer has about as many parameters as one of 4 layers and 128.
SHAPES = ((2, 180), (3, 148), (4, 128), (6, 104), (8, 90))
told = telling("depth_width")


def runs(scale: str) -> Iterator[Config]:
    """Each shape, over seeds; 4 × 128 are `packaged_seeds`."""
    for n_layers, d_model in ((2, 16), (3, 12)) if scale == "quick" else SHAPES:
        yield from variants(scale, model={"n_layers": n_layers, "d_model": d_model})


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop, as made by `endings_of`, with layers, d_model, shape, parameters and the least depth."""
    found = endings_of(runs, **columns("layers", "d_model", "shape"))
    found["parameters"] = found.run.map({run.config.identity: run.model.n_parameters for run in runs})
    return found.assign(least=[least(k, 1, "nearest_first") for k in found.k])


def figure(table: DataFrame) -> Figure:
    """How hops ended, and when they were learnt, by shape."""
    return by_setting(table, "shape", "layers × d_model, at about equal parameters")


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether width can replace depth, and whether more depth than needed helps."""
    below = table[table.layers < table.least]
    evidence = Evidence(below, "5", source="the paper's bound for learnt", among=table)
    yield told(evidence, "width_is_no_depth", below.loss, "final partial loss", at_least=LEARNT)
    deep = table[table.layers >= table.groupby("run").least.transform("max")]
    yield somebody_solves(deep, "shape", SENTENCES["depth_width"]["every_setting_can"])
    yield grows_with(deep, "layers", "sooner_if_deeper", SENTENCES["depth_width"]["sooner_if_deeper"], -1)
