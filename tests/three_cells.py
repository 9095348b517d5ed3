"""Three cells as an experiment of their own: `python tests/three_cells.py reproduce cells --scale long …`.

Two are work and one is training. A cell kills its process, as the system would, where a file `kill` in its folder of
runs names its number. What is done is noted in the file `done` there, a line each.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.core.storage import read_json, write_json
from hopscope.execution import sweep
from hopscope.experiments.judging import judge
from hopscope.experiments.work import Finished, Stopped, Work
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval

TRAINED = Config(
    Retrieval(n_hops=1), Architecture(n_layers=1, d_model=8), Training(steps=20, batch=4, val_size=8, log_every=10)
)


@dataclass(frozen=True)
class Squared(Work):
    """A third of a number's square, of whose digits a table keeps six."""

    label = "squared"
    number: int = setting(1, "which")
    version: int = setting(0, "of nothing: it changes the identity alone")

    def do(self, folder, should_stop):
        kill = folder.parent / "kill"
        if kill.is_file() and kill.read_text() == str(self.number):
            os.kill(os.getpid(), signal.SIGKILL)
        if should_stop():
            raise Stopped
        write_json(folder / "square.json", self.number**2 / 3)
        with (folder.parent / "done").open("a") as file:
            file.write(f"{self.number}\n")


CELLS = [Squared(1), Squared(2), TRAINED]


def runs(scale):
    yield from CELLS


def table(finished, scale):
    """Of work a row, of a run one for each logged step; columns differ."""
    rows = []
    for one in finished:
        if isinstance(one, Finished):
            about = {"run": one.work.identity, "version": one.version, "seed": 0, "number": one.work.number}
            rows.append(about | {"square": read_json(one.path / "square.json"), "words": 'a, "b"'})
        else:
            about = {"run": one.config.identity, "version": one.sessions[-1]["environment"]["code"], "seed": 0}
            rows += [about | {"step": row["step"], "loss": row["val_loss"]} for row in one.rows]
    return DataFrame(rows)


def figure(table):
    shown = Figure()
    shown.subplots().plot(table.number.dropna() if "number" in table else [])
    return shown


def claims(table):
    squares = table.square.dropna() if "square" in table else []
    yield judge("squares", "Squares are positive.", squares, "square", section="1", rows=table, above=0)


def install():
    """Make the experiment known to this process, and to the workers that it starts."""
    seconds = {"quick": 1, "cpu": 1, "long": 3}
    source = SimpleNamespace(runs=runs, table=table, figure=figure, claims=claims, SECONDS=seconds, CELL_SECONDS=1)
    known = catalogue.module
    catalogue.module = lambda kind, name: source if name == "cells" else known(kind, name)
    command = sweep.command
    sweep.command = lambda *arguments: [sys.executable, str(Path(__file__)), *command(*arguments)[3:]]


if __name__ == "__main__":
    install()
    sys.exit(main(sys.argv[1:]))
