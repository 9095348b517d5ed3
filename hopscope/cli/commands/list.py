"""`hopscope list`: everything that the laboratory offers, found by walking its folders."""

from __future__ import annotations

import click
from rich.table import Table

from hopscope.cli.options import as_json, console, print_json
from hopscope.core import catalogue

FOLDERS = {
    "tasks": "tasks",
    "models": "models",
    "attention": "models.attention",
    "positions": "models.positions",
    "optimizers": "training.optimizers",
    "measures": "measures",
    "experiments": "experiments",
    "formulations": "formulations",
    "benchmarks": "language.benchmarks",
    "curricula": "curricula",
}


@click.command("list")
@as_json
def command(as_json: bool) -> None:
    """Name every task, model, attention variant, position code, optimizer, measure, experiment, …"""
    found = {
        kind: [{"name": name, "summary": catalogue.summary(folder, name)} for name in catalogue.names(folder)]
        for kind, folder in FOLDERS.items()
    }
    if as_json:
        print_json(found)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("kind", style="dim")
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it is")
    for kind, variants in found.items():
        for index, variant in enumerate(variants):
            table.add_row("" if index else kind, variant["name"], variant["summary"])
    console().print(table)
