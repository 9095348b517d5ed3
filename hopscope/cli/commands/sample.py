"""`hopscope sample TASK`: one instance of a task, as a table or as JSON.

Instances are drawn with PyTorch. Without it, the command shows the example in the task's docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from hopscope.cli.options import WITHOUT_TORCH, PerVariant, console, json_option, pick, print_json, say
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.core.wording import shape

if TYPE_CHECKING:
    from torch import Tensor

    from hopscope.tasks.base import Batch, BestAnswer, Task

SHOWN = 64  # queries or answers of one sequence, at most


def as_dict(batch: Batch) -> dict[str, Any]:
    """The first sequence in the format of docs/contracts.md."""
    return {
        "task": {"name": batch.task.name(), **batch.task.as_dict()},
        **batch.problem(0).as_dict(),
        "answers": batch.task.successors(batch.draw, 0),
        "roles": batch.roles.labels(0),
        "inputs": batch.inputs[0].tolist(),
        "targets": batch.targets[0].tolist(),
    }


def show(batch: Batch) -> None:
    """Print the positions with their roles, then the queries with their answers."""
    from rich.table import Table

    from hopscope.core.terminal import tinted

    task, problem, out = batch.task, batch.problem(0), console()
    values = task.values(batch.draw, 0)
    names, size = {symbol_key(value): name for name, value in values.items()}, max(v.numel() for v in values.values())
    table = Table(title=f"{task.name()}: one sequence of {task.n_positions} positions", title_justify="left", box=None)
    for column in ("position", "symbol", "chain and role", "input"):
        table.add_column(column, justify="right" if column == "position" else "left", no_wrap=True)
    for position, (role, features) in enumerate(zip(batch.roles.labels(0), batch.inputs[0], strict=True)):
        symbol = features[:size] if features.ndim else features
        table.add_row(str(position), names.get(symbol_key(symbol), ""), role, numbers(features))
    out.print(table)
    out.print()
    for query, answer in list(zip(problem.queries, task.successors(batch.draw, 0), strict=True))[:SHOWN]:
        out.print("query", tinted(query, "bold"), " leads to ", " → ".join(answer))
    if task.answers_by_force():
        best = [known(one) for asked in task.brute_force(batch.inputs[0].tolist()) for one in asked]
        out.print("answers from the inputs alone (–: none) ", " ".join(best[:SHOWN]) + (" …" if best[SHOWN:] else ""))
    sizes = shape(batch.targets.shape[1:])
    out.print(f"targets: {sizes} (queries × outputs), hops {', '.join(task.hop_names)}")


def known(best: BestAnswer) -> str:
    """An answer of `brute_force` as text: the token or number; the likeliest token with its probability; or a dash."""
    if best is None:
        return "–"
    if isinstance(best, Mapping):
        token = max(best, key=lambda token: best[token])
        return f"{token} ({best[token]:.2f})"
    return f"{best:.2f}" if isinstance(best, float) else str(best)


WIDEST = 12  # features that are shown of a position


def symbol_key(value: Tensor) -> tuple[float, ...]:
    """A symbol's features as a key of a dictionary."""
    return tuple(value.flatten().tolist())


def numbers(features: Tensor) -> str:
    """The first features of one position, or its token number."""
    if not features.ndim:
        return str(int(features))
    return " ".join(f"{x:6.2f}" for x in features[:WIDEST].tolist()) + (" …" if len(features) > WIDEST else "")


class Sample(PerVariant):
    """A command per task that draws an instance; without PyTorch it shows the task's docstring."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        try:
            return super().get_command(context, name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
        return click.Command(
            name,
            callback=lambda: show_description(name),
            help=catalogue.summary(self.folder, name),
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )


def show_description(name: str) -> None:
    """Print the task's docstring with its example; raises BadInput if options for an instance were given."""
    if click.get_current_context().args:
        raise BadInput(f"instances are drawn by PyTorch, which is not installed; {WITHOUT_TORCH}")
    say(described(name))
    say("\nThis is the task's description; instances are drawn by PyTorch, which is not installed.")
    say(f"To draw instances, {WITHOUT_TORCH}")


def described(name: str) -> str:
    """The docstring of the task's class: the first in its file that has an example."""
    classes = [node for node in catalogue.parsed("tasks", name).body if isinstance(node, ast.ClassDef)]
    texts = [ast.get_docstring(node) or "" for node in classes]
    text = next((text for text in texts if "```" in text), texts[0])
    return text.replace("```\n", "").removesuffix("\n```")


@click.command("sample", cls=Sample, folder="tasks")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which instance.")
@json_option("Print JSON instead of a table.")
def command(kind: type[Task], given: dict[str, Any]) -> None:
    """Show one instance of TASK: positions, roles, queries and answers."""
    batch = pick(kind, given).sample(1, given["seed"])
    if given["as_json"]:
        print_json(as_dict(batch))
    else:
        show(batch)
