"""`hopscope emerge DIR …`: when each path of a run's circuit appeared, and in which order across several runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from hopscope.circuits.changes import NULLS
from hopscope.cli.options import PATH, as_json, console, out_option, print_json, progress, say_unverified, tell_files
from hopscope.core.places import check_out
from hopscope.core.settings import BadInput
from hopscope.core.storage import enlist, listed, make_folder, unlist, write_file, write_json
from hopscope.core.terminal import Narrator, tinted
from hopscope.core.wording import count
from hopscope.emergence.onset import Onset
from hopscope.emergence.order import Agreement, agreement
from hopscope.emergence.record import strong_paths
from hopscope.emergence.refine import refine
from hopscope.emergence.track import Emergence, follow_all
from hopscope.emergence.words import lines
from hopscope.problem import paths
from hopscope.problem.relations import Relations
from hopscope.runs.demand import check_search
from hopscope.runs.run import Run, load, place_for


@click.command("emerge")
@click.argument("folders", metavar="DIR…", nargs=-1, required=True, type=PATH)
@click.option(
    "--path", "named", multiple=True, metavar="PATH", help="Follow this path, 'L1H0 query->value[1]'; repeatable."
)
@click.option("--all", "strong", is_flag=True, help="Follow every path that ends with mean attention above 0.5.")
@click.option("--n", type=click.IntRange(8), default=256, show_default=True, help="Sequences (the paper takes 32).")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sequences.")
@click.option(
    "--null",
    type=click.Choice(NULLS),
    default="uniform",
    show_default=True,
    help="What replaces the attention of a silenced path.",
)
@click.option(
    "--streamed",
    "was_streamed",
    is_flag=True,
    help="Read attention_on_path, logged in training, at every logged step instead of measuring checkpoints.",
)
@click.option(
    "--refine",
    "every",
    type=click.IntRange(1),
    metavar="STEPS",
    help="Repeat the training bit for bit, and measure every so many steps between checkpoints where a path emerged.",
)
@out_option("Where to write; default the run's folder (for packaged, packaged-emergence; for several runs, emergence).")
@progress
@as_json
def command(
    folders: tuple[Path, ...],
    named: tuple[str, ...],
    strong: bool,
    n: int,
    seed: int,
    null: str,
    was_streamed: bool,
    every: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Follow the paths of a run's circuit over its checkpoints: onset by the paper's rule, change point, causal onset.

    With several runs, also compare the order of emergence across them.
    """
    if every and was_streamed:
        raise BadInput("--refine measures checkpoints; leave --streamed out")
    if named and strong:
        raise BadInput("give --path or --all, not both")
    asked = [paths.Path.parse(text) for text in named]

    def choose(run: Run) -> list[paths.Path]:
        return strong_paths(run, was_streamed=was_streamed) if strong else asked

    runs = [load(folder) for folder in folders]
    place = out or folder_for(folders)
    check_out(place, runs[0].path if len(runs) == 1 else None)
    for run in runs:
        check_search(run.config.model, run.task, [n], "--n")
    say_unverified(run.path for run in runs)
    how: dict[str, Any] = {"n": n, "seed": seed, "null": null}
    with Narrator("loading") as narrator:
        watch = narrator.now_at
        found = follow_all(runs, choose, was_streamed=was_streamed, watch=watch, **how)
        if every:
            found = [refine(run, one, every, watch, **how) for run, one in zip(runs, found, strict=True)]
        order, first = agreement([e.events for e in found]), agreement([e.first_events for e in found])
        watch("drawing")
        written = store(found, runs, order, first, place)
    if as_json:
        print_json(as_value(found, order, first))
    else:
        tell(found, order, first)
        tell_files(written)


def folder_for(folders: Sequence[Path]) -> Path:
    """The default folder of results; results of several runs go into a folder of their own."""
    if len(folders) > 1:
        return Path("emergence")
    return place_for(folders[0], "emergence")


def as_value(found: Sequence[Emergence], order: Agreement, first: Agreement) -> dict[str, object]:
    """For emergence.json and --json: `order` is of all paths, `first_order` of the first path of each kind."""
    runs = [emergence.as_dict() for emergence in found]
    return {"runs": runs, "order": order.as_dict(), "first_order": first.as_dict()}


def store(
    found: Sequence[Emergence], runs: Sequence[Run], order: Agreement, first: Agreement, folder: Path
) -> list[tuple[list[Path], str]]:
    """Write emergence.csv, emergence.json and the figures; returns files with what they show. Raises CannotSave."""
    import pandas

    from hopscope.drawing.emergence import emergence_circuit, emergence_curves, emergence_order
    from hopscope.drawing.style import save

    pictures = folder / "pictures"
    make_folder(pictures)
    table = pandas.concat([emergence.table() for emergence in found], ignore_index=True)
    names = ("emergence.csv", "emergence.json")
    unlist(folder, [*names, *(name for name in listed(folder) if name.startswith("pictures/emergence"))])
    write_file(folder / "emergence.csv", table.to_csv(index=False).encode())
    write_json(folder / "emergence.json", as_value(found, order, first))
    written = [([folder / name for name in names], "every curve, and the onsets read off it")]
    if len(found) > 1:
        files = save(emergence_order(found, first), pictures / "emergence")
        written.append((files, "when the first path of each kind emerged in each run, and which precedes which"))
    for emergence, run in zip(found, runs, strict=True):
        mark = f"-{emergence.identity}" if len(found) > 1 else ""
        files = save(emergence_curves(emergence), pictures / f"emergence{mark}")
        written.append((files, f"paths over training in {emergence.run}"))
        if not isinstance((batch := run.task.sample(1, 0)).searched, Relations):
            files = save(emergence_circuit(emergence, batch), pictures / f"emergence_circuit{mark}")
            written.append((files, "the paths, and the step at which each emerged"))
    enlist(folder, [str(file.relative_to(folder)) for files, _ in written for file in files])
    return written


# For people ------------------------------------------------------------------------------------------------------


def tell(found: Sequence[Emergence], order: Agreement, first: Agreement) -> None:
    """Print the onsets of each run, then the order of emergence over several."""
    out = console()
    for emergence in found:
        out.print(tinted(f"{emergence.run}: onsets in steps (95 %), by attention, change point and cost", "bold"))
        out.print("\n".join(lines(emergence)) + "\n")
    if order.runs > 1:
        tell_order([emergence.first_events for emergence in found], first, "first path of each kind")
        if order.events != first.events:
            tell_order([emergence.events for emergence in found], order, "all paths, by rank in layer order")


def tell_order(runs: Sequence[Mapping[str, Onset]], order: Agreement, what: str) -> None:
    """Print each path's onsets across runs, and how far the runs agree on the order."""
    out = console()
    out.print(tinted(what, "bold"), f", over {count(order.runs, 'run')}, in modal order", sep="")
    table = Table(box=None, pad_edge=False)
    for column in ("path", "runs", "median onset", "range", "not emerged"):
        table.add_column(column, justify="left" if column == "path" else "right")
    for name in order.events:
        onsets = [events[name] for events in runs if name in events]
        known = [onset.step for onset in onsets if onset.step is not None]
        place = {"never": math.inf, "already": -math.inf}
        median = statistics.median_low([place.get(o.status, o.step or 0.0) for o in onsets])
        middle = f"{median:.0f}" if math.isfinite(median) else "never" if median > 0 else "from the start"
        ends = f"{min(known):.0f}–{max(known):.0f}" if known else ""
        never = sum(onset.status == "never" for onset in onsets)
        table.add_row(name, str(len(onsets)), middle, ends, str(never) if never else "")
    out.print(table)
    low, high = order.holds_interval
    holds = (
        f"in {order.holds} of {count(order.runs, 'run')} no pair contradicts this order (95 %: {low:.2f}–{high:.2f})"
    )
    out.print(f"{holds}; in {order.confirmed} every pair confirms it")
    unsure = sum(pair.undetermined + pair.absent for pair in order.pairs)
    out.print(f"pairs with undetermined order: {unsure} of {len(order.pairs) * order.runs}")
    if order.mean_tau is not None:
        ends = "" if not order.mean_tau_interval else " ({:.2f} to {:.2f})".format(*order.mean_tau_interval)
        out.print(f"Kendall's τ, mean over pairs of runs: {order.mean_tau:.2f}{ends}\n")
