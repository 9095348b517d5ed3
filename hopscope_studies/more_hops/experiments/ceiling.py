"""What would a model answer that had learnt the algorithm? Programs of circuits, asked for more hops (ours).

The runs are those of `more_hops`, with more seeds. The search looks for a circuit on chains of each number of hops that
was trained. The circuit of the most hops is written as a program, which repeats its last step for further hops. Model
and program are asked on the same sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame, Series, concat

from hopscope.circuits.program import Program, rows_of as symbols_of, written
from hopscope.circuits.program_trial import trial
from hopscope.circuits.units import Ground
from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim
from hopscope.experiments.long_table import namer
from hopscope.experiments.tables import rows_by_hand, rows_of
from hopscope.runs.further import further
from hopscope.runs.run import Run
from hopscope.theory.algorithms.linear import linear
from hopscope_studies.more_hops.experiments import more_hops
from hopscope_studies.more_hops.programs import circuit_at, lengthened, with_values_exchanged

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "paper": 3600}

COMPARES_RUNS = True  # the rows of theory are no run's
NAMES = ("looped", "looped, kv_shift", "unshared")
SEEDS = {"quick": 1, "cpu": 5, "paper": 8}
SEQUENCES = {"quick": 8, "cpu": 256, "paper": 1024}
#: The accuracies of a program, by column.
ASKED_OF = ("program", "shuffled", "exchanged")


def runs(scale: str) -> Iterator[Config]:
    """Three variants of `more_hops`, seed by seed."""
    yield from (more_hops.config(more_hops.VARIANTS[n], seed, scale) for seed in range(SEEDS[scale]) for n in NAMES)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and number of hops asked.

    Columns: run, version, seed, prior, variant, D (hops trained), hops, verdict (of the search on so many hops; empty
    beyond D), untrained (the verdict at initial weights), source (hops of the circuit whose program is asked; 0: there
    is none, or no rule fits one of its paths), accuracies of the model, of the program, and of the program with facts
    in shuffled order and with their values exchanged, n (sequences). Rows of the variant `theory` are no run's: their
    program is that of an exact schedule for two hops.
    """
    return concat([rows_of(runs, lambda run: measured(run, scale)), rows_by_hand(exact(scale), prior="none")])


def exact(scale: str) -> Iterator[dict[str, Any]]:
    """The ceiling by theory: the program of a schedule that follows facts ahead of the query."""
    made, n = more_hops.config({}, 0, scale), SEQUENCES[scale]
    ground = Ground(batch := made.task.at(2).sample(n, generator(0, "exact")), made.model)
    program = written(linear(2, [2, 1], True, "chain"), symbols_of(batch, ground), ground)
    for hops in more_hops.ASKED[scale][1:]:
        about = {"variant": "theory", "D": more_hops.TRAINED[scale], "hops": hops, "source": 2, "n": n}
        yield about | accuracies(made.task, made.model, lengthened(program, hops - 2), hops, n)


def measured(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """One run: searches up to D hops, then all numbers of hops."""
    trained, n = more_hops.TRAINED[scale], SEQUENCES[scale]
    about = {"variant": namer(more_hops.VARIANTS, more_hops.config, scale)(run.config), "D": trained}
    found = {hops: circuit_at(run, hops) for hops in range(1, trained + 1)}
    programs = {hops: program for hops, (_, program) in found.items() if program}
    for hops in more_hops.ASKED[scale]:
        loops = [hops + 1] if run.config.model.as_dict()["loops"] > 1 else [1]
        [model] = further(run.model, run.task, [hops], loops, n=n)
        row = about | {"hops": hops, "verdict": "", "untrained": "", "model": model["accuracy"], "n": n}
        if hops <= trained:
            row |= {"verdict": found[hops][0].verdict, "untrained": circuit_at(run, hops, step=0)[0].verdict}
        source = max((one for one in programs if one <= hops), default=0)
        program, shape = lengthened(programs[source], hops - source) if source else None, run.model.architecture
        yield row | {"source": source} | (accuracies(run.task, shape, program, hops, n) if program else {})


def accuracies(task: Any, shape: Any, program: Program, hops: int, n: int) -> dict[str, float]:
    """A program's accuracies on the sequences that the model is asked on, and on two other kinds."""
    orders = (task.at(hops), task.at(hops).but(order="shuffled"))
    batches = [posed.sample(n, generator(0, "further", hops)) for posed in orders]
    rows = [replace(symbols_of(one, Ground(one, shape)), ground=None) for one in batches]
    tried = [trial("", program, some) for some in (*rows, with_values_exchanged(rows[0]))]
    return {name: one.agrees / one.n for name, one in zip(ASKED_OF, tried, strict=True)}


def claims(table: DataFrame) -> Iterator[Claim]:
    """Thresholds are ours and were committed before the runs; without programs a claim about them is undecided."""
    trained, table = int(table.D.max()), table[table.variant != "theory"]
    looped, shifted, unshared = (table[table.variant == name] for name in NAMES)
    programmed, by_looped, by_shifted = (rows[rows.program.notna()] for rows in (table, looped, shifted))
    far, last = (rows[rows.hops == 2 * trained] for rows in (programmed, by_looped))
    claim, most = more_hops.teller(table, "ceiling", twice=2 * trained), "most hops with a circuit"
    yield claim("circuit", looped, most_hops(looped), most, at_least=2)
    yield claim("ceiling", by_looped, by_looped.program, "accuracy", n=behaviours(by_looped), at_least=0.99)
    yield claim("model_is_below", last, last.program - last.model, "difference of accuracies", above=0.5)
    yield claim("kv_shift", shifted, most_hops(shifted), most, at_least=1)
    yield claim("kv_shift_ceiling", by_shifted, by_shifted.program, "accuracy", n=behaviours(by_shifted), at_least=0.99)
    yield claim("unshared", unshared, most_hops(unshared), most, at_most=0)
    yield claim("untrained", table, most_hops(table, "untrained"), most, at_most=0)
    yield claim("exchanged", far, far.exchanged, "accuracy", n=behaviours(programmed), below=0.4)
    yield claim("shuffled", last, last.shuffled, "accuracy", n=behaviours(by_looped), below=0.3)


def behaviours(rows: DataFrame) -> int:
    """How many programs differ: those with equal accuracies on all sequences count as one."""
    return len(rows.pivot(index="run", columns="hops", values=list(ASKED_OF)).drop_duplicates())


def most_hops(rows: DataFrame, column: str = "verdict") -> Series:
    """By run, the largest number of hops for which the search found a circuit; 0 if there is none."""
    return rows.hops.where(rows[column] == "circuit", 0).groupby(rows.run).max()


@styled
def figure(table: DataFrame) -> Figure:
    """Accuracy of the model (solid) and of the program (dashed) by hops asked, a panel per variant; a line per run."""
    shown = picture(10.5, 3.4)
    for ax, name in zip(shown.subplots(1, len(NAMES), sharey=True), NAMES, strict=True):
        for index, (what, style) in enumerate({"model": "-", "program": "--", "shuffled": ":"}.items()):
            label = {"shuffled": "program, facts shuffled"}.get(what, what)
            rows = table[table.variant == name]
            run_lines(ax, rows, what, "hops", color=colour(index), label=label, ls=style, lw=1.4, alpha=0.7)
        ax.axvline(table.D.max() + 0.5, color=GREY, lw=0.8, ls=":", zorder=0)
        ax.set(title=name, xlabel="hops asked", ylim=(-0.02, 1.04))
    shown.axes[0].set_ylabel("accuracy")
    shown.axes[0].legend(fontsize=7)
    return shown
