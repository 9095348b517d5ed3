"""`hopscope report`: every claim that was judged, from `results/` alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from hopscope.cli.options import as_json, console, print_json
from hopscope.experiments.base import all_claims, redraw
from hopscope.settings import BadInput


@click.command("report")
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="From where."
)
@click.option(
    "--redraw", "again", is_flag=True, help="First draw every figure and judge every claim anew, from tables."
)
@click.option("--markdown", is_flag=True, help="Print a Markdown table, as in the README.")
@as_json
def command(results: Path, again: bool, markdown: bool, as_json: bool) -> None:
    """List every claim with our number, its spread and the verdict."""
    if not results.is_dir():
        raise BadInput(f"there is no folder {results}; 'hopscope reproduce NAME --scale cpu' makes results")
    for table in sorted(results.glob("*/table.csv")) if again else ():
        redraw(table.parent.name, table.parent)
    claims = all_claims(results)
    if as_json:
        print_json(claims)
    elif markdown:
        click.echo(claims_markdown(claims), nl=False)
    else:
        console().print(claims_table(claims))


def claims_table(claims: Iterable[dict[str, Any]]) -> Table:
    """One row per claim."""
    table = Table(box=None, pad_edge=False)
    for column in ("experiment", "section", "claim", "scale", "number", "spread", "n", "verdict"):
        table.add_column(column, justify="right" if column in ("number", "n") else "left")
    colours = {"holds": "green", "fails": "red", "undecided": "yellow"}
    for row in claims:
        low, high = (show(x) for x in row["spread"])
        table.add_row(
            row["experiment"],
            row["section"],
            row["sentence"],
            row["scale"],
            show(row["number"]),
            f"{low} to {high}",
            str(row["n"]),
            f"[{colours[row['verdict']]}]{row['verdict']}",
        )
    return table


def claims_markdown(claims: Iterable[dict[str, Any]]) -> str:
    """The claims as a table for the README."""
    lines = ["| claim | section | scale | our number | spread | runs | verdict |", "|---|---|---|---|---|---|---|"]
    for row in claims:
        low, high = (show(x) for x in row["spread"])
        cells = (row["sentence"], row["section"], row["scale"], show(row["number"]), f"{low} to {high}", str(row["n"]))
        lines.append(f"| {' | '.join(cells)} | **{row['verdict']}** |")
    return "\n".join(lines) + "\n"


def show(number: float | None) -> str:
    return "none" if number is None else f"{number:.4g}"
