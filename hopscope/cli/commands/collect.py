"""`hopscope collect PARCEL`: runs from a lent machine, merged into ours."""

from __future__ import annotations

from pathlib import Path

import click

from hopscope.cli.options import as_json, print_json


@click.command("collect")
@click.argument("parcels", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Run folders.")
@as_json
def command(parcels: tuple[Path, ...], runs: Path, as_json: bool) -> None:
    """Merge PARCELS, which `hopscope queue` packed, into the folder of runs: whatever is new or came further."""
    from hopscope.execution.collecting import collect

    merged = {str(parcel): collect(parcel, runs) for parcel in parcels}
    if as_json:
        print_json(merged)
        return
    for parcel, names in merged.items():
        click.echo(f"{parcel}: {len(names)} runs are new or came further{': ' if names else ''}{', '.join(names)}")
    click.echo("'hopscope reproduce NAME --scale paper' makes tables, figures and claims of them")
