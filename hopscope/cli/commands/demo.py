"""`hopscope demo`: from nothing to a trained retrieval transformer, its pictures, its validated circuit, and a page."""

from __future__ import annotations

from pathlib import Path

import click

from hopscope.cli.commands import circuit, explore
from hopscope.cli.commands.draw import tell
from hopscope.cli.commands.show import describe
from hopscope.cli.options import say
from hopscope.configuration.presets import recipe
from hopscope.training.loop import train
from hopscope.training.progress import ProgressBar


@click.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, help="Run folder.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Initialisation and data.")
@click.option("--threads", type=click.IntRange(1), help="CPU threads.")
def command(out: Path, seed: int, threads: int | None) -> None:
    """Train three hops in 4 layers of one head, draw it, find its circuit, and export a page in which it runs.

    It takes a minute or two on two cores. The facts come deepest first, as in the paper; a head of layer 0 starts with
    attention to the token before (docs/plateau.md says why).
    """
    from hopscope.drawing.circuit_report import investigate
    from hopscope.drawing.run_pictures import draw

    say("A query must be followed through three facts among twelve, which attention has to find. Training …", err=True)
    run = train(recipe("three_hops").config(seed=seed), out, threads=threads, watchers=(ProgressBar(label="demo"),))
    describe(run)
    say("\nPictures:")
    tell(draw(run, out / "pictures"))
    say("\nAnd its circuit, found by itself:")
    found = investigate(run, out, watch=circuit.watch)
    circuit.tell(run, found)
    say("\nAnd a page in which it runs, to scrub through its training and to knock paths out:")
    explore.export_into(run, found.circuit)
    say(f"\nIn Python: run = hopscope.load({str(out)!r}); then run.model, run.task, run.metrics")
