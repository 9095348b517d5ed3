"""`hopscope queue`: the paper at full size, as far as a lent GPU's time allows."""

from __future__ import annotations

from pathlib import Path

import click

from hopscope.cli.commands.reproduce import seconds
from hopscope.cli.options import as_json, print_json
from hopscope.experiments.base import SCALES


@click.command("queue")
@click.option("--budget", default="9m", show_default=True, metavar="TIME", help="Stop, and pack, within this time.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("parcel"), show_default=True, help="Parcel to.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Run folders.")
@click.option("--items", metavar="A,B", help="Which, in this order  [default: all]")
@click.option("--scale", default="paper", show_default=True, metavar="|".join(SCALES), help="Of the experiments.")
@click.option("--device", default="auto", show_default=True, metavar="auto|cpu|cuda", help="Where to train.")
@as_json
def command(budget: str, out: Path, runs: Path, items: str | None, scale: str, device: str, as_json: bool) -> None:
    """Train the paper's models in order of priority (smoke test, step times, Transformers A–D, figure 4), resumably.

    What was done is packed into a few small files; `hopscope collect` merges them at home.
    """
    from hopscope.execution.parcels import summary_of
    from hopscope.execution.queue import ITEMS, work_off

    chosen = tuple(items.split(",")) if items else ITEMS
    say = lambda words: click.echo(words, err=True)  # noqa: E731
    limit = seconds(budget)
    assert limit is not None
    account = work_off(runs, out, scale=scale, budget=limit, items=chosen, device=device, say=say)
    if as_json:
        print_json(account)
        return
    for item, found in account["items"].items():
        click.echo(f"{item}: {found['state']}")
    if (out / "parcel.json").is_file():
        click.echo(f"{out}: {summary_of(out)}; 'hopscope collect {out}' merges it into another folder of runs")
