"""Panels that the study's pictures share: losses over training, and when each number of hops was learnt."""

from __future__ import annotations

from matplotlib.axes import Axes
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY


def curves(ax: Axes, rows: DataFrame, tint: str, label: str) -> None:
    """Draw a thin line per run, and the median."""
    run_lines(ax, rows, "hop_loss", color=tint, label=label, middle="median")


def costs(ax: Axes, rows: DataFrame, tint: str, label: str) -> None:
    """Draw a dot per run at the step at which k hops were learnt; if never, a hollow dot at the last step."""
    never = rows.learnt.isna()
    ax.plot(rows.task_k[~never], rows.learnt[~never], "o", ms=5, color=tint, label=label)
    ax.plot(rows.task_k[never], rows.steps[never], "o", ms=6, mfc="none", mec=tint, label="_" if any(~never) else label)


def name_panels(losses: dict[str, Axes], learnt: Axes, chance: float) -> None:
    """Label the panels of losses with titles, and the panel of learning steps; dashes are the chance loss in nats."""
    for title, ax in losses.items():
        ax.axhline(chance, color=GREY, lw=0.8, ls="--", zorder=0)
        ax.set(xlabel="optimizer steps", ylabel="nats (dashes: ln N)", ylim=(0, None), title=title)
    learnt.set(xlabel="k", ylabel="optimizer steps", yscale="log", title="When k hops were learnt (hollow: never)")
