"""`hopscope sample TASK`: one instance of a task, as people read it or as JSON."""

from __future__ import annotations

from typing import Any

import click
import torch
from rich.table import Table

from hopscope.cli.options import PerVariant, console, pick, print_json
from hopscope.tasks.base import Batch, Task


def options() -> list[click.Parameter]:
    return [
        click.Option(["--seed"], type=click.IntRange(0), default=0, show_default=True, help="Which instance."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON instead of a table."),
    ]


def run(kind: type[Task], given: dict[str, Any]) -> None:
    task = pick(kind, given)
    batch = task.sample(1, given["seed"])
    if given["as_json"]:
        print_json(as_dict(batch))
    else:
        show(batch)


def as_dict(batch: Batch) -> dict[str, Any]:
    """The first sequence as docs/contracts.md has it."""
    return {
        "task": {"name": batch.task.name(), **batch.task.as_dict()},
        **batch.problem(0).as_dict(),
        "answers": batch.task.successors(batch.draw, 0),
        "roles": batch.roles.labels(0),
        "inputs": batch.inputs[0].tolist(),
        "targets": batch.targets[0].tolist(),
    }


def show(batch: Batch) -> None:
    """Positions with their roles, then queries with their answers."""
    task, problem, out = batch.task, batch.problem(0), console()
    names = {symbol_key(value): name for name, value in task.values(batch.draw, 0).items()}
    table = Table(title=f"{task.name()}: one sequence of {task.n_positions} positions", title_justify="left", box=None)
    for column in ("position", "symbol", "chain and role", "input"):
        table.add_column(column, justify="right" if column == "position" else "left", no_wrap=True)
    for position, (role, features) in enumerate(zip(batch.roles.labels(0), batch.inputs[0], strict=True)):
        symbol = features[: len(features) // 2] if features.ndim else features
        table.add_row(str(position), names.get(symbol_key(symbol), ""), role, numbers(features))
    out.print(table)
    out.print()
    for query, answer in list(zip(problem.queries, task.successors(batch.draw, 0), strict=True))[:64]:
        out.print(f"query [bold]{query}[/]  leads to  {' → '.join(answer)}")
    out.print(f"targets: {tuple(batch.targets.shape[1:])} (queries, outputs), hops {', '.join(task.hop_names)}")


def symbol_key(value: torch.Tensor) -> tuple[float, ...]:
    return tuple(value.flatten().tolist())


def numbers(features: torch.Tensor) -> str:
    return " ".join(f"{x:6.2f}" for x in features.tolist()) if features.ndim else str(int(features))


command = PerVariant(
    "tasks", "sample", "Show one instance of TASK: positions, roles, queries and answers.", options, run
)
