"""Copying out of distribution: one layer against two, and the subspace that two heads share.

After Song, Xu and Zhong (2024, arXiv:2408.09503, sections 3 and 4; code
JiajunSong629/ood-generalization-via-composition): models learn to continue a segment that was pasted twice into random
tokens, and are tested on longer segments of other tokens. The experiment measures errors, heads and the match of
weights over training, the effect of projections of layer 0's output, pools of segments, and circuits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.circuit_tables import circuit_numbers
from hopscope.experiments.tables import rows_of
from hopscope.models.transformer import Transformer
from hopscope.runs.run import Run
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.composition.cells import cell
from hopscope_studies.composition.claims import claims as claims
from hopscope_studies.composition.figure import figure as figure
from hopscope_studies.composition.scores import batches, errors, heads, matches, projections

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 300, "paper": 60_000}

#: Seeds of two layers, of one, of each pool.
SEEDS = {"quick": (1, 1, 1), "cpu": (8, 5, 5), "paper": (8, 5, 3)}
POOLS = {"quick": (4,), "cpu": (16, 64, 256, 1024), "paper": tuple(range(100, 1001, 100))}
CIRCUITS = {"quick": 1, "cpu": 8, "paper": 8}  # seeds whose circuit is searched for


def runs(scale: str) -> Iterator[Config]:
    """Models of two layers and of one on fresh segments; models of two layers on pools."""
    two, one, pools = SEEDS[scale]
    yield from (cell(2, seed, scale) for seed in range(two))
    yield from (cell(1, seed, scale) for seed in range(one))
    yield from (cell(2, seed, scale, pool) for pool in POOLS[scale] for seed in range(pools))


def table(runs: list[Run], scale: str) -> DataFrame:
    """Rows of three kinds, each with run, version, seed, kind, layers, pool (0: fresh segments), step.

    `curve`: errors (0–1) on sequences as in training, with fresh segments, out of distribution, and in the first copy;
    heads and matching (`hopscope_studies.composition.scores`). For pools only the final models have rows. `projection`:
    errors out of distribution without some directions, or with only these, by rank. `circuit`: the result of the
    search, for the first seeds.
    """
    return rows_of(runs, lambda run: measured(run, scale))


def measured(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on a model over training, and on its final state."""
    task = run.config.task
    assert isinstance(task, RepeatedSegment)
    about, asked = {"layers": run.config.model.n_layers, "pool": task.pool}, batches(task, scale)
    for step in run.steps[-1:] if task.pool else run.steps:
        model = run.at(step)
        assert isinstance(model, Transformer)
        found = errors(model, asked) | heads(model, asked["ood"])
        if run.config.model.n_layers > 1:
            found |= matches(model, scale)
        yield {**about, "kind": "curve", "step": step, **found}
    end, model = {**about, "step": run.steps[-1]}, run.at(run.steps[-1])
    assert isinstance(model, Transformer)
    if run.config.model.n_layers > 1 and not task.pool:
        yield from ({"kind": "projection", **end, **row} for row in projections(model, asked["ood"], scale))
        if run.config.training.seed < CIRCUITS[scale]:
            yield {"kind": "circuit", **end, **circuit_numbers(run, scale)}
