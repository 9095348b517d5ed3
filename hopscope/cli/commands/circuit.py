"""`hopscope circuit DIR`: the circuit of a model, found and validated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from hopscope.circuits.discovery import Discovery
from hopscope.cli.options import console, options_of, pick, print_json, say, say_unverified
from hopscope.core.terminal import tinted
from hopscope.runs.run import Run, load, place_for

if TYPE_CHECKING:
    from hopscope.drawing.circuit_report import Investigation


def run(folder: Path, step: int | None, out: Path | None, as_json: bool, **given: Any) -> None:
    """Find, store, draw, tell."""
    from hopscope.drawing.circuit_report import investigate

    source = load(folder)
    settings = pick(Discovery, given)
    say_unverified([source.path])
    found = investigate(source, out or place_for(folder, "circuit"), settings, step=step, watch=watch)
    if as_json:
        print_json({**found.circuit.as_dict(), "min_layers": found.least, "words": found.words})
    else:
        tell(source, found)


def watch(words: str) -> None:
    """Say on stderr what is being done."""
    print(f"hopscope: {words} …", file=sys.stderr)


def tell(source: Run, found: Investigation) -> None:
    """The circuit in words, as a table, its losses, the verdict, and where the pictures are."""
    circuit, out = found.circuit, console()
    out.print(found.words + "\n")
    table = Table(title=f"{source.path}: paths in use", title_justify="left", box=None, pad_edge=False)
    for column in ("path", "attention", "replaced by", "loss without it", "fed by"):
        table.add_column(column, justify="right" if column in ("attention", "loss without it") else "left")
    for path in circuit.paths:
        fed = "; ".join(f"{s.part}: {s.source}" for s in circuit.supplies if s.path == path.path)
        table.add_row(str(path.path), f"{path.strength:.2f}", path.hypothesis, f"{path.removal_loss:.3f}", fed)
    out.print(table)
    for name, words in LOSSES.items():
        loss = circuit.losses[name]
        out.print(f"{loss.mean:8.4f}  {words} ", tinted(f"(95 %: {loss.low:.4f} to {loss.high:.4f})", "dim"))
    out.print(tinted(f"verdict: {circuit.verdict}", "bold"), f": {circuit.reason}\n", sep="")
    for files, words in found.files:
        say(f"{' '.join(map(str, files))}\n    {words}")


LOSSES = {
    "model": "the model as it is",
    "circuit": "all patterns replaced by hand",
    "live": "these paths as computed, all else null",
    "rows": "the rows of these paths, whole and as computed, all else null",
    "null": "everything null",
}

command = click.Command(
    "circuit",
    callback=run,
    params=[
        click.Argument(["folder"], metavar="DIR", type=click.Path(path_type=Path)),
        click.Option(["--step"], type=int, help="Of which checkpoint; default the newest."),
        *options_of(Discovery),
        click.Option(
            ["--out"],
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Where to; default DIR itself (for the demo that comes with hopscope, demo-circuit).",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON instead of text."),
    ],
    help="Find the attention paths that the model in DIR needs, validate them, and write circuit.json with its proof "
    "log, hypotheses.jsonl (the paper's appendix E, automated).",
)
