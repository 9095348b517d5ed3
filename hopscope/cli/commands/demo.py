"""`hopscope demo`: train a retrieval transformer, draw it, find its circuit, and export an interactive page."""

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
    """Train two hops in 4 layers of one head, draw the run, find its circuit, and export a page that runs the model.

    It takes about a minute on two cores. The model has no prior, and the facts come deepest first, as in the paper:
    the losses stay on a plateau, then the first hop is learnt abruptly, and after it the second.
    """
    watchers = (ProgressBar(label="demo"),) * shows_progress()
    for watcher in watchers:
        watcher.console.print("The task: follow a query through two of eight facts. Attention has to find them.")
    run = train(recipe("demo").config(seed=seed), out, threads=threads, watchers=watchers)
    page = out / PAGE
    if as_json:
        pictures, found = drawn(run), investigated(run)
        explore.export_into(run, found.circuit, report=lambda words: say(words, err=True))
        value = {"run": str(out), **run.summary(), "pictures": draw.as_value(pictures)}
        print_json({**value, "circuit": circuit.as_value(found), "page": str(page)})
    else:
        tell(run)
    if open_it:
        show_page(page)


def drawn(run: Run) -> draw.Drawn:
    """Draw the run's pictures."""
    with Narrator() as watch:
        watch("loading the plotting library")
        from hopscope.drawing import run_pictures

        return run_pictures.draw(run, run.path / "pictures", watch)


def investigated(run: Run) -> Investigation:
    """Search for the run's circuit."""
    with Narrator("loading") as watch:
        from hopscope.drawing.circuit_report import investigate

        return investigate(run, run.path, watch=watch)


def tell(run: Run) -> None:
    """Print the run's summary, pictures, circuit and page, each as soon as it is made."""
    describe(run)
    say("\nPictures:")
    tell_files(drawn(run))
    say("\nIts circuit, found automatically:")
    found = investigated(run)
    circuit.tell(run, found)
    say("\nA page that runs the model, to scrub through its training and to knock out paths:")
    explore.export_into(run, found.circuit)
    say(f"\nIn Python: run = hopscope.load({str(run.path)!r}); then run.model, run.task, run.metrics")
