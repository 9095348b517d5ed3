"""`hopscope emerge DIR …`: when each path of a run's circuit appeared, and in which order over several runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from hopscope import paths
from hopscope.cli.options import console, print_json
from hopscope.emergence.order import Agreement, agreement
from hopscope.emergence.track import Emergence, follow, strong_paths
from hopscope.runs import Run, is_shipped, load
from hopscope.settings import BadInput
from hopscope.storage import clear_errors, write_file, write_json


@click.command("emerge")
@click.argument("folders", metavar="DIR…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--path", "named", multiple=True, metavar="PATH", help="Follow this path, 'L1H0 query->value[1]'; repeatable."
)
@click.option("--all", "every", is_flag=True, help="Follow every path that ends with mean attention above 0.5.")
@click.option("--n", type=click.IntRange(8), default=256, show_default=True, help="Sequences (the paper takes 32).")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sequences.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Where to; default the (first) run's folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(
    folders: tuple[Path, ...], named: tuple[str, ...], every: bool, n: int, seed: int, out: Path | None, as_json: bool
) -> None:
    """Follow the paths of a run's circuit over its checkpoints: onset by the paper's rule, change point, causal onset.

    With several runs, also the order of emergence over them.
    """
    if named and every:
        raise BadInput("give --path or --all, not both")
    runs = [load(folder) for folder in folders]
    found = [follow(run, chosen(run, named, every), n=n, seed=seed, watch=watch) for run in runs]
    order = agreement([emergence.events for emergence in found])
    where = out or (Path("demo-emergence") if is_shipped(folders[0]) else folders[0])
    written = store(found, order, where)
    if as_json:
        print_json({"runs": [emergence.as_dict() for emergence in found], "order": order.as_dict()})
    else:
        tell(found, order)
        click.echo("\n" + " ".join(map(str, written)))


def watch(words: str) -> None:
    """Say on stderr what is being done, in one line where that is a terminal."""
    print(
        f"\r\x1b[Khopscope: {words} …" if sys.stderr.isatty() else f"hopscope: {words} …",
        end="" if sys.stderr.isatty() else "\n",
        file=sys.stderr,
        flush=True,
    )


def chosen(run: Run, named: tuple[str, ...], every: bool) -> list[paths.Path]:
    """The paths that were asked for; none: those of the circuit."""
    return strong_paths(run, 0.5) if every else [paths.Path.parse(text) for text in named]


def store(found: list[Emergence], order: Agreement, folder: Path) -> list[Path]:
    """emergence.csv, emergence.json and the figure. Raises CannotSave."""
    import pandas

    from hopscope.drawing.emergence import emergence_curves
    from hopscope.drawing.style import save

    with clear_errors(folder):
        (folder / "pictures").mkdir(parents=True, exist_ok=True)
    table = pandas.concat([emergence.table() for emergence in found], ignore_index=True)
    write_file(folder / "emergence.csv", table.to_csv(index=False).encode())
    write_json(folder / "emergence.json", {"runs": [e.as_dict() for e in found], "order": order.as_dict()})
    onsets = {(e.run, f.name): f.onset.step for e in found for f in e.paths if f.onset.step is not None}
    hop_names = list(found[0].learnt)
    figure = emergence_curves(table, onsets, {e.run: e.hops for e in found}, hop_names)
    return [folder / "emergence.csv", folder / "emergence.json", *save(figure, folder / "pictures" / "emergence")]


def tell(found: list[Emergence], order: Agreement) -> None:
    """A table per run, then the order."""
    out = console()
    for emergence in found:
        table = Table(title=f"{emergence.run}: onsets in steps", title_justify="left", box=None, pad_edge=False)
        for column in ("path", "attention", "onset (0.5)", "change point", "causal onset", "silencing costs"):
            table.add_column(column, justify="left" if column == "path" else "right")
        for f in sorted(emergence.paths, key=lambda f: f.onset.step if f.onset.step is not None else float("inf")):
            change = f"{f.change.step:.0f} ({f.change.low:.0f}–{f.change.high:.0f})" if f.change else "none"
            row = (f"{f.strength[-1]:.2f}", when(f.onset), change, when(f.causal.onset), f"{f.causal.effect:.3f}")
            table.add_row(str(f.path), *row)
        out.print(table)
        hops = ", ".join(f"{hop} {when(learnt)}" for hop, learnt in emergence.learnt.items())
        out.print(f"hops learnt: {hops}\n")
    out.print("order: " + " → ".join(order.events))
    if order.runs > 1:
        low, high = order.holds_interval
        tau = "not determined" if order.mean_tau is None else f"{order.mean_tau:.2f}"
        out.print(
            f"it holds in {order.holds} of {order.runs} runs (95 %: {low:.2f} to {high:.2f}); mean pairwise τ {tau}"
        )


def when(onset: Any) -> str:
    """An onset in a few characters, with its interval; censored ones say so."""
    if onset.step is None:
        return f"never (by {onset.after})" if onset.status == "never" else "from the start"
    ends = f" ({onset.low:.0f}–{onset.high:.0f})" if onset.low is not None and onset.high is not None else ""
    return f"{onset.step:.0f}{ends}"
