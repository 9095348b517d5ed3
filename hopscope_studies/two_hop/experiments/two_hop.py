"""Two hops in context: what prevents a model from learning them, and what helps (Guo et al., 2025, arXiv:2502.13913).

The paper trains three layers of one head on the end of a chain alone, for 10,000 steps of 512 sequences. It reports a
plateau at which the model guesses among the ends of chains, ln 5 with five of them, and then an abrupt fall (section
3). Here models are small and steps few. The conditions differ in whether the middle is asked, too (Musat's implicit
curriculum, ICLR 2025, section 7), whether heads start with attention to the token before, and in KV shifting attention,
which needs no such head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.experiments.circuit_tables import circuit_numbers
from hopscope.experiments.long_table import namer
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope.tasks.two_hop import TwoHop
from hopscope_studies.two_hop.cells import CONDITIONS, cell, cells
from hopscope_studies.two_hop.claims import claims as claims
from hopscope_studies.two_hop.figure import figure as figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 480, "paper": 300_000}
CIRCUITS = {"quick": 0, "cpu": 3, "paper": 3}  # number of seeds in which circuits are searched for
SEARCHED_IN = ("prior", "KV shift")
FRESH = {"quick": 32, "cpu": 1024, "paper": 4096}  # sequences for the measurements


def runs(scale: str) -> Iterator[Config]:
    """All conditions, seed by seed."""
    return cells(scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """Rows of four kinds, each with run, version, seed, kind, condition, step.

    `loss`: hop, value (validation loss at every logged step). `mass`: of x2's answer at every checkpoint, the mean
    probability of the right end, the other ends and the middles (name, value). `right`: at the end, the share of right
    answers x2 by number of chains (chains, value). `circuit`: accepted, paths, and losses by name of the circuit.
    """
    name_of = namer(CONDITIONS, cell, scale)
    return rows_of(runs, lambda run: measured(run, name_of(run.config), scale))


def measured(run: Run, condition: str, scale: str) -> Iterator[dict[str, Any]]:
    """Rows of one model; for the first seeds of some conditions also of its circuit."""
    yield from ({"condition": condition, **row} for row in (*curves(run), *looked_at(run, scale)))
    if run.config.training.seed < CIRCUITS[scale] and condition in SEARCHED_IN:
        yield {"condition": condition, "kind": "circuit", "step": run.steps[-1], **circuit_numbers(run, scale)}


def curves(run: Run) -> Iterator[dict[str, Any]]:
    """Rows of the validation loss of each hop at every logged step."""
    for row in run.rows:
        for hop, loss in row["hop_losses"].items():
            yield {"kind": "loss", "step": row["step"], "hop": hop, "value": loss}


def looked_at(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """Rows of the probabilities of ends and middles at each checkpoint, and of the right answers at the end."""
    task = run.task
    assert isinstance(task, TwoHop)
    batch = Batch(task, task.draw(FRESH[scale], generator(2, "two_hop")))
    for step in run.steps:
        model = run.at(step)
        with torch.no_grad():
            logits = task.logits(model(batch.inputs, at=task.query_positions))[:, 0, -1]
        for name, value in masses(logits.softmax(-1), batch).items():
            yield {"kind": "mass", "step": step, "name": name, "value": value}
    right = (logits.argmax(-1) == batch.targets[:, 0, -1]).float()
    for chains in batch.draw["chains"].unique().tolist():
        among = batch.draw["chains"][:, 0] == chains
        yield {"kind": "right", "step": run.steps[-1], "chains": chains, "value": float(right[among].mean())}


def masses(probabilities: torch.Tensor, batch: Batch) -> dict[str, float]:
    """The mean probability of the right end, of all other ends together, and of all middles together."""
    draw = batch.draw
    number = torch.arange(batch.task.n_chains, device=probabilities.device)  # type: ignore[attr-defined]
    there = number < draw["chains"]
    ends, middles = (
        probabilities.gather(1, draw["tokens"].gather(1, (3 * number + at).expand(len(there), -1))) for at in (2, 1)
    )
    right = ends.gather(1, draw["asked"])[:, 0]
    others = (ends * there).sum(1) - right
    return {
        "right end": float(right.mean()),
        "other ends": float(others.mean()),
        "middles": float((middles * there).sum(1).mean()),
    }
