"""The table, figure and claims of experiments that compare conditions, each a change to the small model."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

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

#: What is claimed, by experiment and id.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text(encoding="utf-8"))
BEYOND = "beyond (9.2)"
MANY = 12  # number of conditions above which rows are drawn closer together


def conditions_of(
    runs: Iterable[Run], named: Mapping[str, Changes], scale: str, whole: Collection[str] = ()
) -> DataFrame:
    """The first and last step of each run, and every step for some conditions, with a column `condition`."""
    name_of = namer(named, cell, scale)
    return courses_of(runs, whole=lambda config: name_of(config) in whole, condition=name_of)


@dataclass(frozen=True)
class Conditions:
    """Claims about conditions.

    Attributes:
        table: their runs, from `conditions_of`.
        sentences: what is claimed, by id.
        numbers: what fills the braces in them.
    """

    table: DataFrame
    sentences: Mapping[str, str]
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def of(self, *conditions: str) -> DataFrame:
        """The rows of some conditions."""
        return self.table[self.table.condition.isin(conditions)]

    def learns(self, id: str, *conditions: str, hop: str = "", section: str = BEYOND) -> Claim:
        """The claim that every run of these conditions learns a hop (or all hops) in training."""
        return self.shared(id, conditions, hop, section, {"at_least": 1, "of": "share of"})

    def waits(self, id: str, *conditions: str, hop: str = "x1", section: str = BEYOND) -> Claim:
        """The claim that no run of these conditions learns a hop in training."""
        return self.shared(id, conditions, hop, section, {"at_most": 0, "of": "share of"})

    def shared(self, id: str, conditions: Collection[str], hop: str, section: str, limit: Limit) -> Claim:
        """A claim about the share of runs that learn; a censored run counts as not having learnt in time."""
        rows = self.of(*conditions)
        steps = hop_times(rows, hop) if hop else times(rows)
        what = f"runs that learn {hop or 'every hop'}"
        return self.held(id, steps.map(math.isfinite), what, rows, section, **limit)

    def held(
        self, id: str, values: Values, what: str, rows: DataFrame, section: str = BEYOND, **limit: Unpack[Limit]
    ) -> Claim:
        """A claim about any values of these rows, with a limit of ours."""
        sentence = self.sentences[id].format(**self.numbers)
        return Evidence(rows, section, among=self.table).claim(id, sentence, values, what, **limit)


@styled
def figure(table: DataFrame) -> Figure:
    """A row per condition. Left: when each hop was learnt, one mark per seed. Right: the join, from start to end."""
    there = list(dict.fromkeys(table.condition))
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
    """Draw the marks of one condition, at a height for each hop."""
    ax.axhline(row, color=GREY, lw=0.4, zorder=0)
    for index, hop in enumerate(hops):
        part = ends[ends.hop == hop]
        height = row + 0.16 * (index - (len(hops) - 1) / 2)
        told = part[part.learnt.notna()]
        never = part[part.learnt.isna()]
        ax.plot(told.learnt, numpy.full(len(told), height), "o", color=colour(index), ms=3.5)
        ax.plot(never.steps * 1.04, numpy.full(len(never), height), ">", mfc="none", color=colour(index), ms=4)


def draw_joins(ax: Axes, ends: DataFrame, row: int) -> None:
    """Draw the joins of one condition: a line per seed from start to end."""
    ax.axhline(row, color=GREY, lw=0.4, zorder=0)
    for index, (start, end) in enumerate(zip(ends.joined_start, ends.joined, strict=True)):
        height = row + 0.16 * (index - (len(ends) - 1) / 2)
        ax.plot([start, end], [height, height], color=colour(3), lw=1.2)
        ax.plot([start], [height], "o", color=colour(3), ms=3)
