"""Experiments that compare conditions, each a change of the small model: their table, figure and claims."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope.experiments.judging import Claim, Evidence, Limit
from hopscope.experiments.long_table import namer
from hopscope.experiments.values import Values
from hopscope.runs.run import Run
from hopscope_studies.plateau.cells import Changes, cell
from hopscope_studies.plateau.course import courses_of, endings, hop_times, times

MANY = 12  # conditions from which on rows are drawn closer


def conditions_of(
    runs: Iterable[Run], named: Mapping[str, Changes], scale: str, whole: Collection[str] = ()
) -> DataFrame:
    """The two ends of each run's course, and the whole course of some conditions, with a column `condition`."""
    name_of = namer(named, cell, scale)
    return courses_of(runs, whole=lambda config: name_of(config) in whole, condition=name_of)


@dataclass(frozen=True)
class Conditions:
    """What is claimed of conditions.

    Attributes:
        table: their runs, as `conditions_of` has them.
    """

    table: DataFrame

    def of(self, *conditions: str) -> DataFrame:
        """The rows of some conditions."""
        return self.table[self.table.condition.isin(conditions)]

    def learns(self, id: str, sentence: str, *conditions: str, hop: str = "", section: str = "beyond (9.2)") -> Claim:
        """Every run of these conditions learns a hop, or all of them, while it is watched."""
        return self.shared(id, sentence, conditions, hop, section, {"at_least": 1, "of": "share of"})

    def waits(self, id: str, sentence: str, *conditions: str, hop: str = "x1", section: str = "beyond (9.2)") -> Claim:
        """No run of these conditions learns a hop while it is watched."""
        return self.shared(id, sentence, conditions, hop, section, {"at_most": 0, "of": "share of"})

    def shared(
        self, id: str, sentence: str, conditions: Collection[str], hop: str, section: str, limit: Limit
    ) -> Claim:
        """Held to the share of runs that learn; what is not learnt is censored, and counts as not learnt in time."""
        rows = self.of(*conditions)
        steps = hop_times(rows, hop) if hop else times(rows)
        what = f"runs that learn {hop or 'every hop'}"
        return Evidence(rows, section, among=self.table).claim(id, sentence, steps.map(math.isfinite), what, **limit)

    def held(self, id: str, sentence: str, values: Values, what: str, rows: DataFrame, **limit: Unpack[Limit]) -> Claim:
        """Any values of these rows, held to a limit of ours."""
        return Evidence(rows, "beyond (9.2)", among=self.table).claim(id, sentence, values, what, **limit)


@styled
def conditions_figure(table: DataFrame, named: Mapping[str, Changes]) -> Figure:
    """A row per condition. Left: when each hop was learnt, one mark per seed. Right: the join, from start to end."""
    there = [name for name in named if (table.condition == name).any()]
    shown = picture(10.5, 1.1 + (0.27 if len(there) > MANY else 0.33) * len(there))
    left, right = shown.subplots(1, 2, sharey=True, width_ratios=[1.7, 1])
    ends = endings(table)
    hops = sorted(ends.hop.unique())
    for row, name in enumerate(there):
        draw_times(left, ends[ends.condition == name], row, hops)
        draw_joins(right, ends[(ends.condition == name) & (ends.hop == hops[0])], row)
    name_rows(left, there)
    left.set_xlabel("step at which a hop is learnt (hollow, right: not in the time watched)")
    right.set_xlabel("join attention in layer 0, from start (dot) to end")
    right.set_xlim(0, 1)
    for index, hop in enumerate(hops):
        left.plot([], [], "o", color=colour(index), label=hop)
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(hops))
    return shown


def draw_times(ax: Axes, ends: DataFrame, row: int, hops: list[str]) -> None:
    """One condition's marks, a line to each hop."""
    ax.axhline(row, color=GREY, lw=0.4, zorder=0)
    for index, hop in enumerate(hops):
        part = ends[ends.hop == hop]
        height = row + 0.16 * (index - (len(hops) - 1) / 2)
        told = part[part.learnt.notna()]
        never = part[part.learnt.isna()]
        ax.plot(told.learnt, numpy.full(len(told), height), "o", color=colour(index), ms=3.5)
        ax.plot(never.steps * 1.04, numpy.full(len(never), height), ">", mfc="none", color=colour(index), ms=4)


def draw_joins(ax: Axes, ends: DataFrame, row: int) -> None:
    """One condition's joins: a line per seed from where it began to where it ended."""
    ax.axhline(row, color=GREY, lw=0.4, zorder=0)
    for index, (start, end) in enumerate(zip(ends.joined_start, ends.joined, strict=True)):
        height = row + 0.16 * (index - (len(ends) - 1) / 2)
        ax.plot([start, end], [height, height], color=colour(3), lw=1.2)
        ax.plot([start], [height], "o", color=colour(3), ms=3)
