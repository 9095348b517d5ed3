"""`hopscope circuit DIR`: the circuit of a model, found and validated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery, discover
from hopscope.cli.options import console, options_of, pick, print_json
from hopscope.runs import Run, load


def run(folder: Path, step: int | None, out: Path | None, as_json: bool, **given: Any) -> None:
    """Find, store, tell."""
    source = load(folder)
    model = source.model if step is None else source.at(step)
    circuit = discover(model, source.task, pick(Discovery, given), watch)
    files = circuit.save(out or folder)
    if as_json:
        print_json(circuit.as_dict())
    else:
        tell(source, circuit)
        click.echo("\n" + " ".join(map(str, files)))


def watch(words: str) -> None:
    """Say on stderr what is being done."""
    print(f"hopscope: {words} …", file=sys.stderr)


def tell(source: Run, circuit: Circuit) -> None:
    """The circuit as a table, its losses, and the verdict."""
    out = console()
    table = Table(title=f"{source.path}: paths in use", title_justify="left", box=None, pad_edge=False)
    for column in ("path", "attention", "replaced by", "loss without it", "fed by"):
        table.add_column(column, justify="right" if column in ("attention", "loss without it") else "left")
    for found in circuit.paths:
        fed = "; ".join(f"{s.part}: {s.source}" for s in circuit.supplies if s.path == found.path)
        table.add_row(str(found.path), f"{found.strength:.2f}", found.hypothesis, f"{found.removal_loss:.3f}", fed)
    out.print(table)
    for name, words in LOSSES.items():
        loss = circuit.losses[name]
        out.print(f"{loss.mean:8.4f}  {words}  [dim]({loss.low:.4f} to {loss.high:.4f})[/]")
    if len(circuit.alternatives) > 1:
        others = f"{len(circuit.alternatives)} circuits do, {'all' if circuit.complete else 'at least'}"
        out.print(f"{others}; interchangeable: {', '.join(map(str, circuit.interchangeable))}")
    out.print(f"[bold]verdict: {circuit.verdict}[/]: {circuit.reason}")


LOSSES = {
    "model": "the model as it is",
    "circuit": "all patterns replaced by hand",
    "live": "these paths as computed, all else null",
    "null": "everything null",
}

command = click.Command(
    "circuit",
    callback=run,
    params=[
        click.Argument(["folder"], metavar="DIR", type=click.Path(path_type=Path)),
        click.Option(["--step"], type=int, help="Of which checkpoint; default the newest."),
        *options_of(Discovery),
        click.Option(["--out"], type=click.Path(path_type=Path), metavar="DIR", help="Where to; default DIR itself."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON instead of text."),
    ],
    help="Find the attention paths that the model in DIR needs, validate them, and write circuit.json with its proof "
    "log, hypotheses.jsonl (the paper's appendix E, automated).",
)
