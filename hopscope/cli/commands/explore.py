"""`hopscope explore RUN…`: the page in which a run's model itself runs; or that page as one file."""

from __future__ import annotations

import signal
import threading
import webbrowser
from contextlib import contextmanager
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
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hopscope.circuits.circuit import Circuit
    from hopscope.explorer.part import Which
    from hopscope.runs.run import Run


@click.command("explore")
@click.argument("runs", metavar="RUN…", nargs=-1, type=PATH)
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="To listen at; 0: any.")
@click.option("--open/--no-open", "open_it", default=None, help="Open a browser [default: yes, but not with --export]")
@click.option("--export", "file", type=PATH, metavar="FILE", help="Write one HTML file instead.")
@click.option(
    "--weights",
    default="tour",
    show_default=True,
    metavar="tour|last|STEPS|all",
    help="Checkpoints whose model runs in the file: where hops are learnt (tour), the last, all, or steps 0,160,1000.",
)
@click.option("--results", type=PATH, metavar="DIR", help="Also show the claims of these results, or studies.")
@progress
def command(
    runs: tuple[Path, ...], port: int, open_it: bool | None, file: Path | None, weights: str, results: Path | None
) -> None:
    """Scrub through training, knock paths out, and see the losses move: a page on one or more runs.

    RUN is a run folder, or packaged for the finished run that comes with hopscope. The page is served to this machine
    alone until Ctrl-C; while a run trains, it follows. With --export it is one file, which works from disk and fetches
    nothing.
    """
    if not runs and results is None:
        example = "such as 'hopscope explore packaged'"
        raise BadInput(f"say which runs to explore, {example}, or whose claims with --results DIR")
    if results is not None and not results.is_dir():
        from hopscope.experiments.results import gone

        raise BadInput(gone(results))
    if file is not None:
        refuse_beside("says nothing beside --export", "port")
        check_page(file)
        export_runs(runs, file, which_of(weights), results)
        if open_it:
            show_page(file)
    else:
        serve(runs, port, open_it is not False, results)


def which_of(weights: str) -> Which:
    """Which checkpoints' weights the option asks for. Raises BadInput."""
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
    told: Callable[[str], None] = say,
    opens: str | None = None,
) -> None:
    """Write the page, and say where it is, and what is wrong with the runs."""
    with Narrator("loading") as narrator, replacing(file):
        from hopscope.explorer.building import Builder
        from hopscope.explorer.page import export

        builder = Builder(runs, which=which, results=results, opens=opens, circuits=circuits, watch=narrator)
        manifest = export(builder, file).manifest
    tell(file, wrong(manifest), told)


def export_into(run: Run, circuit: Circuit, told: Callable[[str], None] = say) -> None:
    """Write the page on a run, whose circuit is known, into its folder."""
    unlist(run.path, [PAGE])
    export_runs([run.path], run.path / PAGE, "tour", None, {run.config.identity: circuit}, told)
    enlist(run.path, [PAGE])


def wrong(manifest: dict[str, Any]) -> list[str]:
    """All that a bundle tells of what is not as it should be."""
    told = []
    for run in manifest["runs"]:
        told += [run["error"]] if run["error"] else []
        told += run["warnings"] + [checkpoint["told"] for checkpoint in run["checkpoints"] if checkpoint["told"]]
    return told


def tell(file: Path, said: list[str], told: Callable[[str], None]) -> None:
    """Where the page is, how large, and what is wrong with its runs."""
    for sentence in said:
        say(f"hopscope: warning: {sentence}", err=True)
    told(f"{file}: {file.stat().st_size / 1e6:.1f} MB, opens offline")


def serve(runs: tuple[Path, ...], port: int, show: bool, results: Path | None) -> None:
    """Serve the page until interrupted, building it meanwhile."""
    with Narrator("loading"):
        from hopscope.explorer.building import Builder
        from hopscope.explorer.server import Server

    builder = Builder(runs, which="all", dtype="float32", results=results, watch=watch)
    with Server(builder, port) as server, stopped_by_signals():
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


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGINT and SIGTERM raise KeyboardInterrupt, also where a shell started us in the background, deaf to SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def watch(told: str) -> None:
    """What is being done, on stderr."""
    if shows_progress():
        say(told, err=True)
