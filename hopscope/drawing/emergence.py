"""Figures of when paths emerge in training, with the hops' losses below, and of their order in several runs.

After Musat, ICLR 2025, figure 7 (onsets) and appendix D (attention over training).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path as Files

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import blended_transform_factory

from hopscope.circuits.words import symbols_at
from hopscope.drawing.circuit_diagram import circuit_diagram
from hopscope.drawing.style import GREY, colour, ink_on, picture, styled
from hopscope.emergence.onset import Onset
from hopscope.emergence.order import Agreement
from hopscope.emergence.track import Emergence, Followed
from hopscope.tasks.base import Batch

THRESHOLD = 0.5  # paper, section 9.1
SHOWN = 2.0  # times the last event's step; later steps are cut off
ROW = 0.26  # inches per path
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
NAMED = 8  # most runs that have a colour and a name each
Dash = str | tuple[int, tuple[float, ...]]


# One run ---------------------------------------------------------------------------------------------------------


@styled
def emergence_curves(run: Emergence) -> Figure:
    """Onsets of all paths on top, their mean attention below, and the hops' losses on the same axis.

    A path has the colour of the hop that it serves. Dashed vertical lines are the steps at which hops were learnt.

    Args:
        run: the run's paths; steps are shown up to twice that of the last event.
    """
    paths, hops = run.ordered, list(run.learnt)
    tints, dashes = tints_of(paths, hops), dashes_of(paths, hops)
    figure = picture(8.8, 4.9 + ROW * len(paths))
    strip, curves, losses = figure.subplots(3, 1, sharex=True, height_ratios=(ROW * len(paths) + 0.25, 2.3, 1.3))
    end = float(last_shown(run))
    for row, path in enumerate(paths):
        draw_row(strip, row, path, tints[path.name], dashes[path.name], (run.steps[0], end))
    finish_strip(strip, paths, tints)
    draw_strengths(curves, run, tints, dashes)
    draw_losses(losses, run, end)
    for index, onset in enumerate(run.learnt.values()):
        for ax in (strip, curves, losses) if onset.step is not None else ():
            ax.axvline(onset.step, color=colour(index), lw=0.9, ls=(0, (4, 2)), alpha=0.7, zorder=0)
    losses.set_xlim(run.steps[0] - 0.01 * end, 1.01 * end)
    losses.set_xlabel("optimizer steps")
    figure.legend(handles=key(), loc="outside upper left", ncols=4, fontsize=8, title=label_of(run), alignment="left")
    figure.supxlabel(caption(run, end), x=0.01, ha="left", fontsize=7.5, color=GREY)
    return figure


def last_shown(run: Emergence) -> float:
    """The last step to show: some way after the last event, or the run's last step."""
    events = [onset.step or 0.0 for onset in run.learnt.values()]
    for path in run.paths:
        events += [path.onset.step or 0.0, path.change.high if path.change else 0.0]
        events += [path.cost.causal.onset.step or 0.0] if path.cost else []
    censored = any(path.onset.status == "never" for path in run.paths)
    wanted = SHOWN * max(events)
    later = [step for step in run.steps if step >= wanted]
    return later[0] if later and wanted and not censored else run.steps[-1]


def hop_index(path: Followed, hops: Sequence[str]) -> int | None:
    """The number of the hop that a path serves; for a streamed path, the number in its roles, if there is one."""
    if path.hop in hops:
        return hops.index(str(path.hop))
    numbers = [int(k) for k in re.findall(r"\[(\d+)\]", f"{path.path.query} {path.path.key}")]
    return min(numbers) - 1 if numbers and path.cost is None and min(numbers) <= len(hops) else None


def tints_of(paths: Sequence[Followed], hops: Sequence[str]) -> dict[str, str]:
    """Each path's colour, by name: that of its hop, or grey."""
    indices = {path.name: hop_index(path, hops) for path in paths}
    return {name: GREY if index is None else colour(index) for name, index in indices.items()}


def dashes_of(paths: Sequence[Followed], hops: Sequence[str]) -> dict[str, Dash]:
    """Each path's line style, by name; paths of one colour have different styles, as far as there are enough."""
    dashes: defaultdict[int | None, Iterator[Dash]] = defaultdict(lambda: cycle(DASHES))
    return {path.name: next(dashes[hop_index(path, hops)]) for path in paths}


def draw_row(ax: Axes, row: int, path: Followed, tint: str, dash: Dash, shown: tuple[float, float]) -> None:
    """Draw a path's three onsets with their intervals, and a sample of its line next to its name."""
    ax.axhline(row, color="#e4e4e4", lw=0.8, zorder=0)
    beside = blended_transform_factory(ax.transAxes, ax.transData)
    ax.add_line(Line2D([-0.062, -0.012], [row, row], transform=beside, color=tint, lw=2, ls=dash, clip_on=False))
    if path.cost:
        mark(ax, path.cost.causal.onset, row, tint, "^", shown, hollow=True)
    if path.change:
        ax.plot([path.change.low, path.change.high], [row, row], color=tint, lw=1.2, solid_capstyle="butt")
        ax.plot(path.change.step, row, marker="D", ms=6.5, mfc="white", mec=tint, mew=1.2, ls="")
    mark(ax, path.onset, row, tint, "o", shown)
    ax.text(1.012, row, f"{path.strength[-1]:.2f}", transform=beside, va="center", fontsize=8, color=tint)
    if path.cost:
        words = f"{path.cost.causal.effect:+.2f}"
        ax.text(1.075, row, words, transform=beside, va="center", fontsize=8, color=tint)


def mark(
    ax: Axes, onset: Onset, row: float, tint: str, marker: str, shown: tuple[float, float], hollow: bool = False
) -> None:
    """Draw an onset; a censored one is an arrow at the left or right edge."""
    if onset.step is None:
        at, arrow = (shown[0], "<") if onset.status == "already" else (shown[1], ">")
        ax.plot(at, row, marker=arrow, ms=7, mfc="none" if hollow else tint, mec=tint, ls="", clip_on=False, zorder=3)
        return
    if onset.low is not None and onset.high is not None:
        ax.plot([onset.low, onset.high], [row, row], color=tint, lw=2.4, solid_capstyle="butt", zorder=2)
    ax.plot(onset.step, row, marker=marker, ms=5.5, mfc="white" if hollow else tint, mec=tint, ls="", zorder=3)


def finish_strip(ax: Axes, paths: Sequence[Followed], tints: dict[str, str]) -> None:
    """Draw the paths' names at the left, and headings of the numbers at the right."""
    ax.set_ylim(len(paths) - 0.4, -0.6)
    ax.set_yticks(range(len(paths)), [str(path.path) for path in paths], fontsize=8.5)
    ax.tick_params(axis="y", length=0, pad=38)
    for label, path in zip(ax.get_yticklabels(), paths, strict=True):
        label.set_color(tints[path.name])
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="x", length=0)
    ax.text(1.012, 1.0, "at the end:\nattn.", transform=ax.transAxes, va="bottom", fontsize=7, color=GREY)
    if any(path.cost for path in paths):
        ax.text(1.075, 1.0, "cost", transform=ax.transAxes, va="bottom", fontsize=7, color=GREY)


def key() -> list[Line2D]:
    """The legend's marks."""
    ink = "#444444"
    return [
        Line2D([], [], marker="o", ms=5.5, color=ink, ls="", label="mean attention first above 0.5 (paper)"),
        Line2D([], [], marker="D", ms=6, mfc="white", mec=ink, ls="", label="change point"),
        Line2D([], [], marker="^", ms=6, mfc="white", mec=ink, ls="", label="silencing costs half of its last cost"),
        Line2D([], [], color=ink, lw=0.9, ls=(0, (4, 2)), label="hop learnt"),
    ]


def label_of(run: Emergence) -> str:
    """A run's name in figures: that of its folder."""
    return Files(run.run).name or run.run


def draw_strengths(ax: Axes, run: Emergence, tints: dict[str, str], dashes: dict[str, Dash]) -> None:
    """Draw mean attention on every path, with its interval over sequences and its onset at 0.5."""
    ax.axhline(THRESHOLD, color=GREY, lw=0.8, ls=":")
    dots = "." if len(run.steps) <= 60 else ""
    for path in run.ordered:
        tint = tints[path.name]
        ax.fill_between(run.steps, path.low, path.high, color=tint, alpha=0.2, lw=0)
        [line] = ax.plot(run.steps, path.strength, color=tint, ls=dashes[path.name], lw=1.7, label=str(path.path))
        line.set_gid(str(path.path))
        ax.plot(run.steps, path.strength, color=tint, marker=dots, ms=3.5, ls="")
        if path.onset.step is not None:
            ax.plot(path.onset.step, THRESHOLD, marker="o", ms=5.5, color=tint, ls="", zorder=3)
    ax.set(ylabel="mean attention on the path", ylim=(0, 1.03))


def draw_losses(ax: Axes, run: Emergence, end: float) -> None:
    """Draw the loss of every hop up to the last shown step."""
    shown = run.hops[run.hops.step <= end]
    dots = "." if len(run.steps) <= 60 else ""
    for index, hop in enumerate(run.learnt):
        ax.plot(shown.step, shown[hop], color=colour(index), lw=1.7, marker=dots, ms=3.5, label=hop)
    ax.set_yscale("log")
    ax.set_ylabel("loss of each hop")
    ax.legend(loc="lower left", ncols=4)


def caption(run: Emergence, end: float) -> str:
    """What was measured on which sequences, and which steps are cut off."""
    if run.source == "streamed":
        measured = "Means streamed in training, without intervals"
    else:
        n = run.protocol["sequences"]
        measured = f"{n} sequences, the same at all checkpoints; bands and bars are 95 % intervals over them"
    cut = f" Steps {end:.0f} to {run.steps[-1]} are not shown." if end < run.steps[-1] else ""
    return f"{measured}.{cut}\nA path has the colour of the hop that it serves. Layers and heads count from 0."


def emergence_circuit(run: Emergence, batch: Batch) -> Figure:
    """The followed paths on one sequence, each with the step at which it emerged (paper, figure 7, right).

    Args:
        run: the run's emergence; a path that never emerged, or was there from the start, has no step.
        batch: sequences of the run's task; the first is drawn.
    """
    steps = {f.path: f.onset.step for f in run.paths if f.onset.step is not None}
    strengths = {f.path: float(f.strength[-1]) for f in run.paths}
    return circuit_diagram(
        list(strengths), batch.roles, symbols_at(batch, 0), strengths=strengths, onsets=steps, title=run.run
    )


# Several runs ----------------------------------------------------------------------------------------------------


@styled
def emergence_order(runs: Sequence[Emergence], order: Agreement) -> Figure:
    """A line per run through the onsets of the first path of each kind; next to it, how often one precedes another.

    Rows are in the modal order; in a run that follows it, the line only moves to the right on its way down. Hollow
    arrows are events that had not happened by the end of the run.

    Args:
        runs: the followed runs.
        order: `hopscope.emergence.order.agreement` of their `first_events`.
    """
    hops = list(runs[0].learnt)
    figure = picture(11.6, 2.0 + 0.42 * (len(order.events) + len(hops)))
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1))
    end = max(run.steps[-1] for run in runs)
    for index, run in enumerate(runs):
        tint = colour(index) if len(runs) <= NAMED else GREY
        events = [run.first_events.get(name) for name in order.events]
        draw_events(left, events, 0, tint, end, label_of(run))
        draw_events(left, [run.learnt[hop] for hop in hops], len(order.events), tint, end)
    rows = [*order.events, *(f"{hop} learnt" for hop in hops)]
    left.set_yticks(range(len(rows)), rows)
    left.set_ylim(len(rows) - 0.5, -0.5)
    left.axhline(len(order.events) - 0.5, color=GREY, lw=0.6)
    left.tick_params(axis="y", length=0)
    left.grid(axis="y", color="#eeeeee")
    left.set_xlabel("optimizer steps until the first path of the kind has mean attention above 0.5")
    if len(runs) <= NAMED:
        left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=8)
    draw_precedence(right, order)
    low, high = order.holds_interval
    words = f"modal order uncontradicted in {order.holds} of {order.runs} runs (95 %: {low:.2f}–{high:.2f})"
    words += "" if order.mean_tau is None else f"; mean pairwise Kendall's τ {order.mean_tau:.2f}"
    figure.supxlabel(
        words + ". ? = order not determined, or an event absent.", x=0.01, ha="left", fontsize=8, color=GREY
    )
    return figure


def draw_events(ax: Axes, events: Sequence[Onset | None], top: int, tint: str, end: int, label: str = "_") -> None:
    """Draw one run's onsets below each other, joined by a line."""
    known = [(onset.step, top + row) for row, onset in enumerate(events) if onset and onset.step is not None]
    ax.plot([step for step, _ in known], [row for _, row in known], color=tint, lw=1.2, marker="o", ms=5, label=label)
    for row, onset in enumerate(events):
        if onset and onset.step is None:
            mark(ax, onset, top + row, tint, "", (0, end), hollow=True)


def draw_precedence(ax: Axes, order: Agreement) -> None:
    """Draw in how many runs the event of a row came before that of a column."""
    size = len(order.events)
    before, unsure = numpy.full((size, size), numpy.nan), numpy.zeros((size, size), int)
    for pair in order.pairs:
        i, j = order.events.index(pair.first), order.events.index(pair.second)
        before[i, j], before[j, i] = pair.before, pair.after
        unsure[i, j] = unsure[j, i] = pair.undetermined + pair.absent
    image = ax.imshow(before / order.runs, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, j in numpy.argwhere(~numpy.isnan(before)):
        words = f"{before[i, j]:.0f}" + (f"  {unsure[i, j]}?" if unsure[i, j] else "")
        back = to_hex(image.cmap(before[i, j] / order.runs))
        ax.text(j, i, words, ha="center", va="center", fontsize=8, color=ink_on(back))
    ax.set_xticks(range(size), order.events, rotation=35, ha="right", rotation_mode="anchor", fontsize=8)
    ax.set_yticks(range(size), order.events, fontsize=8)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(f"runs of {order.runs} in which the row came before the column")
