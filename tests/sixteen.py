"""Sixteen tiny runs as an experiment of their own, for sweeps: `python tests/sixteen.py sweep sixteen …`.

Workers are other processes, which a test's monkeypatch does not reach; so they are started through this file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

from pandas import DataFrame

from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.execution import sweep
from hopscope.experiments import runner
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval

TINY = Training(steps=48, batch=8, log_every=12, val_size=16, checkpoints="12")


def runs(scale):
    return [Config(Retrieval(n_hops=1), Architecture(n_layers=1, d_model=16), TINY.but(seed=s)) for s in range(16)]


def table(finished, scale):
    rows = [
        {"seed": run.config.training.seed, "loss": run.report["loss"], "run": run.config.identity} for run in finished
    ]
    return DataFrame(rows).assign(version="v")


def install():
    """Make the experiment known to this process, and to the workers that it starts."""
    source = SimpleNamespace(runs=runs, table=table, figure=None, claims=None, SECONDS={"quick": 10})
    known = catalogue.module
    catalogue.module = lambda kind, name: source if name == "sixteen" else known(kind, name)
    runner.publish = lambda name, table, results: table.to_csv(results / "table.csv") or results
    command = sweep.command
    sweep.command = lambda *arguments: [sys.executable, str(Path(__file__)), *command(*arguments)[3:]]


if __name__ == "__main__":
    install()
    sys.exit(main(sys.argv[1:]))
