"""`python -m tools.collect PARCEL`: runs from a borrowed machine, merged into ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from hopscope.cli import run_command
from hopscope.cli.options import PATH, as_json, print_json
from tools.collecting import collect


@click.command("collect")
@click.argument("parcels", nargs=-1, required=True, type=PATH)
@click.option("--runs", type=PATH, default=Path("runs"), show_default=True, help="Run folders.")
@as_json
def command(parcels: tuple[Path, ...], runs: Path, as_json: bool) -> None:
    """Merge PARCELS, packed by `python -m tools.full_size`, into the folder of runs: what is new or came further."""
    merged = {str(parcel): collect(parcel, runs) for parcel in parcels}
    if as_json:
        print_json(merged)
        return
    for parcel, names in merged.items():
        click.echo(f"{parcel}: {len(names)} runs are new or came further{': ' if names else ''}{', '.join(names)}")
    click.echo("'hopscope reproduce NAME --scale paper' makes tables, figures and claims of them")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_command(command, "python -m tools.collect", arguments)


if __name__ == "__main__":
    sys.exit(main())
