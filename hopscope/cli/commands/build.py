"""`hopscope build D`: a transformer with hand-set weights for D hops, stored as a run, and its true circuits."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from hopscope.builds.build import Build, Built, build
from hopscope.circuits.judging.truths import verified
from hopscope.circuits.text_drawing import drawing
from hopscope.cli.commands.show import describe
from hopscope.cli.options import (
    Brief,
    console,
    json_option,
    out_option,
    pick,
    print_json,
    say,
    setting_options,
)
from hopscope.core.catalogue import names
from hopscope.core.settings import BadInput, flag_of
from hopscope.core.terminal import Narrator
from hopscope.problem.paths import Path as Attended
from hopscope.runs.from_weights import write_made
from hopscope.runs.run import Run
from hopscope.tasks.base import Task
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval

TASKS: dict[str, type[Task]] = {"retrieval": Retrieval, "symbolic_retrieval": SymbolicRetrieval}


def task_of(given: dict[str, Any]) -> Task:
    """The task of --task. Raises BadInput for an option of the other task."""
    kind = TASKS[given["task"]]
    for other in TASKS.values():
        for field in fields(other):
            if given.get(field.name) is not None and field.name not in kind.__dataclass_fields__:
                raise BadInput(
                    f"--{flag_of(field)} is for {other.name()}; leave it out, or choose --task {other.name()}"
                )
    return pick(kind, {**given, "n_hops": given["hops"]})  # type: ignore[no-any-return]


@click.command(
    "build",
    cls=Brief,
    common=("task", "out", "as_json"),
    help="Build a transformer with hand-set weights that follows D hops, and store it as a run, with truth.json: its "
    "schedule, and its minimal circuits under each kind of ablation. Algorithms: "
    f"{', '.join(names('theory.algorithms'))}.",
)
@click.argument("hops", metavar="D", type=click.IntRange(1, 256))
@click.option("--task", type=click.Choice(list(TASKS)), default="retrieval", show_default=True, help="Its task.")
@setting_options(Build)
@setting_options(Retrieval, "n_hops")
@setting_options(SymbolicRetrieval, *Retrieval.__dataclass_fields__)
@out_option("Run folder; default runs/build-IDENTITY.")
@json_option("Print summary and truth as JSON.")
def command(**given: Any) -> None:
    """Build, store and print."""
    with Narrator("building"):
        built = build(task_of(given), pick(Build, given))
    folder = given["out"] or Path("runs") / f"build-{built.config.identity}"
    with Narrator("verifying the truth about its circuits"):
        truth = verified(built.model, built.config.task, built.truth)
        stored = write_made(built.config, folder, built.model, {"truth.json": truth})
    if given["as_json"]:
        print_json(stored.summary() | {"truth": truth})
    else:
        tell(stored, built)


def tell(stored: Run, built: Built) -> None:
    """Print the run's summary and the schedule."""
    describe(stored)
    say("\nschedule, layers and heads counted from 0:\n")
    say(drawing(map(Attended.from_dict, built.truth["schedule"]), console().width))
    say(f"\nNext: hopscope draw {stored.path}")
