"""Typed sequences: how the sequences of a task are typed, and the model's answers on one.

For tasks with fact sheets people type facts, `ann>bob bob>cy`. The names are arbitrary: the page draws fresh sequences
and renames their symbols. For other tasks a sequence is typed token by token, and the task reconstructs its draw
(`Task.read`), which gives roles and right answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.tasks.base import Batch, Task
from hopscope.tasks.base_sheets import SheetTask

MEANINGLESS = re.compile(r"t\d+")  # names of tokens without a meaning, which may be replaced by any


def typing_of(batch: Batch) -> dict[str, Any]:
    """How sequences of a task are typed, in the format of the manifest (`hopscope.explorer.bundle`)."""
    task = batch.task
    if isinstance(task, SheetTask):
        return {"kind": "facts"}
    if type(task).read is Task.read:
        return {"kind": "none", "told": f"Sequences of the task {task.name()} cannot be typed: it does not read them."}
    example = batch.inputs[0].tolist()
    try:
        task.read(example)
    except BadInput as error:
        return {"kind": "none", "told": f"Sequences of the task {task.name()} cannot be typed: {error}."}
    names = token_names(batch)
    free = all(MEANINGLESS.fullmatch(own[0]) for own in names)
    return {"kind": "tokens", "names": names, "free": free, "example": example}


def token_names(batch: Batch) -> list[list[str]]:
    """The names of each token: the first is used in sequences, the last in answers."""
    found: list[dict[str, None]] = [{} for _ in range(batch.task.d_vocab or 0)]
    for row in range(len(batch)):
        if all(found):
            break
        for name, value in batch.task.values(batch.draw, row).items():
            found[int(value)].setdefault(name.split("@")[0])
    return [list(own) or [f"#{token}"] for token, own in enumerate(found)]


def fresh(task: Task, n: int, seed: int) -> Batch:
    """Fresh sequences whose symbols are renamed to typed facts. Raises BadInput for a task without fact sheets."""
    if not isinstance(task, SheetTask):
        raise BadInput(f"facts cannot be typed for the task {task.name()}")
    return task.sample(n, generator(seed, "typed"))


def typed(task: Task, tokens: list[int]) -> Batch:
    """The sequence of given tokens as a batch. Raises BadInput for one that the task never draws."""
    if isinstance(task, SheetTask) or type(task).read is Task.read:
        raise BadInput(f"sequences of the task {task.name()} cannot be typed")
    if len(tokens) != task.n_positions or max(tokens) >= (task.d_vocab or 0):
        raise BadInput(f"a sequence of {task.name()} has {task.n_positions} tokens below {task.d_vocab}")
    return Batch(task, task.read(tokens))


def answers_on(batch: Batch, row: int, asked: Tensor, named: list[list[dict[str, float]]]) -> dict[str, Any]:
    """One sequence with all answers in the page's format; symbols of a fact sheet are given by their numbers."""
    draw = batch.draw
    sheet = isinstance(batch.task, SheetTask)
    number = {token: i for i, token in enumerate(draw["tokens"][row].tolist())} if sheet and "tokens" in draw else None
    answers = [
        as_answer({"query": query, "hop": hop, "right": int(asked[row, query, hop]), **found}, number)
        for query, hops in enumerate(named)
        for hop, found in enumerate(hops)
    ]
    order = {name: draw[name][row].tolist() for name in ("facts", "queries")} if sheet else None
    return {"order": order, "roles": batch.roles.labels(row), "answers": answers}


def as_answer(found: Mapping[str, Any], number: Mapping[int, int] | None) -> dict[str, Any]:
    """An answer in the format of the page's engine; with `number`, tokens become numbers of symbols (−1: none)."""
    symbols = {key: found[key] for key in ("named", "runner_up", "right")}
    if number is not None:
        symbols = {key: number.get(int(token), -1) for key, token in symbols.items()}
    place = {key: found[key] for key in ("query", "hop", "distance")}
    return {**place, **symbols, "runner_up_distance": found["distance"] + found["margin"]}
