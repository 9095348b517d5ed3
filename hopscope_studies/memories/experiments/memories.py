"""Associative memories: gradients write them, and how much they hold.

The lemma and one gradient step are of Bietti, Cabannes, Bouchacourt, Jégou & Bottou (2023, lemma 1); capacities and
their laws of Nichani, Lee & Bietti (2024, section 4 and their code): a trained matrix holds N pairs with N log N ≈
d²/1.3, an MLP N log N ≈ m d/0.35, or N ≈ m d/1.2 where all share 32 answers. They are compared with memories that are
written without training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from pandas import DataFrame

from hopscope.experiments.work import Finished, Work
from hopscope_studies.memories.claims import claims as claims
from hopscope_studies.memories.figure import LOADS, figure as figure
from hopscope_studies.memories.lemma import Lemma
from hopscope_studies.memories.work import Recall, TrainedCapacity, WrittenCapacity

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 360, "paper": 100_000}

SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "lemmas": 1,
        "seeds": 1,
        "written": (32, 64),
        "linear": (4, 6),
        "mlp": ((4, 6), (1,)),
        "steps": (100, 100),
        "precision": 1.2,
    },
    "cpu": {
        "lemmas": 5,
        "seeds": 2,
        "written": (32, 64, 128, 256),
        "linear": (8, 11, 16, 22, 32, 45),
        "mlp": ((8, 11, 16), (1, 2, 4)),
        "steps": (4096, 4096),
        "precision": 1.03,
    },
    "paper": {
        "lemmas": 5,
        "seeds": 5,
        "written": (32, 64, 128, 256),
        "linear": tuple(int(2**i) for i in numpy.arange(3, 8.5, 0.5)),
        "mlp": (tuple(int(2**i) for i in numpy.arange(3, 7, 0.5)), (1, 2, 4, 8)),
        "steps": (1 << 12, 1 << 15),
        "precision": 1.01,
    },
}
SETTINGS = ("memory", "d", "ratio", "n_classes", "overlap", "orthonormal", "n")  # of the work, in the table
OVERLAPS = (0.0, 0.05, 0.1, 0.2, 0.4)


def runs(scale: str) -> Iterator[Work]:
    """The lemma, recall without training, and the search for the capacity of each memory."""
    sizes = SIZES[scale]
    for seed in range(sizes["lemmas"]):
        yield Lemma(seed=seed)
    for seed in range(sizes["seeds"]):
        yield from recalls(sizes["written"], seed)
        yield from capacities(sizes, seed)


def recalls(widths: tuple[int, ...], seed: int) -> Iterator[Recall]:
    """Random directions at several loads, orthonormal ones, overlapping ones, and a random matrix."""
    for d in widths:
        for load in LOADS:
            for memory in ("outer_product", "one_step"):
                yield Recall(memory, d, round(load * d), seed=seed)
        yield Recall("one_step", d, d, orthonormal=True, seed=seed)
        yield Recall("random", d, d, seed=seed)
    for overlap in OVERLAPS[1:]:
        for memory in ("outer_product", "one_step", "pseudo_inverse"):
            yield Recall(memory, widths[1], widths[1], overlap, seed=seed)


def capacities(sizes: dict[str, Any], seed: int) -> Iterator[WrittenCapacity | TrainedCapacity]:
    """Outer products, trained matrices, and trained MLPs with one answer per input or with 32 answers."""
    linear_steps, mlp_steps = sizes["steps"]
    for d in sorted({*sizes["written"], *sizes["linear"]}):
        yield WrittenCapacity(max(2, d // 4), max(d, d * d // 8), d=d, seed=seed)
    for d in sizes["linear"]:
        yield TrainedCapacity(d, d * d // 2, sizes["precision"], d=d, steps=linear_steps, seed=seed)
    widths, ratios = sizes["mlp"]
    for d in widths:
        for ratio in ratios:
            for n_classes in (0, 32):
                low, high = (d, ratio * d * d) if not n_classes else (max(32, d), max(64, 2 * ratio * d * d))
                how = {"d": d, "ratio": ratio, "n_classes": n_classes, "steps": mlp_steps, "seed": seed}
                yield TrainedCapacity(low, high, sizes["precision"], lr=0.03, **how)


def table(finished: list[Finished], scale: str) -> DataFrame:
    """A row per error of the lemma, per memory that is written, and per size tried in a search."""
    rows: list[dict[str, Any]] = []
    for one in finished:
        work = one.work.as_dict()
        about = {"run": one.work.identity, "version": one.version, "seed": work["seed"], "kind": one.work.label}
        about |= {name: work.get(name) for name in SETTINGS}
        rows += [{**about, **row} for row in one.rows()]
    return DataFrame(rows)
