"""Is emergence a mirage? A continuous loss steps at the minimum depth (Musat, ICLR 2025, section 10.1).

Schaeffer et al. (2023) hold that abilities seem to emerge only under discontinuous measures. The paper answers that
without its minimum number of layers no transformer can retrieve. So the mean squared error, which gives credit for
every part of an answer, should stay constant as layers are added and fall at the minimum. The runs, and how each ended,
are those of `fig4` with curriculum.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim, Evidence
from hopscope_studies.stacked_heads.experiments import fig4
from hopscope_studies.stacked_heads.experiments.fig4 import table as table
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores; the runs are those of `fig4`.
SECONDS = {"quick": 6, "cpu": 550, "paper": 300_000}

GRADUAL = 0.1  # improvement of the loss, in all, that still counts as none (ours)
told = telling("emergent_ability")


def runs(scale: str) -> Iterator[Config]:
    """Those of `fig4` with curriculum."""
    yield from (config for config in fig4.runs(scale) if config.task.as_dict()["curriculum"] == "implicit")


def best(table: DataFrame) -> DataFrame:
    """The lowest loss over seeds, by layers (rows) and hop (columns)."""
    return table.pivot_table(index="layers", columns="k", values="loss", aggfunc="min").sort_index()


@styled
def figure(table: DataFrame) -> Figure:
    """Each hop's lowest loss over seeds by number of layers, its minimum depth as a dotted line; seeds are dots."""
    shown = picture(6.2, 3.7)
    ax = shown.subplots()
    lowest, least = best(table), table.groupby("k").least.first()
    for index, k in enumerate(lowest.columns):
        part = table[table.k == k]
        ax.plot(lowest.index, lowest[k], color=colour(index), lw=2, marker="o", ms=4, label=f"x{k}, best seed")
        ax.plot(part.layers, part.loss, ls="", marker="o", ms=3, mfc="none", mec=colour(index), mew=0.7)
        ax.axvline(least[k] - 0.04 * (1 - index), color=colour(index), lw=1.0, ls=":", zorder=0)
    ax.axhline(1.0, color=GREY, lw=0.8, ls="--", zorder=0)
    ax.set_xticks(lowest.index)
    ax.set(xlabel="layers", ylabel="validation loss (mean squared error)", ylim=(0, None))
    ax.set_title("A continuous loss by number of layers (dotted: the exact minimum depth)")
    ax.legend()
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether the loss falls at the minimum depth, and not before."""
    lowest, least = best(table), table.groupby("k").least.first()
    shares, before = [], []
    for k in lowest.columns:
        drops = {b: float(lowest[k][a] - lowest[k][b]) for a, b in pairwise(lowest.index)}
        whole = float(lowest[k].iloc[0] - lowest[k].min())
        if least[k] in drops and whole > 0:
            shares.append(drops[least[k]] / whole)
            short = lowest[k][[layers for layers in lowest.index if layers < least[k]]]
            before += [float(short.iloc[0] - short.iloc[-1])] if len(short) > 1 else []
    yield told(Evidence(table, "10.1"), "loss_steps_at_minimum_depth", shares, "share of the fall", above=0.5)
    said = {"n": len(before), "all": len(lowest.columns)}
    yield told(Evidence(table, "10.1"), "nothing_gradual_before", before, "fall", below=GRADUAL, said=said)
