"""Circuits' programs asked for more hops than their circuits were found on (ours).

A program has one step per layer, so it answers as many hops as its circuit was found on. Looped models run the same
layer again for every further hop. The program's counterpart is to repeat its last step.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

import torch

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import discover
from hopscope.circuits.program import OWN, Program, Rows, Rule, called
from hopscope.circuits.program_trial import program_for
from hopscope.core.settings import BadInput
from hopscope.runs.run import Run


def lengthened(program: Program, more: int) -> Program:
    """A program that takes its last step so many times more, each time from the answer of the time before.

    The last step either carries the answer of one hop fewer to whoever asks, or looks for it and carries the symbol
    found. A repetition does the same with the last answer.

    Raises:
        BadInput: no step brings the answer, or the step that does looks next to a place found before.
    """
    answer, steps = program.answers[-1], list(program.steps)
    for _ in range(more):
        last = next((step for step in reversed(steps) if answer.startswith(f"{step.name}_")), None)
        if last is None or re.search(rf"\b({'|'.join(step.name for step in steps)})\[", last.rule.text):
            raise BadInput("no single step brings the program one hop further, so none can be repeated")
        name, rule, carried = called(len(steps)), last.rule, answer
        if answer == f"{last.name}_{OWN}":
            rule, carried = Rule(re.sub(r"\w+\[p\]", f"{answer}[p]", rule.text), rule.itself), OWN
        steps.append(replace(last, name=name, rule=rule, carried=(carried,)))
        answer = f"{name}_{carried}"
    return replace(program, steps=tuple(steps), answers=(answer,))


def circuit_at(run: Run, hops: int, step: int | None = None) -> tuple[Circuit, Program | None]:
    """The circuit of a run's model on chains of so many hops, after one loop more than hops, and its program.

    A model without loops runs all of its layers. There is no program if the paths are no circuit, or if no rule of a
    program fits one of them.
    """
    task, model = run.task.at(hops), run.model if step is None else run.at(step)
    if run.config.model.as_dict()["loops"] > 1:
        model = model.looped(hops + 1, n_positions=task.n_positions)  # type: ignore[operator]
    circuit, program = discover(model, task), None
    if circuit.accepted:
        with suppress(BadInput):
            program = program_for([found.path for found in circuit.paths], model, task).program
    return circuit, program


def with_values_exchanged(rows: Rows) -> Rows:
    """Rows in which every fact has the value of another fact, with the answers as they were; a control.

    Facts are pairs of symbols before the queries. Values move on by one fact of the same step, so queries stay.
    """
    own, chains = torch.tensor(rows.own), len(rows.queries)
    steps = own[:, 1:-chains:2].unflatten(1, (-1, chains))
    own[:, 1:-chains:2] = steps.roll(1, -1).flatten(1)
    return replace(rows, own=own.tolist())
