"""`hopscope reproduce NAME`: make the runs, table, figure and claims of an experiment."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hopscope.cli.commands.report import tell_claims
from hopscope.cli.options import (
    PATH,
    as_json,
    completed,
    device,
    dry_run,
    free_words,
    print_json,
    progress,
    say,
    say_unverified,
    threads,
)
from hopscope.configuration.config import Config
from hopscope.core import catalogue
from hopscope.core.environment import choose_device
from hopscope.core.memory import memory_free
from hopscope.core.places import CLAIMS, has
from hopscope.core.settings import BadInput
from hopscope.core.terminal import Narrator, shows_progress
from hopscope.core.wording import beside, count, duration
from hopscope.experiments.base import SCALES, declared, experiment, offered
from hopscope.experiments.results import claim_ids, claims_in, outstanding, room
from hopscope.experiments.runner import Outcome, reproduce, run_folder
from hopscope.experiments.work import Work
from hopscope.runs.demand import check_together, gib
from hopscope.training.progress import ProgressBar

UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text: str | None) -> float | None:
    """The seconds in `9m`, `90s`, `1.5h` or a plain number; None for None. Raises BadInput."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if not match or float(match[1]) == 0:
        raise BadInput(f"budget must be a time such as 90s, 9m or 1.5h; got {text!r}")
    return float(match[1]) * UNITS[match[2] or "s"]


#: Options of every command that reproduces an experiment.
scale = click.option("--scale", default="quick", show_default=True, metavar="|".join(SCALES), help="How large.")
limit = click.option("--budget", metavar="TIME", help="Stop after 90s, 9m, 1.5h …; the same command continues.")
runs_folder = click.option("--runs", type=PATH, default=Path("runs"), show_default=True, help="Run folders.")
results_folder = click.option(
    "--results",
    type=PATH,
    help="Folder of tables, figures and claims  [default: its study's results; runs/quick-results at scale quick]",
)


@click.command("reproduce")
@click.argument("name", required=False, shell_complete=completed("experiments"))
@scale
@limit
@runs_folder
@results_folder
@device
@threads
@dry_run
@click.option("--list", "list_them", is_flag=True, help="List the experiments; with NAME or all, in detail.")
@progress
@as_json
def command(
    name: str | None,
    scale: str,
    budget: str | None,
    runs: Path,
    results: Path | None,
    device: str,
    threads: int | None,
    dry_run: bool,
    list_them: bool,
    as_json: bool,
) -> None:
    """Reproduce the experiment NAME (or all): train, tabulate, draw, and judge the claims."""
    if list_them:
        show_list(name, as_json)
        return
    if name is None:
        raise BadInput("say which experiment, or all; 'hopscope reproduce --list' names them")
    names = [name] if name != "all" else [each for each in catalogue.names("experiments") if scale in offered(each)]
    if not names:
        raise BadInput(f"no experiment has runs at scale {scale}; the scales are {', '.join(SCALES)}")
    spared = seconds(budget)
    choose_device(device)
    deadline = None if spared is None else time.monotonic() + spared
    with Narrator("reading what is to be done"):
        for each in names:
            check_together(to_train(each, scale, runs, results))  # raises before the first is trained
    if dry_run:
        estimate(names, scale, runs, results, 1, as_json)
        return
    outcomes = [
        reproduce(
            each,
            scale,
            runs=runs,
            results=place(each, scale, runs, results),
            budget=None if deadline is None else max(0.0, deadline - time.monotonic()),
            watcher=(lambda label: ProgressBar(label=label)) if shows_progress() else None,
            telling=Narrator,
            device=device,
            threads=threads,
        )
        for each in names
    ]
    tell(outcomes, as_json)


def place(name: str, scale: str, runs: Path, results: Path | None) -> Path:
    """The folder for an experiment's results: the given one, else the default of its scale. Raises BadInput."""
    return results or (runs / "quick-results" if scale == "quick" else room(name))


def left_of(name: str, scale: str, runs: Path, results: Path | None) -> list[Config | Work]:
    """The runs and other work of an experiment that are not done. Raises BadInput."""
    results = place(name, scale, runs, results)
    return [one for one in outstanding(name, scale, results) if not (run_folder(runs, one) / "DONE").is_file()]


def to_train(name: str, scale: str, runs: Path, results: Path | None) -> list[Config]:
    """The training runs that are not done; the memory of other work cannot be estimated. Raises BadInput."""
    return [one for one in left_of(name, scale, runs, results) if isinstance(one, Config)]


def estimate(names: Sequence[str], scale: str, runs: Path, results: Path | None, at_once: int, as_json: bool) -> None:
    """Print the memory of the largest runs, and the time according to each experiment's `SECONDS`."""
    found = [estimated(name, scale, runs, results, at_once) for name in names]
    if as_json:
        print_json(found)
        return
    for one in found:
        memory = f"; at least {gib(one['memory_bytes'])} of memory{free_words()}" if one["memory_bytes"] else ""
        words = f"{one['left']} of {count(one['of'], 'run')} left, about {duration(one['seconds'])} on two idle cores"
        say(f"{one['experiment']} at {scale}: {words}{memory}")


def estimated(name: str, scale: str, runs: Path, results: Path | None, at_once: int) -> dict[str, Any]:
    """The estimate for one experiment, as `--json` prints it; memory in bytes, time in seconds."""
    left, of = len(left_of(name, scale, runs, results)), len(declared(name, scale))
    memory = check_together(to_train(name, scale, runs, results), at_once)
    return {
        "experiment": name,
        "scale": scale,
        "of": of,
        "left": left,
        "memory_bytes": memory,
        "memory_free_bytes": memory_free(),
        "seconds": round(experiment(name).SECONDS[scale] * left / max(1, of), 1),
    }


def tell(outcomes: list[Outcome], as_json: bool) -> None:
    """Print the claims, and what is left to do."""
    say_unverified(path for outcome in outcomes for path in outcome.trained)
    judged = [outcome.results for outcome in outcomes if outcome.results and has(outcome.results, CLAIMS)]
    claims = [row for folder in judged for row in claims_in(folder / CLAIMS) if row["scale"] == outcomes[0].scale]
    if as_json:
        print_json({"done": all(o.done for o in outcomes), "left": sum(o.left for o in outcomes), "claims": claims})
        return
    if claims:
        tell_claims(claims)
    for outcome in outcomes:
        if outcome.results:
            say(f"{outcome.results}: table.csv, figure.svg, claims.json")
        if outcome.left:
            left = count(outcome.left, "run is", "runs are")
            say(f"{outcome.name}: the budget is spent, {left} left; the same command continues")
        elif not outcome.done:
            say(f"{outcome.name}: the budget is spent, all runs are done; the same command measures them")


def show_list(name: str | None, as_json: bool) -> None:
    """Print the names of all experiments; for one, or with `all`, also its claims and how long it takes."""
    known = catalogue.names("experiments")
    names = known if name in (None, "all") else [str(name)]
    if as_json:
        print_json([about(each) for each in names])
    elif name is None:
        say(textwrap.fill(", ".join(known), 80))
        say("\n'hopscope reproduce NAME --list' describes one; with all as NAME, each.")
    else:
        say("\n\n".join(in_words(about(each)) for each in names))


def about(name: str) -> dict[str, Any]:
    """An experiment's name, summary, claims, and seconds by scale. Raises BadInput."""
    summary, seconds = catalogue.summary("experiments", name), experiment(name).SECONDS
    return {"name": name, "summary": summary, "claims": claim_ids(name), "seconds": seconds}


def in_words(one: dict[str, Any]) -> str:
    """The description of an experiment in lines of 80 characters."""
    times = ", ".join(f"{scale} {duration(spent)}" for scale, spent in one["seconds"].items())
    ids = ", ".join(one["claims"]) or "nothing yet: it has no results"
    parts = [one["summary"], f"judges {ids}", f"takes {times}"]
    return "\n".join([one["name"], *(beside("", part, 80, 4) for part in parts)])
