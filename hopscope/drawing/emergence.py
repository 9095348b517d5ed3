"""Paths emerging over training, above the losses of the hops that they serve (after Musat, ICLR 2025, appendix D)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled


@styled
def emergence_curves(
    table: DataFrame, onsets: Mapping[tuple[str, str], float], hops: Mapping[str, DataFrame], hop_names: Sequence[str]
) -> Figure:
    """A column per run: mean attention on every path on top, the hops' losses on the same axis below.

    Args:
        table: columns run, step, path, name, strength, low, high; equal names have one colour in all runs.
        onsets: by (run, name), the step at which the paper's rule places the onset; marked.
        hops: by run, columns step and one per hop.
        hop_names: which columns are hops.
    """
    runs, names = list(dict.fromkeys(table.run)), list(dict.fromkeys(table.name))
    figure = picture(2.2 + 4.6 * len(runs), 5.4)
    axes = figure.subplots(2, len(runs), squeeze=False, sharex="col", sharey="row", height_ratios=(2, 1))
    for column, run in enumerate(runs):
        top, bottom = axes[:, column]
        top.axhline(0.5, color=GREY, lw=0.7, ls=":")
        for name, curve in table[table.run == run].groupby("name", sort=False):
            tint = colour(names.index(name))
            top.plot(curve.step, curve.strength, color=tint, lw=1.6, marker=".", ms=4, label=curve.path.iloc[0])
            top.fill_between(curve.step, curve.low, curve.high, color=tint, alpha=0.2, lw=0)
            if (run, name) in onsets:
                top.plot(onsets[run, name], 0.5, marker="|", ms=16, mew=2, color=tint)
        for index, hop in enumerate(hop_names):
            bottom.plot(
                hops[run].step, hops[run][hop], color=GREY, lw=1.4, ls=("-", "--", ":", "-.")[index % 4], label=hop
            )
        bottom.set_yscale("log")
        bottom.set_xlabel("optimizer steps")
        top.set_title(run)
        top.legend(loc="center right")
        bottom.legend(loc="upper right", ncols=4)
    axes[0, 0].set(ylabel="mean attention on the path", ylim=(0, 1.02))
    axes[1, 0].set_ylabel("hop loss")
    words = "Bars mark the onset: mean attention first above 0.5 (paper, section 9.1). Layers and heads count from 0."
    figure.supxlabel(words, x=0.01, ha="left", fontsize=8, color=GREY)
    return figure
