"""`hopscope list [KIND]`: the tasks, models, measures, experiments … that are available."""

from __future__ import annotations

import shutil
import textwrap

import click

from hopscope.cli.options import as_json, print_json, say
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.core.wording import beside

FOLDERS = {
    "tasks": "tasks",
    "models": "models",
    "attention": "models.attention",
    "positions": "models.positions",
    "optimizers": "training.optimizers",
    "measures": "measures",
    "experiments": "experiments",
    "formulations": "formulations",
    "benchmarks": "language.benchmarks",
    "curricula": "curricula",
}
KINDS = (*FOLDERS, "presets")


@click.command("list")
@click.argument("kind", required=False, shell_complete=lambda _, __, begun: [k for k in KINDS if k.startswith(begun)])
@as_json
def command(kind: str | None, as_json: bool) -> None:
    """List the names of every kind, or of one KIND, such as tasks, with a description of each."""
    if kind is not None and kind not in KINDS:
        raise BadInput(f"KIND must be one of {', '.join(KINDS)}; got {kind!r}")
    if as_json:
        asked = FOLDERS if kind is None else (kind,)
        print_json({one: [{"name": n, "summary": s} for n, s in summaries(one).items()] for one in asked})
    elif kind is None:
        overview()
    else:
        say("\n".join(f"{name}\n{beside('', words, width(), 4)}" for name, words in summaries(kind).items()))


def summaries(kind: str) -> dict[str, str]:
    """The names of a kind with their summaries; imports no variant."""
    if kind in FOLDERS:
        return {name: catalogue.summary(FOLDERS[kind], name) for name in catalogue.names(FOLDERS[kind])}
    from hopscope.configuration.presets import RECIPES  # imports PyTorch

    return {name: recipe.summary for name, recipe in RECIPES.items()}


def overview() -> None:
    """Print a line per kind: the number of variants, and as many names as fit."""
    for kind, folder in FOLDERS.items():
        names = catalogue.names(folder)
        shown = textwrap.shorten(", ".join(names), width() - 19, placeholder=" …")
        say(f"{kind:<14}{len(names):>3}  {shown}")
    say("\n'hopscope list KIND', such as 'hopscope list tasks', describes each.")
    say("There is also 'hopscope list presets'.")


def width() -> int:
    """The width of a line in characters, from 24 to 100; on a narrower screen lines are broken by the terminal."""
    return max(24, min(100, shutil.get_terminal_size((80, 24)).columns))
