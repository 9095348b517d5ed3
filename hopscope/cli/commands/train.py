"""`hopscope train TASK`: train a run; resume it if it was begun, and only show it if it is done."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from hopscope.cli.commands.show import describe, print_settings
from hopscope.cli.options import (
    PerVariant,
    device,
    dry_run,
    free_words,
    json_option,
    out_option,
    pick,
    print_json,
    progress,
    say,
    setting_options,
    threads_option,
)
from hopscope.configuration.config import Config, Training
from hopscope.configuration.presets import Recipe, recipe
from hopscope.core import catalogue
from hopscope.core.settings import BadInput, flag_of
from hopscope.core.terminal import Narrator, shows_progress
from hopscope.core.wording import count, duration
from hopscope.experiments.priors import prior_of
from hopscope.interventions.clamps import EXAMPLE, Clamp
from hopscope.models.base import Shape
from hopscope.models.transformer import Architecture
from hopscope.runs.demand import demand
from hopscope.runs.run import Run
from hopscope.tasks.base import Task
from hopscope.training.loop import Watcher, train
from hopscope.training.mirror import TRACKERS, Mirror
from hopscope.training.progress import ProgressBar
from hopscope.training.rehearsal import rehearse

COMMON = ("n_hops", "n_layers", "n_heads", "d_model", "steps", "batch", "lr", "seed", "preset", "out", "dry_run")


def preset_for(kind: type[Task], name: str | None) -> Recipe:
    """The preset of a name, an empty one for None. Raises BadInput for an unknown one, or one of another task."""
    if name is None:
        return Recipe("", {}, {}, {})
    chosen = recipe(name)
    if chosen.task_name != kind.name():
        raise BadInput(f"preset {name} is for {chosen.task_name}, not for {kind.name()}")
    return chosen


def model_of(given: dict[str, Any], preset: Recipe) -> Shape:
    """The model's shape. Raises BadInput if options of the transformer are given with --model."""
    if given["model_choice"] is None:
        return pick(Architecture, given, preset.model)
    for field in dataclasses.fields(Architecture):
        if given.get(field.name) is not None:
            raise BadInput(f"--{flag_of(field)} is for the transformer; give settings with the model: NAME(setting=1)")
    return catalogue.chosen("models", given["model_choice"])


@click.command("train", cls=PerVariant, folder="tasks", common=COMMON)
@click.option(
    "--model",
    "model_choice",
    metavar="NAME(SETTING=VALUE)",
    help="Another model than the transformer (a file of models/), with its settings. Options of the transformer "
    "(--layers to --positions) cannot be given then.",
)
@setting_options(Architecture)
@setting_options(Training, "clamps")
@click.option(
    "--clamp",
    "clamps",
    multiple=True,
    metavar="PATH KIND@STEP",
    help=f"From a step on, hold a path at its ideal pattern ('{EXAMPLE}') or silence it (off@200); repeatable.",
)
@click.option("--preset", metavar="NAME", help="Start from a recipe of 'hopscope list presets'; options override it.")
@out_option("Run folder; default runs/TASK-IDENTITY.")
@device
@threads_option("CPU threads; runs are bit-exact only for the same number.")
@click.option(
    "--compile",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    show_default=True,
    help="torch.compile; auto: where it pays (a GPU, or large bfloat16 steps).",
)
@click.option("--mirror", type=click.Choice(TRACKERS), help="Also copy metrics to this tracker.")
@dry_run
@progress
@json_option("Print the finished run's summary as JSON.")
def command(kind: type[Task], given: dict[str, Any]) -> None:
    """Train a transformer on TASK; the same command resumes an unfinished run, and shows a finished one."""
    preset = preset_for(kind, given["preset"])
    given["clamps"] = "; ".join(str(Clamp.parse(text)) for text in given["clamps"]) or None
    task, training = pick(kind, given, preset.task), pick(Training, given, preset.training)
    config = Config(task, model_of(given, preset), training)
    folder = given["out"] or Path("runs") / f"{kind.name()}-{config.identity}"
    if given["dry_run"]:
        estimate(config, folder, given)
        return
    watchers: list[Watcher] = [ProgressBar()] * shows_progress()
    if given["mirror"]:
        watchers.append(Mirror(given["mirror"], name=folder.name))
    found = (folder / "DONE").is_file()
    finished = train(
        config,
        folder,
        device=given["device"],
        threads=given["threads"],
        compile=given["compile"],
        watchers=tuple(watchers),
    )
    if given["as_json"]:
        print_json(finished.summary())
    else:
        tell(finished, found)


def estimate(config: Config, folder: Path, given: dict[str, Any]) -> None:
    """Print what the rest of the run would take; write nothing. Raises BadInput if it cannot be trained."""
    begun = Run(folder) if (folder / "config.json").is_file() else None
    if begun is not None and (difference := config.difference(begun.config)):
        raise BadInput(f"{folder} holds another run ({difference}); choose another folder")
    with Narrator("timing a few steps"):
        found = rehearse(config, begun.step if begun else 0, given["device"], given["threads"])
    if given["as_json"]:
        about = {"run": str(folder), "identity": config.identity, "config": config.as_dict(), "prior": prior_of(config)}
        print_json({**about, **dataclasses.asdict(found)})
        return
    say(f"{folder}: {found.parameters:,} parameters" + (f", at step {begun.step}" if begun else ""))
    print_settings(config)
    say(f"prior  {prior_of(config)}")
    say(f"memory: at least {demand(config).in_words()}{free_words()}")
    each = f"{count(found.steps, 'step')} of {duration(found.step_seconds)} each"
    say(f"time: about {duration(found.seconds)}, for {each}, as timed here, without validation")


def tell(run: Run, found: bool) -> None:
    """Print the run's summary; `found` says that it was finished before."""
    if found:
        _ = run.summary()  # raises if a file is damaged
        say(f"{run.path} was already finished; nothing was trained.")
    describe(run)
    say(f"\nNext: hopscope draw {run.path}")
