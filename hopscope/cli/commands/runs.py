"""`hopscope runs [DIR]`: list, filter, compare or delete the runs in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hopscope.cli.options import PATH, as_json, console, print_json, say
from hopscope.core.places import kind_of
from hopscope.core.settings import BadInput, guess
from hopscope.core.wording import count

if TYPE_CHECKING:
    from hopscope.runs.run import Run


@click.command("runs")
@click.argument("folder", metavar="[DIR]", default=Path("runs"), type=PATH)
@click.option("--where", multiple=True, metavar="SETTING=VALUE", help="Only runs with this setting; repeatable.")
@click.option("--compare", is_flag=True, help="Show the settings in which the runs differ.")
@click.option("--delete", is_flag=True, help="Delete the runs that are listed, after asking.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@as_json
def command(folder: Path, where: tuple[str, ...], compare: bool, delete: bool, yes: bool, as_json: bool) -> None:
    """List the runs in DIR (default: runs), the newest first, with task, step and losses.

    Settings are those of 'hopscope show', such as --where n_layers=4 --where seed=0.
    """
    if yes and not delete:
        raise BadInput("--yes says that --delete need not ask; give both, or neither")
    conditions, there = list(map(parsed, where)), runs_in(folder)
    check_known(there, conditions)
    found = [run for run in there if all(fits(run, condition) for condition in conditions)]
    if as_json:
        print_json([entry(run) for run in found])
    elif not found:
        say(f"no run in {folder}{' fits' if where else ''}")
    else:
        console().print(table(found, differing(found) if compare else ()))
    if delete and found:
        remove(found, yes)


def runs_in(folder: Path) -> list[Run]:
    """The runs in a folder, or the folder's own run, most recently written first. Raises BadInput."""
    from hopscope.runs.run import Run

    if not folder.is_dir():
        raise BadInput(
            f"there is no folder {folder}: 'hopscope train' makes the folder runs in the current folder; "
            "'hopscope runs DIR' lists the runs in another"
        )
    places = [folder, *folder.iterdir()]
    found = [place for place in places if (place / "config.json").is_file() and kind_of(place) == "run"]
    return [Run(place) for place in sorted(found, key=lambda place: (-place.stat().st_mtime, place.name))]


def parsed(condition: str) -> tuple[str, str]:
    """Setting and value of a condition such as `seed=0`. Raises BadInput."""
    name, equals, value = condition.partition("=")
    if not name or not equals:
        raise BadInput(f"a condition must be written such as seed=0; got {condition!r}")
    return name.replace("-", "_"), value


def settings_of(run: Run) -> dict[str, Any]:
    """All settings of a run by name; the task's `name` is `task`, another model's is `model`."""
    parts = run.config.as_dict()
    named = {"task": parts["task"]["name"], "model": parts["model"].get("name", "transformer")}
    return {**parts["task"], **parts["model"], **parts["training"], **named}


def known_settings(run: Run) -> dict[str, Any]:
    """All settings of a run by name; empty if they cannot be read."""
    try:
        return settings_of(run)
    except BadInput:
        return {}


def check_known(runs: Sequence[Run], conditions: Sequence[tuple[str, str]]) -> None:
    """Raise BadInput for a condition on a setting that no run has."""
    names = {name for run in runs for name in known_settings(run)}
    for name, _ in conditions:
        if names and name not in names:
            hint = guess(name, names) or "; 'hopscope show DIR' lists a run's"
            raise BadInput(f"no run there has a setting {name}{hint}")


def fits(run: Run, condition: tuple[str, str]) -> bool:
    """Whether a run's setting has this value; False if its settings cannot be read."""
    name, value = condition
    settings = known_settings(run)
    return name in settings and str(settings[name]).lower() == value.lower()


def differing(runs: Sequence[Run]) -> list[str]:
    """The settings in which runs differ."""
    every = [settings for run in runs if (settings := known_settings(run))]
    names = dict.fromkeys(name for settings in every for name in settings)
    return [name for name in names if len({str(settings.get(name)) for settings in every}) > 1]


def entry(run: Run) -> dict[str, Any]:
    """A run as `--json` prints it; for a damaged run what can be read, and the reason as `damaged`."""
    nothing = {"task": "", "identity": "", "step": 0, "steps": 0, "done": False, "hop_losses": {}, "settings": {}}
    try:
        known = nothing | of_config(run)
        losses = run.rows[-1]["hop_losses"] if run.rows else {}
        return {"run": str(run.path), **known, "hop_losses": losses}
    except BadInput as damage:
        known = nothing | (of_config(run) if "config" in vars(run) else {})  # cached if it could be read
        return {"run": str(run.path), **known, "damaged": str(damage)}


def of_config(run: Run) -> dict[str, Any]:
    """The values of `entry` that do not need the run's metrics. Raises BadInput."""
    return {
        "task": run.config.task.name(),
        "identity": run.config.identity,
        "step": run.step,
        "steps": run.config.training.steps,
        "done": run.done,
        "settings": settings_of(run),
    }


def table(runs: Sequence[Run], more: Sequence[str]) -> Any:
    """A table with a row per run; `more` are further settings, one column each."""
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for name in ("run", "task", "step", "losses", *more):
        shown.add_column(name, justify="right" if name == "step" else "left", overflow="fold")
    for one in map(entry, runs):
        losses = " ".join(f"{loss:.3f}" for loss in one["hop_losses"].values())
        losses = f"damaged: {one['damaged']}" if "damaged" in one else losses
        step = f"{one['step']}" + ("" if one["done"] else f"/{one['steps']}")
        shown.add_row(one["run"], one["task"], step, losses, *(str(one["settings"].get(name, "")) for name in more))
    return shown


def remove(runs: Sequence[Run], yes: bool) -> None:
    """Delete runs after confirmation; a run that is being trained is kept, and a message says so."""
    if not yes and not click.confirm(f"Delete {count(len(runs), 'run')}?", err=True):
        say("nothing was deleted", err=True)
        return
    for run, reason in zip(runs, deleted(runs), strict=True):
        say(f"{run.path}: {reason or 'deleted'}")


def deleted(runs: Sequence[Run]) -> Iterator[str]:
    """Delete each run; yield the reason if it was kept, else an empty string."""
    from hopscope.core.storage import Busy, discard

    for run in runs:
        try:
            with run.writing():
                discard(run.path)
            yield ""
        except Busy:
            yield "not deleted, because another process is training in it"
