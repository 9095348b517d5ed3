"""Two heads on one trunk: what does one predict on the other's questions, and does the other compute with it?

After Geva et al. (2021, arXiv:2104.06129, abstract), in our own analogue on chains of two hops (Guo et al., 2025,
arXiv:2502.13913).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core.environment import code_version
from hopscope.experiments.circuit_tables import circuit_of
from hopscope.experiments.tables import columns_of
from hopscope.models.transformer import Transformer
from hopscope.runs.run import Run
from hopscope_studies.non_target_heads.by_hand import by_hand
from hopscope_studies.non_target_heads.cells import TASKS, cells
from hopscope_studies.non_target_heads.claims import claims as claims
from hopscope_studies.non_target_heads.figure import figure as figure
from hopscope_studies.non_target_heads.scores import cuts, probed, readings, swaps
from hopscope_studies.non_target_heads.tasks.tagged_hops import TaggedHops

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 300, "paper": 100_000}
#: Hand-set and trained models share one table.
COMPARES_RUNS = True
CIRCUITS = {"quick": 0, "cpu": 3, "paper": 3}  # number of seeds in which circuits are searched for
SEARCHED = ("together", "alone", "ordered")


def runs(scale: str) -> Iterator[Config]:
    """Every model."""
    return (config for _, config in cells(scale))


def table(runs: list[Run], scale: str) -> DataFrame:
    """Rows with run, version, seed, condition, kind, name, step, value.

    Kinds: `end`, the answers of both heads and of a head fitted afterwards, and the effects of cutting and exchanging
    directions (`scores`); `start`, the heads' answers before training; `curve`, accuracy on what is asked; `circuit`,
    verdict and paths.
    """
    named = {config.identity: name for name, config in cells(scale)}
    rows = list(hand_rows(scale))
    for run in runs:
        about = columns_of(run) | {"condition": named[run.config.identity]}
        rows += [about | row for row in rows_of(run, scale)]
        if about["seed"] < CIRCUITS[scale] and about["condition"] in SEARCHED:
            rows.append(about | circuit_row(run, scale))
    return DataFrame(rows).round({"value": 6})


def entry(kind: str, name: str, value: float, step: int = 0) -> dict[str, Any]:
    """One number."""
    return {"kind": kind, "name": name, "step": step, "value": value}


def judged(model: Transformer, task: TaggedHops, scale: str) -> Iterator[tuple[str, float]]:
    """All measurements of a trained model."""
    for measured in (readings, probed, cuts, swaps):
        yield from measured(model, task, scale)


def hand_rows(scale: str) -> Iterator[dict[str, Any]]:
    """The hand-set model."""
    task = TaggedHops(**TASKS[scale])
    about = {"run": "by hand", "version": code_version(), "seed": 0, "condition": "by hand"}
    for name, value in judged(by_hand(task), task, scale):
        yield about | entry("end", name, value)


def rows_of(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """One model: its end, its start, its course."""
    task, model, first = run.task, run.model, run.at(0)
    assert isinstance(task, TaggedHops) and isinstance(model, Transformer) and isinstance(first, Transformer)
    for name, value in judged(model, task, scale):
        yield entry("end", name, value, run.steps[-1])
    for name, value in readings(first, task, scale):
        yield entry("start", name, value)
    for row in run.rows:
        yield entry("curve", "accuracy", row["accuracy"], row["step"])


def circuit_row(run: Run, scale: str) -> dict[str, Any]:
    """A circuit in numbers: its verdict (1: accepted), its paths, its losses."""
    circuit = circuit_of(run, scale)
    losses = {f"{name}_loss": loss.mean for name, loss in circuit.losses.items()}
    paths = "; ".join(str(found.path) for found in circuit.paths)
    return entry("circuit", circuit.verdict, float(circuit.accepted)) | {"paths": paths, **losses}
