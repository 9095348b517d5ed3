"""The figure of `composition`: errors and measures over training, projections, pools."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled


@styled
def figure(table: DataFrame) -> Figure:
    """Errors by depth over training; one run's measures; projections by rank; errors by pool size."""
    shown = picture(10.0, 7.0)
    depth, together, bridge, pools = shown.subplots(2, 2).flatten()
    curves = table[table.kind == "curve"]
    fresh = curves[curves.pool == 0]
    for index, layers in enumerate((1, 2)):
        part, label = fresh[fresh.layers == layers], f"{layers} layer{'s' * (layers > 1)}"
        run_lines(depth, part, "ood_error", color=colour(index), label=label, lw=1, alpha=1)
    depth.set(xlabel="steps", ylabel="error", ylim=(0, 1), title="Out of distribution, each run")
    depth.legend()
    movement(together, fresh[(fresh.layers == 2)])
    projected(bridge, table[table.kind == "projection"])
    by_pool(pools, curves)
    return shown


def movement(ax: Axes, curves: DataFrame) -> None:
    """Draw the first run's error, heads and diagonal score over training."""
    run = curves[curves.seed == curves.seed.min()].sort_values("step")
    for index, (name, words) in enumerate(
        (
            ("ood_error", "error out of distribution"),
            ("id_error", "error in distribution"),
            ("shift", "layer 0 at its best offset"),
            ("induction", "layer 1 at its best lag"),
        )
    ):
        ax.plot(run.step, run[name], lw=1.4, color=colour(index), label=words)
    ax.plot(run.step, run.diagonal / run.diagonal.abs().max(), "--", lw=1.2, color=GREY, label="diagonal score / max")
    ax.set(xlabel="steps", ylim=(-0.1, 1.05), title=f"What moves with it (seed {run.seed.min()})")
    ax.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 0.12))


def projected(ax: Axes, rows: DataFrame) -> None:
    """Draw the mean error by rank, with shared or random directions projected out or kept alone."""
    for index, (name, words) in enumerate((("without", "without"), ("only", "only"))):
        part = rows[rows.projection == name].groupby("rank")[["shared_error", "random_error"]].mean()
        ax.plot(part.index, part.shared_error, "o-", color=colour(index), label=f"{words} the shared directions")
        ax.plot(part.index, part.random_error, "o--", mfc="white", color=colour(index), label=f"{words} random ones")
    ax.set(xlabel="number of directions", ylabel="error out of distribution", ylim=(0, 1.4), title="The bridge")
    ax.legend(fontsize=7, loc="upper left", ncols=2)


def by_pool(ax: Axes, curves: DataFrame) -> None:
    """Draw final errors by pool."""
    ends = curves[(curves.layers == 2) & (curves.step == curves.groupby("run").step.transform("max"))]
    ends = ends.assign(pool=ends.pool.where(ends.pool > 0, 4 * ends.pool.max() or 1))
    for index, (name, words) in enumerate(
        (("ood_error", "out of distribution"), ("id_error", "in distribution"), ("known_error", "in the first copy"))
    ):
        means = ends.groupby("pool")[name].mean()
        ax.plot(means.index, means, "-", lw=1.2, color=colour(index), label=words)
        ax.plot(ends.pool, ends[name], "o", ms=3, color=colour(index))
    ax.set_xscale("log", base=2)
    labels = [f"{pool:g}" for pool in sorted(ends.pool.unique())[:-1]] + ["fresh"]
    ax.set_xticks(sorted(ends.pool.unique()), labels)
    ax.set(xlabel="different segments", ylabel="error", ylim=(0, 1.02), title="Pools")
    ax.legend(fontsize=7, loc="center left")
