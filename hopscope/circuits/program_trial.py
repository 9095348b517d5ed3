"""Tests of a program on fresh sequences: whether its printed code gives the model's answers, and the right ones."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.program import WIDTH, Program, Rows, entries_of, rows_of, written
from hopscope.circuits.units import Ground
from hopscope.core.intervals import wilson
from hopscope.core.settings import BadInput
from hopscope.models.base import Model, Shape
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch, Task

WRITTEN_ON, TRIED_ON = 256, 512  # sequences (ours)
SEEDS = (101, 102)  # of both
#: Settings by which a task's sequences grow.
GROWS = {"length": "twice as long", "n_pairs": "twice as long", "n_chains": "twice as many chains"}


@dataclass(frozen=True)
class Trial:
    """How often a program's answers agree with the expected ones.

    Attributes:
        of: which answers were compared, in words.
        n: the number of answers.
        agrees: the number of agreeing answers.
        parts: the number of wrong answers by the first step that looked elsewhere than its path leads; `none` if no
            step did.
    """

    of: str
    n: int
    agrees: int
    parts: dict[str, int]

    def __str__(self) -> str:
        low, high = wilson(self.agrees, self.n) if self.n else (0.0, 1.0)
        words = f"{self.of}: {self.agrees} of {self.n} (95 %: {low:.3f} to {high:.3f})"
        parts = "; ".join(f"{count} part at {name}" for name, count in self.parts.items())
        return f"{words}; {parts}" if parts else words


@dataclass(frozen=True)
class Tried:
    """A program with its trials; `print` shows the code, with the trials in its docstring.

    Attributes:
        program: the program.
        trials: first on the answers that the model gets right; then on all answers; then on larger sequences.
        unsaid: sentences on what the program leaves out of its circuit.
    """

    program: Program
    trials: tuple[Trial, ...]
    unsaid: str = ""

    def __str__(self) -> str:
        begin = textwrap.wrap(f"A circuit as a program. {self.unsaid}Its answers agree with:", WIDTH - 4)
        title = [*begin, "", *(f"    {trial}" for trial in self.trials), ""]
        return str(replace(self.program, title="\n".join(title)))


def program_of(
    paths: Sequence[Path],
    model: Model,
    batches: tuple[Batch, Batch],
    further: Mapping[str, Rows],
) -> Tried:
    """The program of a circuit's paths, with its trials.

    Args:
        paths: the circuit's paths.
        model: the model that the circuit was found in.
        batches: sequences on which rules are found, and others on which the program is tested.
        further: larger sequences, by description; the model does not run on them.

    Raises:
        BadInput: there are no paths, or no program is found.
    """
    if not paths:
        raise BadInput("there is no program to write, because there is no circuit")
    grounds = [Ground(batch, model.architecture) for batch in batches]
    first, fresh = map(rows_of, batches, grounds)
    program = written(paths, first, grounds[0])
    right = answered_rightly(model, batches[1], fresh)
    trials = [trial("what the model answers rightly", program, fresh, right), trial("what is right", program, fresh)]
    trials += [trial(f"what is right, {name}", program, rows) for name, rows in further.items()]
    return Tried(program, tuple(trials))


def unsaid(circuit: Circuit) -> str:
    """Sentences on what a program leaves out: that its paths are no accepted circuit, and rows needed whole."""
    none = "" if circuit.accepted else f"Its paths are no circuit (verdict: {circuit.verdict}). "
    rows = ", ".join(map(str, circuit.rows))
    return none + (f"The model also needs {rows} whole, which is no step here. " if rows else "")


def program_for(paths: Sequence[Path], model: Model, task: Task) -> Tried:
    """As `program_of`, on fresh sequences of a task and on larger ones."""
    batches = task.sample(WRITTEN_ON, SEEDS[0]), task.sample(TRIED_ON, SEEDS[1])
    return program_of(paths, model, batches, larger(task, model.architecture))


def larger(task: Task, shape: Shape) -> dict[str, Rows]:
    """The task's sequences at twice the length or number of chains, if it has such settings; by description."""
    found = {}
    for setting, words in GROWS.items():
        if hasattr(task, setting):
            more = {setting: 2 * getattr(task, setting)}
            vocabulary = task.as_dict().get("d_vocab")
            with suppress(BadInput, TypeError):
                batch = task.but(**more, **({"d_vocab": 2 * vocabulary} if vocabulary else {})).sample(
                    TRIED_ON, SEEDS[1]
                )
                found[words] = rows_of(batch, Ground(batch, shape))
    return found


def answered_rightly(model: Model, batch: Batch, rows: Rows) -> list[list[list[bool]]]:
    """Which answers a model gets right, by row, query and hop; all, if the task does not judge answers one by one."""
    asked = torch.tensor([[[one is not None for one in hops] for hops in row] for row in rows.answers])
    with torch.no_grad():
        right = batch.task.correct(model(batch.inputs, at=batch.task.query_positions), batch).cpu()
    found = torch.zeros_like(asked)
    found[asked] = right.flatten() if right.numel() == int(asked.sum()) else True
    return found.tolist()


def trial(name: str, program: Program, rows: Rows, counts: list[list[list[bool]]] | None = None) -> Trial:
    """Compare the answers of a program's code on some sequences with the right ones; `counts` selects answers."""
    run, parts, n, agrees = compiled(str(program)), dict[str, int](), 0, 0
    entries = [entries_of(step.paths, rows.ground) for step in program.steps if rows.ground]
    for row, own in enumerate(rows.own):
        answers, looks = run(own)
        for i, p in enumerate(rows.queries):
            for hop, wanted in enumerate(rows.answers[row][i]):
                if wanted is None or (counts is not None and not counts[row][i][hop]):
                    continue
                n, agrees = n + 1, agrees + (answers[hop][p] == wanted)
                if answers[hop][p] != wanted and rows.ground:
                    part = parted(program, entries, looks, row)
                    parts[part] = parts.get(part, 0) + 1
    return Trial(name, n, agrees, parts)


def compiled(text: str) -> Callable[[Sequence[int]], tuple[list[list[Any]], list[list[Any]]]]:
    """The function that a program's code defines."""
    made: dict[str, Any] = {}
    exec(text, made)
    return made["program"]


def parted(program: Program, entries: Sequence[Tensor], looks: Sequence[Sequence[Any]], row: int) -> str:
    """The first path of the first step that looks elsewhere than its paths lead; `none` if no step does."""
    for step, places, mask in zip(program.steps, looks, entries, strict=True):
        for p in mask[row].any(-1).nonzero().flatten().tolist():
            if places[p] is None or not bool(mask[row, p, places[p]]):
                return str(step.paths[0])
    return "none"
