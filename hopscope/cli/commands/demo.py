"""`hopscope demo`: from nothing to a trained retrieval transformer, its pictures, its validated circuit, and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopscope.cli.commands import circuit, draw, explore
from hopscope.cli.commands.show import describe
from hopscope.cli.options import PATH, as_json, opened, print_json, progress, say, show_page, tell_files, threads
from hopscope.configuration.presets import recipe
from hopscope.core.places import PAGE
from hopscope.core.terminal import Narrator, shows_progress
from hopscope.training.loop import train
from hopscope.training.progress import ProgressBar

if TYPE_CHECKING:
    from hopscope.drawing.circuit_report import Investigation
    from hopscope.runs.run import Run


@click.command("demo")
@click.option("--out", type=PATH, default=Path("demo"), show_default=True, help="Run folder.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Initialisation and data.")
@threads
@opened
@progress
@as_json
def command(out: Path, seed: int, threads: int | None, open_it: bool, as_json: bool) -> None:
    """Train two hops in 4 layers of one head, draw it, find its circuit, and export a page in which it runs.

    It takes about a minute on two cores. Nothing is built in, and the facts come deepest first, as in the paper: the
    losses wait on a plateau, then the first hop is learnt abruptly, and the second upon it.
    """
    watchers = (ProgressBar(label="demo"),) * shows_progress()
    for watcher in watchers:
        watcher.console.print("A query must be followed through two facts among eight, which attention has to find.")
    run = train(recipe("demo").config(seed=seed), out, threads=threads, watchers=watchers)
    page = out / PAGE
    if as_json:
        pictures, found = drawn(run), investigated(run)
        explore.export_into(run, found.circuit, told=lambda words: say(words, err=True))
        value = {"run": str(out), **run.summary(), "pictures": draw.as_value(pictures)}
        print_json({**value, "circuit": circuit.as_value(found), "page": str(page)})
    else:
        tell(run)
    if open_it:
        show_page(page)


def drawn(run: Run) -> draw.Drawn:
    """Its pictures."""
    with Narrator() as watch:
        watch("loading what draws")
        from hopscope.drawing import run_pictures

        return run_pictures.draw(run, run.path / "pictures", watch)


def investigated(run: Run) -> Investigation:
    """Its circuit."""
    with Narrator("loading") as watch:
        from hopscope.drawing.circuit_report import investigate

        return investigate(run, run.path, watch=watch)


def tell(run: Run) -> None:
    """What was trained, what it looks like, its circuit and its page, each as soon as it is there."""
    describe(run)
    say("\nPictures:")
    tell_files(drawn(run))
    say("\nAnd its circuit, found by itself:")
    found = investigated(run)
    circuit.tell(run, found)
    say("\nAnd a page in which it runs, to scrub through its training and to knock paths out:")
    explore.export_into(run, found.circuit)
    say(f"\nIn Python: run = hopscope.load({str(run.path)!r}); then run.model, run.task, run.metrics")
