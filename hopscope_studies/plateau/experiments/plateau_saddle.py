"""At the saddle: the gradient on the join by role, and what queries read (Musat, ICLR 2025, figure 6, section 9.2).

The experiment measures the gradient on the bias for the previous token, split by the role of the attending position, as
the plateau is reached; and the attention of later layers' queries, then and after 400 steps. Models have 5 layers of
one head and no MLP, for D = 3 and deepest facts first, with 5 seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope_studies.plateau.cells import bias, cell, start_of
from hopscope_studies.plateau.conditions import SENTENCES, Conditions
from hopscope_studies.plateau.gradients import pulls, read_by_queries

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 450, "paper": 40_000}

STARTS = {"quick": (1, 4), "cpu": (0, 1, 2, 4), "paper": (0, 1, 2, 4)}
SEEDS = {"quick": 1, "cpu": 5, "paper": 8}
EARLY = {"steps": 80, "stop_below": None, "checkpoints": "20"}
WINDOW = (20, 60)  # steps in which the plateau is reached and the starts diverge
SEQUENCES = {"quick": 32, "cpu": 256, "paper": 1024}
WEAK, STRONG = 1, 4


def runs(scale: str) -> Iterator[Config]:
    """The first 80 steps from every start, and whole runs of `plateau` from a weak start and a strong one."""
    for seed in range(SEEDS[scale]):
        for start in STARTS[scale]:
            yield cell({"model": bias(start), "training": EARLY if scale == "cpu" else {}}, seed, scale)
        for start in (WEAK, STRONG) if scale == "cpu" else ():
            yield cell({"model": bias(start)}, seed, scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, kept step and role.

    Columns: run, version, seed, start, early (whether it is of the first 80 steps), step, role, pull (see `pulls`, of
    256 fresh sequences), read (see `read_by_queries`).
    """
    return rows_of(runs, lambda run: by_role(run, SEQUENCES[scale]))


def by_role(run: Run, sequences: int) -> Iterator[dict[str, Any]]:
    """The rows of one run, by role."""
    batch = run.config.task.sample(sequences, generator(run.config.training.seed, "saddle"))
    about = {"start": start_of(run.config), "early": run.config.training.stop_below is None}
    for step in run.steps:
        model = run.at(step)
        pulled, read = pulls(model, batch), read_by_queries(model, batch)
        for role, pull in pulled.items():
            yield {**about, "step": step, "role": role, "pull": pull, "read": round(read[role], 4)}


@styled
def figure(table: DataFrame) -> Figure:
    """Left: the gradient by role and start, mean over the window. Right: what queries read at the end."""
    shown = picture(9.6, 3.6)
    left, right = shown.subplots(1, 2)
    roles = list(dict.fromkeys(table.role))
    starts = sorted(table.start.unique())
    for index, start in enumerate(starts):
        means = in_window(table[table.start == start]).groupby("role").pull.mean().reindex(roles)
        places = numpy.arange(len(roles)) + 0.2 * (index - (len(starts) - 1) / 2)
        left.bar(places, means * 1e3, 0.18, color=colour(index), label=f"b = {start:g}")
        read = last(table[table.start == start]).groupby("role").read.mean().reindex(roles)
        right.bar(places, read, 0.18, color=colour(index))
    left.axhline(0, color=GREY, lw=0.8)
    left.set_yscale("symlog", linthresh=1)
    left.set_ylabel("gradient × 1000 (above 0: unlearns)")
    left.set_title("Gradient on attention to the token before")
    right.set_ylabel("attention")
    right.set_title("What queries of later layers read at the end")
    for ax in (left, right):
        ax.set_xticks(range(len(roles)), roles, rotation=30)
    left.legend(loc="lower left")
    return shown


def in_window(table: DataFrame) -> DataFrame:
    """The steps in which the plateau is reached, in the runs of 80 steps."""
    return table[table.early & (table.step >= WINDOW[0]) & (table.step <= WINDOW[1])]


def last(table: DataFrame) -> DataFrame:
    """The last step of the whole runs, or else of the short ones."""
    kept = table[~table.early] if (~table.early).any() else table
    return kept[kept.step == kept.groupby("run").step.transform("max")]


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the signs and order of the gradients, and about what queries read at the plateau."""
    told = Conditions(table, SENTENCES["plateau_saddle"], {"window": WINDOW, "weak": WEAK, "strong": STRONG})
    queries, values = (mean_pull(table, role) for role in ("query", "value[1]"))
    rows = in_window(table)
    words = "gradient of the score of the token before"
    yield told.held("queries_pull_the_join_down", queries, f"{words}, at queries", rows, above=0)
    strong = values[values.index.get_level_values("start") == STRONG]
    yield told.held("first_values_pull_it_up", strong, f"{words}, at value[1]", rows[rows.start == STRONG], below=0)
    weak = values[values.index.get_level_values("start") == WEAK]
    yield told.held(
        "the_pull_grows_with_the_join",
        strong.droplevel("start") / weak.droplevel("start").abs(),
        "pull over that from the weak start, seed by seed",
        rows[rows.start == STRONG],
        below=-10,
        of="median",
    )
    yield from reading(last(table), told)


def mean_pull(table: DataFrame, role: str) -> Series:
    """The mean gradient over the window, per start and seed."""
    part = in_window(table)
    return part[part.role == role].groupby(["start", "seed"]).pull.mean()


def reading(ends: DataFrame, told: Conditions) -> Iterator[Claim]:
    """Claims about what queries read at the end."""
    for id, start, role in (
        ("the_plateau_reads_the_keys_of_step_2", WEAK, "key[2]"),
        ("what_learns_reads_the_values_of_step_1", STRONG, "value[1]"),
    ):
        part = ends[(ends.start == start) & (ends.role == role)]
        yield told.held(id, part["read"], f"attention of a later head's queries to {role}", part, above=0.8)
