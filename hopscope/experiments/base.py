"""The frame of every experiment: from declared runs to a table, and from the table alone to a figure and claims.

An experiment is a file with four functions (docs/contracts.md):

    runs(scale)           yields the configurations to train, distinct
    table(runs, scale)    measures the finished runs of a scale; one tidy DataFrame
    figure(table)         draws it
    claims(table)         judges it: the paper's sentences as code

and a constant, `SECONDS`: for each scale that it offers, the time on two cores (by `hopscope sweep`, without runs that
another experiment also trains). The file's docstring names paper and section. Claims are collected from `claims` and
listed nowhere else. An experiment with long runs may say `PARTIAL = True`; a spent budget then leaves a table of how
far they came. Runs are trained in `runs/<task>-<identity>`, so experiments that want the same model share it, and a
stopped run continues. What is not training, such as asking a language model, is declared as `Work`, and is kept and
resumed in the same way.

At scale `long` results are kept cell by cell; a cell is one run or one piece of work. Its rows are written as soon as
it is finished, and a cell with rows in table.csv is not done again, with or without its run folder. So the table must
be the union of its cells' tables (`table([a, b]) = table([a]) + table([b])`, with the cell's identity in the column
`run` of every row), and figure and claims must work while some cells are missing. `CELL_SECONDS` is the time of the
longest cell on one core. An experiment whose table compares runs says `COMPARES_RUNS = True`, and offers no `long`.
"""

from __future__ import annotations

from types import ModuleType

from hopscope.configuration.config import Config
from hopscope.core import catalogue
from hopscope.core.settings import BadInput, check_choice
from hopscope.experiments.work import Work

SCALES = ("quick", "cpu", "long", "paper")
CELL_BY_CELL = "long"  # the scale whose rows are written as each run is finished


def experiment(name: str) -> ModuleType:
    """An experiment's module. Raises BadInput if there is none, or if a part is missing (TypeError if it is ours)."""
    source = catalogue.module("experiments", name)
    missing = [part for part in ("runs", "table", "figure", "claims", "SECONDS") if not hasattr(source, part)]
    if missing:
        raise catalogue.not_whole(source, f"must define {', '.join(missing)}")
    whole = hasattr(source, "CELL_SECONDS") and not getattr(source, "COMPARES_RUNS", False)
    if CELL_BY_CELL in source.SECONDS and not whole:
        raise catalogue.not_whole(source, f"offers {CELL_BY_CELL}, so it must state CELL_SECONDS and compare no runs")
    return source


def offered(name: str) -> list[str]:
    """The scales at which an experiment has runs, in the order of `SCALES`: those in its `SECONDS`."""
    return [scale for scale in SCALES if scale in experiment(name).SECONDS]


def declared(name: str, scale: str) -> list[Config | Work]:
    """The runs and work of an experiment. Raises BadInput for an unknown scale or one that it does not offer."""
    check_choice("scale", scale, SCALES)
    if scale not in offered(name):
        raise BadInput(f"{name} has no runs at scale {scale}; it has some at {', '.join(offered(name))}")
    return list(experiment(name).runs(scale))
