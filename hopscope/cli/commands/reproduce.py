"""`hopscope reproduce NAME`: an experiment's runs, table, figure and claims."""

from __future__ import annotations

import re
import textwrap
import time
from pathlib import Path

import click

from hopscope.cli.commands.report import claims_table
from hopscope.cli.options import as_json, console, print_json, say, say_unverified
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.experiments.base import SCALES, declared, experiment, offered
from hopscope.experiments.results import all_claims
from hopscope.experiments.runner import Outcome, reproduce
from hopscope.training.progress import ProgressBar

UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text: str | None) -> float | None:
    """`9m`, `90s`, `1.5h` or plain seconds."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if not match or float(match[1]) == 0:
        raise BadInput(f"budget must be a time such as 90s, 9m or 1.5h; got {text!r}")
    return float(match[1]) * UNITS[match[2] or "s"]


@click.command("reproduce")
@click.argument("name", required=False)
@click.option("--scale", default="quick", show_default=True, metavar="|".join(SCALES), help="How large.")
@click.option("--budget", metavar="TIME", help="Stop after this long (90s, 9m, 1.5h); the same command goes on.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Run folders.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    help="Folder of tables, figures and claims  [default: results; runs/quick-results at scale quick]",
)
@click.option("--device", default="auto", show_default=True, metavar="auto|cpu|cuda", help="Where to train.")
@click.option("--threads", type=click.IntRange(1), help="CPU threads.")
@click.option("--list", "list_them", is_flag=True, help="Name every experiment, its claims and its times.")
@as_json
def command(
    name: str | None,
    scale: str,
    budget: str | None,
    runs: Path,
    results: Path | None,
    device: str,
    threads: int | None,
    list_them: bool,
    as_json: bool,
) -> None:
    """Reproduce the experiment NAME (or `all`): train, tabulate, draw, judge the paper's claims."""
    if list_them:
        show_list(as_json)
        return
    if name is None:
        raise BadInput("say which experiment, or all; 'hopscope reproduce --list' names them")
    names = [name] if name != "all" else [each for each in catalogue.names("experiments") if scale in offered(each)]
    if not names:
        raise BadInput(f"no experiment has runs at scale {scale}; the scales are {', '.join(SCALES)}")
    limit = seconds(budget)
    deadline = None if limit is None else time.monotonic() + limit
    for each in names:
        declared(each, scale)  # complain about any of them before training the first
    folder = results or (runs / "quick-results" if scale == "quick" else Path("results"))
    outcomes = [
        reproduce(
            each,
            scale,
            runs=runs,
            results=folder,
            budget=None if deadline is None else max(0.0, deadline - time.monotonic()),
            watcher=lambda label: ProgressBar(label=label),
            device=device,
            threads=threads,
        )
        for each in names
    ]
    tell(outcomes, folder, as_json)


def tell(outcomes: list[Outcome], results: Path, as_json: bool) -> None:
    """What was found, or what is left to do."""
    say_unverified(path for outcome in outcomes for path in outcome.trained)
    names = {outcome.name for outcome in outcomes if outcome.results}
    claims = [row for row in all_claims(results) if row["experiment"] in names and row["scale"] == outcomes[0].scale]
    if as_json:
        print_json({"done": all(o.done for o in outcomes), "left": sum(o.left for o in outcomes), "claims": claims})
        return
    if claims:
        console().print(claims_table(claims))
    for outcome in outcomes:
        if outcome.results:
            say(f"{outcome.results}: table.csv, figure.svg, figure.png, claims.json")
        if outcome.left:
            say(f"{outcome.name}: the budget is spent, {outcome.left} runs are left; the same command goes on")
        elif not outcome.done:
            say(f"{outcome.name}: the budget is spent, all runs are done; the same command measures them")


def show_list(as_json: bool) -> None:
    """Every experiment with what it takes."""
    found = [
        {
            "name": name,
            "summary": catalogue.summary("experiments", name),
            "claims": list(experiment(name).CLAIMS),
            "seconds": experiment(name).SECONDS,
        }
        for name in catalogue.names("experiments")
    ]
    if as_json:
        print_json(found)
        return
    for one in found:
        times = ", ".join(f"{scale} {spent} s" for scale, spent in one["seconds"].items())
        claims = textwrap.fill(", ".join(one["claims"]), 116, initial_indent="    judges ", subsequent_indent="      ")
        say(f"{one['name']}: {one['summary']}\n{claims}\n    takes {times}")
