"""`hopscope explore RUN…`: serve an interactive page that runs a run's model, or export it as one file."""

from __future__ import annotations

import signal
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.cli.given import refuse_beside
from hopscope.cli.options import PATH, progress, say, show_page
from hopscope.core.places import PAGE as PAGE, check_page, replacing
from hopscope.core.settings import BadInput
from hopscope.core.storage import enlist, unlist
from hopscope.core.terminal import Narrator, shows_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hopscope.circuits.circuit import Circuit
    from hopscope.explorer.part import Which
    from hopscope.runs.run import Run


@click.command("explore")
@click.argument("runs", metavar="RUN…", nargs=-1, type=PATH)
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port to listen on; 0: any.")
@click.option("--open/--no-open", "open_it", default=None, help="Open a browser [default: yes, but not with --export]")
@click.option("--export", "file", type=PATH, metavar="FILE", help="Write one HTML file instead.")
@click.option(
    "--weights",
    default="tour",
    show_default=True,
    metavar="tour|last|STEPS|all",
    help="Checkpoints that run in the file: where hops are learnt (tour), the last, all, or steps such as 0,160,1000.",
)
@click.option("--results", type=PATH, metavar="DIR", help="Also show the claims of this folder of results or studies.")
@progress
def command(
    runs: tuple[Path, ...], port: int, open_it: bool | None, file: Path | None, weights: str, results: Path | None
) -> None:
    """Scrub through training, knock out paths, and see how the losses change: a page on one or more runs.

    RUN is a run folder, or packaged for the finished run that comes with hopscope. The page is served to this machine
    alone until Ctrl-C, and is updated while a run trains. With --export it is one file, which works from disk and
    fetches nothing.
    """
    if not runs and results is None:
        example = "such as 'hopscope explore packaged'"
        raise BadInput(f"say which runs to explore, {example}, or show claims with --results DIR")
    if results is not None and not results.is_dir():
        from hopscope.experiments.results import gone

        raise BadInput(gone(results))
    if file is not None:
        refuse_beside("has no effect with --export", "port")
        check_page(file)
        export_runs(runs, file, which_of(weights), results)
        if open_it:
            show_page(file)
    else:
        serve(runs, port, open_it is not False, results)


def which_of(weights: str) -> Which:
    """The checkpoints that --weights selects. Raises BadInput."""
    if weights in ("tour", "last", "all"):
        return weights  # type: ignore[return-value]
    steps = [step.strip() for step in weights.split(",")]
    if not all(step.isascii() and step.isdecimal() for step in steps):
        raise BadInput(f"weights must be tour, last, all, or steps such as 0,160,1000; got {weights!r}")
    return frozenset(map(int, steps))


def export_runs(
    runs: Sequence[Path],
    file: Path,
    which: Which,
    results: Path | Sequence[Path] | None,
    circuits: Mapping[str, Circuit] | None = None,
    report: Callable[[str], None] = say,
    opens: str | None = None,
) -> None:
    """Write the page, report where it is, and warn of faults in the runs."""
    with Narrator("loading") as narrator, replacing(file):
        from hopscope.explorer.building import Builder
        from hopscope.explorer.page import export

        builder = Builder(runs, which=which, results=results, opens=opens, circuits=circuits, watch=narrator)
        manifest = export(builder, file).manifest
    tell(file, faults(manifest), report)


def export_into(run: Run, circuit: Circuit, report: Callable[[str], None] = say) -> None:
    """Write the page on a run, whose circuit is known, into its folder."""
    unlist(run.path, [PAGE])
    export_runs([run.path], run.path / PAGE, "tour", None, {run.config.identity: circuit}, report)
    enlist(run.path, [PAGE])


def faults(manifest: dict[str, Any]) -> list[str]:
    """Every error and warning in a bundle's manifest."""
    sentences = []
    for run in manifest["runs"]:
        sentences += [run["error"]] if run["error"] else []
        sentences += run["warnings"] + [checkpoint["told"] for checkpoint in run["checkpoints"] if checkpoint["told"]]
    return sentences


def tell(file: Path, warnings: list[str], report: Callable[[str], None]) -> None:
    """Print the warnings; report where the page is and how large."""
    for sentence in warnings:
        say(f"hopscope: warning: {sentence}", err=True)
    report(f"{file}: {file.stat().st_size / 1e6:.1f} MB, opens offline")


def serve(runs: tuple[Path, ...], port: int, show: bool, results: Path | None) -> None:
    """Serve the page until interrupted, while it is built."""
    with Narrator("loading"):
        from hopscope.explorer.building import Builder
        from hopscope.explorer.server import Server
        from hopscope.training.loop import signalled

    builder = Builder(runs, which="all", dtype="float32", results=results, watch=watch)
    # Both signals raise KeyboardInterrupt, also in the background, where a shell lets SIGINT be ignored.
    with Server(builder, port) as server, signalled(signal.default_int_handler):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        say(server.address)
        say("Ctrl-C ends it.", err=True)
        if show:
            webbrowser.open(server.address)
        try:
            builder.follow()
            threading.Event().wait()
        except KeyboardInterrupt:
            say("stopped", err=True)
        finally:
            server.shutdown()


def watch(message: str) -> None:
    """Print what is being done on stderr."""
    if shows_progress():
        say(message, err=True)
