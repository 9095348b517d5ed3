"""A trained model's circuit as rows of a table: its algorithm, and when its parts emerged.

A circuit is named by its flow of information (`hopscope.theory.naming`). A part has emerged when its mean attention
exceeds 0.5 (Musat, ICLR 2025, section 9.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy
import torch
from pandas import DataFrame, Series

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluator import Evaluator
from hopscope.emergence.onset import Onset, onset
from hopscope.emergence.record import attention
from hopscope.experiments.circuit_tables import UNSOLVED, circuit_of, named
from hopscope.experiments.curves import endings_of
from hopscope.experiments.judging import Bound, bound
from hopscope.experiments.tables import columns_of
from hopscope.problem.paths import Path
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory.naming import joins_a_fact

SEQUENCES = 32  # sequences for onsets: as many as the paper averages


def all_have_one(found: Series, that: str = "that keeps the loss below 0.05") -> Bound:
    """Whether every model has a circuit."""
    return bound(f"models with a circuit {that}", found, of="share of", equals=1)


def parts_of(run: Run, scale: str) -> Iterator[DataFrame]:
    """The rows of one run. No circuit is searched in a model that has not solved its task."""
    task = run.task
    assert isinstance(task, Retrieval) and run.report is not None
    about = {
        **columns_of(run),
        "D": task.n_hops,
        "order": task.order,
        "layers": run.config.model.n_layers,
        "mse": run.report["loss"],
    }
    circuit = circuit_of(run, scale) if run.report["loss"] < task.model_threshold else None
    yield DataFrame([about | {"kind": "circuit", **(named(circuit, task) if circuit else UNSOLVED)}])
    if circuit and circuit.accepted:
        yield DataFrame([about | {"kind": "path", **row} for row in path_rows(run, circuit)])
    hops = endings_of([run])[["hop", "k", "loss", "learnt"]]
    yield hops.assign(**about, kind="hop")


def path_rows(run: Run, circuit: Circuit) -> Iterator[dict[str, Any]]:
    """A circuit's paths, with the step at which each emerged."""
    found = sorted(circuit.paths, key=lambda one: one.path)
    when = onsets_of(run, [one.path for one in found])
    for one, emerged in zip(found, when, strict=True):
        what = {"path": str(one.path), "strength": one.strength, "part": part_of(one.path)}
        yield what | {"onset": json.dumps(asdict(emerged))}


def part_of(path: Path) -> str:
    """The purpose of a path: to join a fact, to be read by the query, or to merge facts ahead of the query."""
    if path.chain == "other":
        return "other"
    if path.query != "query" and joins_a_fact(path):
        return "join"
    return "read" if path.query == "query" else "ahead"


def onsets_of(run: Run, paths: Sequence[Path]) -> list[Onset]:
    """The onset of each path, when its mean attention exceeds 0.5 (paper, section 9.1), from the run's checkpoints."""
    batch = run.task.sample(SEQUENCES, 0)
    curves = []
    for step in run.steps:
        sums, counts = attention(Evaluator(run.at(step), batch), paths)
        curves.append(sums.sum(1) / counts.sum(1))
    return [onset(run.steps, curve) for curve in torch.stack(curves, 1).double().numpy().astype(numpy.float64)]
