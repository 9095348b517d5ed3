"""Factual recall: three phases of learning, and what attention and MLP hold.

After Nichani, Lee & Bietti (2024, arXiv:2412.06538, sections 5 and 6; code eshnich/factual-recall-iclr). In section 6
linear attention on one-hot tokens knows nothing at first. Then it answers from p(a | r) as if the subject did not
matter: the hallucination phase. At last it knows all facts. In section 5 one layer of softmax attention, with or
without an MLP, holds facts in proportion to its parameters, whether these are in attention or in the MLP.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.experiments.capacity import highest_accuracy
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished
from hopscope.runs.run import Run
from hopscope_studies.facts.capacity import FactCapacity, one_layer
from hopscope_studies.facts.claims import PER_PARAMETER, claims as claims
from hopscope_studies.facts.figure import figure as figure
from hopscope_studies.facts.models.linear_recall import LinearArchitecture
from hopscope_studies.facts.models.one_layer_recall import OneLayerArchitecture
from hopscope_studies.facts.tasks.factual_recall import FactualRecall

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 540, "paper": 230_000}

#: Of the linear model, the number of seeds with even facts, its settings, and the number of seeds with drawn facts,
#: which differ from seed to seed. Shapes of the capacity sweep, and those trained longer; the grid of the trade-off;
#: and the part of it that is trained with further seeds, with the number of all seeds.
SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "linear": (1, {"steps": 128, "batch": 32, "log_every": 32}),
        "drawn": 1,
        "capacity": ((8,), ((1.0, 0.0),), 1),
        "search": {"low": 2, "high": 5, "length": 6, "steps": 64, "batch": 64, "n_heads": 4},
        "longer": ((), (), {}),
        "grid": ((1,), (0, 8)),
        "again": ((1,), (0, 8), 2),
        "trade": {"size": 3, "d": 8, "d_head": 2, "length": 6, "steps": 32, "batch": 64},
    },
    "cpu": {
        "linear": (5, {}),
        "drawn": 5,
        "capacity": ((8, 16, 24), ((1.0, 0.0), (2.0, 0.0), (1.0, 1.0), (0.5, 2.0)), 1),
        "search": {"precision": 1.08, "length": 8, "steps": 3072, "batch": 512, "n_heads": 4},
        "longer": ((8, 16), ((1.0, 0.0), (1.0, 1.0)), {"steps": 12_288}),
        "grid": ((1, 2, 4, 8), (0, 16, 32, 64)),
        "again": ((2, 4, 8), (0, 64), 5),
        "trade": {"size": 12, "d": 16, "d_head": 4, "length": 8, "steps": 3072, "batch": 512},
    },
    "paper": {
        "linear": (5, {}),
        "drawn": 5,
        "capacity": (
            tuple(int(2**i) for i in numpy.arange(3, 8, 0.5)),
            tuple((alpha, beta) for alpha in (0.25, 0.5, 1.0, 2.0, 4.0) for beta in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)),
            1,
        ),
        "search": {"low": 8, "high": 512},
        "longer": ((), (), {}),
        "grid": (
            (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32),
            (0, 1, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128),
        ),
        "again": ((8, 16, 24, 32), (0, 128), 5),
        "trade": {},
    },
}
MEASURES = "retrieval_accuracy,part_loss,part_accuracy,other_subject_loss,relation_divergence"


def runs(scale: str) -> Iterator[Config | FactCapacity]:
    """Runs of the linear model on even, random and control facts, then the capacity searches and the grid of sizes."""
    sizes = SIZES[scale]
    seeds, how = sizes["linear"]
    for seed in range(seeds):
        yield linear("even", seed, **how)
    for seed in range(sizes["drawn"]):
        for facts in ("random", "anywhere"):
            yield linear(facts, seed, **how)
    yield from searches(scale)
    yield from (cell(*place, **sizes["trade"]) for place in product(*sizes["grid"]))
    *places, n_seeds = sizes["again"]
    for seed in range(1, n_seeds):
        yield from (cell(*place, **sizes["trade"], seed=seed) for place in product(*places))


def linear(facts: str, seed: int, **how: int) -> Config:
    """A run of the linear model at a constant rate from constant weights; only data and random facts are drawn."""
    recipe: dict[str, Any] = {
        "steps": 8192,
        "batch": 1024,
        "log_every": 64,
        "val_size": 4096,
        "checkpoints": "1024",
        **how,
    }
    descent: dict[str, Any] = {"optimizer": "sgd", "lr": 0.1, "weight_decay": 0.0, "measures": MEASURES}
    training = Training(**recipe, **descent, seed=seed, seed_eval=seed)
    return Config(FactualRecall(facts=facts, facts_seed=seed), LinearArchitecture(), training)


def searches(scale: str) -> Iterator[FactCapacity]:
    """Capacity searches over widths and shapes, some of them also with longer training."""
    sizes = SIZES[scale]
    widths, shapes, n_seeds = sizes["capacity"]
    for alpha, beta in shapes:
        yield from (search(scale, d, alpha, beta, seed) for d in widths for seed in range(n_seeds))
    widths, shapes, more = sizes["longer"]
    for alpha, beta in shapes:
        yield from (search(scale, d, alpha, beta, 0, **more) for d in widths)


def search(scale: str, d: int, alpha: float, beta: float, seed: int, **more: Any) -> FactCapacity:
    """One search; at `cpu` its bracket is around the published line, since sizes that fail take longest."""
    about = {**SIZES[scale]["search"], **more}
    if scale == "cpu":
        expected = (PER_PARAMETER * (4 * alpha + 2 * beta) * d * d) ** 0.5
        about |= {"low": max(2, int(0.5 * expected)), "high": int(1.4 * expected) + 2}
    return FactCapacity(d=d, alpha=alpha, beta=beta, seed=seed, **about)


def cell(n_heads: int, d_mlp: int, *, size: int = 32, d: int = 32, d_head: int = 8, **how: Any) -> Config:
    """The run of a cell of the grid: the same facts with this much attention and MLP."""
    return one_layer(OneLayerArchitecture(d, n_heads, d_head, d_mlp), size, **how)


def table(finished: list[Run | Finished], scale: str) -> DataFrame:
    """A row per point of a curve, per size tried in a search, and per cell of the grid; `kind` says which."""
    linear = LinearArchitecture
    return rows_of(finished, lambda run: curve(run) if isinstance(run.config.model, linear) else recalled(run))


def curve(run: Run) -> Iterator[dict[str, Any]]:
    """Rows on a training of the linear model, one per logged step."""
    task = run.task
    assert isinstance(task, FactualRecall)
    about = {"kind": "curve", "facts": task.facts, "relations": task.n_relations, "answers": task.n_answers}
    for row in run.rows:
        measured = row["measures"]
        losses, right = measured["part_loss"], measured["part_accuracy"]
        yield about | {
            "step": row["step"],
            "loss": row["val_loss"],
            "relation_only": losses["relation-only"],
            "subject_only": losses["subject-only"],
            "accuracy": measured["retrieval_accuracy"]["answer"],
            "relation_accuracy": right["relation-only"],
            "subject_accuracy": right["subject-only"],
            "other_subject": measured["other_subject_loss"]["answer"],
            "from_relation": measured["relation_divergence"]["answer"],
        }


def recalled(run: Run) -> Iterator[dict[str, Any]]:
    """The row of a cell of the grid."""
    task, model = run.task, run.config.model
    assert isinstance(task, FactualRecall) and isinstance(model, OneLayerArchitecture)
    yield {
        "kind": "trade_off",
        "heads": model.n_heads,
        "d_mlp": model.d_mlp,
        "size": task.n_subjects,
        "attention": model.attention_weights,
        "mlp": model.mlp_weights,
        "recall": highest_accuracy(run),
    }
