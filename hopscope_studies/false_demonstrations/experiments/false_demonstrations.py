"""A context that contradicts what a model knows: the critical layer, and the heads that copy false labels.

A toy analogue of Halawi, Denain and Steinhardt (2023, arXiv:2307.09476). Small transformers know the labels of some
classes and read those of others in the context. They are shown known classes with wrong labels. Their answer is read
off after every layer, and the heads that attend to labels of the query's class are silenced. See the study's README.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

import torch
from pandas import DataFrame, concat

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.experiments.long_table import entry
from hopscope.experiments.tables import rows_by_hand, rows_of
from hopscope.interventions.parts import silenced
from hopscope.models.base import Model
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.false_demonstrations.by_hand import overthinker
from hopscope_studies.false_demonstrations.cells import TASK, cell
from hopscope_studies.false_demonstrations.claims import BY_HAND, UNTRAINED, claims as claims
from hopscope_studies.false_demonstrations.demonstrations import KINDS, demonstrated
from hopscope_studies.false_demonstrations.figure import figure as figure
from hopscope_studies.false_demonstrations.removal import (
    accuracy,
    by_layer,
    critical_layer,
    highest,
    other_sets,
    patterns_of_others,
    quiet_attention,
    quiet_mlps,
    scores,
)

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 130, "paper": 40_000}
#: By hand and trained models stand in one table.
COMPARES_RUNS = True
SEEDS = {"quick": 1, "cpu": 8, "paper": 8}
SIZE = {"quick": 200, "cpu": 2000, "paper": 2000}  # sequences behind every number
HEADS = 2  # are silenced: a quarter of those at the scale cpu
HAND = {**TASK, "d_item": 64}

Rows = Iterator[dict[str, Any]]


def runs(scale: str) -> Iterator[Config]:
    """The same model over seeds."""
    return (cell(seed, scale) for seed in range(SEEDS[scale]))


def table(runs: list[Run], scale: str) -> DataFrame:
    """Every model's answers by context, by layer, and without parts; also of a hand-set model and of untrained ones.

    Columns: run, version, seed, condition, kind, name, step, value; in rows of kind `lens`, `step` is the number of
    layers before the readout.
    """
    task, n = ItemLabels(**HAND), SIZE[scale]
    made = rows_by_hand(judged({}, overthinker(task), task, n, 1), condition=BY_HAND)
    return concat([made, rows_of(runs, lambda run: measured(run, n))], ignore_index=True).round({"value": 5})


def measured(run: Run, n: int) -> Rows:
    """Rows on a final model, and on its answers before training."""
    task = run.config.task
    assert isinstance(task, ItemLabels)
    yield from judged({"condition": "trained"}, run.model, task, n, HEADS)
    yield from lens({"condition": UNTRAINED}, run.at(0), contexts(task, n))


def contexts(task: ItemLabels, n: int) -> dict[str, Batch]:
    """The same sequences with every kind of labels."""
    return {kind: demonstrated(task, kind, n) for kind in KINDS}


@torch.no_grad()
def judged(of: dict[str, Any], model: Model, task: ItemLabels, n: int, heads: int) -> Rows:
    """All measurements of a model, as rows."""
    batches = contexts(task, n)
    yield from lens(of, model, batches)
    for name, test in (("IC", task.but(fresh=1.0, bursty=1.0)), ("IW", task.but(fresh=0.0, bursty=1.0, absent=True))):
        batch = test.sample(n, generator(0, name))
        yield entry(of, "accuracy", name, accuracy(model, batch))
        yield entry(of, "patterns of others", name, accuracy(model, batch, patterns_of_others(model)))
    for kind in ("true", "permuted"):
        yield entry(of, "absent", kind, accuracy(model, demonstrated(task, kind, n, absent=True)))
    followed = batches["permuted"].draw
    named = model(batches["permuted"].inputs, at=task.query_positions)[:, -1].argmax(-1)
    shown = (followed["labels"][:, -1] + 1) % task.n_labels
    yield entry(of, "followed", "permuted", float((named == shown).float().mean()))
    yield from without_heads(of, model, batches, n, heads)
    yield from without_layers(of, model, batches)


def lens(of: dict[str, Any], model: Model, batches: dict[str, Batch]) -> Rows:
    """Rows on the accuracy of answers read after each layer."""
    for kind, batch in batches.items():
        for layer, value in enumerate(by_layer(model, batch)):
            yield entry(of, "lens", kind, value, layer)


def without_heads(of: dict[str, Any], model: Model, batches: dict[str, Batch], n: int, count: int) -> Rows:
    """Rows on accuracies without heads that half of the sequences chose, and without sets of as many others."""
    scored = scores(model, batches["permuted"].rows(slice(n // 2)))
    chosen = highest(scored, count)
    yield from (entry(of, "score", str(part), value) for part, value in scored.items())
    yield from (entry(of, "chosen", str(part), part.layer + 1) for part in chosen)
    for kind, batch in batches.items():
        rest = batch.rows(slice(n // 2, None))
        yield entry(of, "whole", kind, accuracy(model, rest))
        yield entry(of, "without heads", kind, accuracy(model, rest, silenced(chosen)))
        others = other_sets(scored, chosen)
        left = {" ".join(map(str, some)): accuracy(model, rest, silenced(some)) for some in others}
        yield from (entry(of, f"without some, {kind}", some, value) for some, value in left.items())
        yield entry(of, "without others", kind, mean(left.values()) if left else None)


def without_layers(of: dict[str, Any], model: Model, batches: dict[str, Batch]) -> Rows:
    """Rows on the critical layer, and on accuracies without attention or MLPs from this layer on."""
    critical = critical_layer(*(by_layer(model, batches[kind]) for kind in ("true", "permuted")))
    yield entry(of, "critical", "layers", critical)
    yield entry(of, "critical", "depth", model.architecture.n_layers)
    late = range((critical or 1) - 1, model.architecture.n_layers)
    for kind in ("true", "permuted"):
        yield entry(of, "without late attention", kind, accuracy(model, batches[kind], quiet_attention(late)))
        if getattr(model.architecture, "mlp", False):
            yield entry(of, "without late MLPs", kind, accuracy(model, batches[kind], quiet_mlps(late)))
