"""hop-k by depth: the table of errors of Sanford, Hsu and Telgarsky (2024, arXiv:2402.09268), at a small size.

Their transformers of L layers learn up to 2^(L−2) hops, and err more and more beyond that. One layer finds what
followed the letter's last occurrence, and each further layer doubles the hops. `PUBLISHED` holds their errors with four
heads (length 100, k to 16, 100,000 to 200,000 steps; undefined answers left out). Our runs are smaller in every way
(docs/fidelity.md), so we compare the shape and order of the tables, not the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.tables import rows_of
from hopscope.measures import observe
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.hop_k import HopK

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 600, "paper": 200_000}

PAPER = "Sanford, Hsu and Telgarsky (2024), experiments"
#: Error (share of defined answers) by layers and k, read off the authors' results with four heads.
PUBLISHED: dict[int, dict[int, float]] = {
    2: {0: 0.0, 1: 0.010, 2: 0.140, 3: 0.346, 4: 0.423, 16: 0.737},
    3: {3: 0.048, 4: 0.150, 8: 0.456, 16: 0.706},
    4: {4: 0.015, 8: 0.216, 16: 0.612},
    5: {4: 0.003, 8: 0.037, 16: 0.414},
    6: {8: 0.006, 16: 0.062},
}
SMALL = 0.1  # error below which k hops count as learnt (ours)

#: Task, layers, seeds, width, training.
SIZES: dict[str, tuple[HopK, tuple[int, ...], int, int, dict[str, Any]]] = {
    "quick": (HopK(length=8, n_hops=2), (1, 2), 1, 16, {"steps": 4, "batch": 4, "log_every": 2, "val_size": 16}),
    "cpu": (HopK(length=32, n_hops=4), (2, 3, 4), 5, 64, {"steps": 2000, "batch": 64, "lr": 3e-3, "log_every": 100}),
    "paper": (
        HopK(length=100, n_hops=16),
        (2, 3, 4, 5, 6),
        3,
        128,
        {"steps": 100_000, "batch": 32, "lr": 1e-4, "warmup": 1000, "schedule": "linear", "log_every": 1000},
    ),
}
HEADS = {"quick": 2, "cpu": 2, "paper": 4}
FRESH = {"quick": 64, "cpu": 2048, "paper": 4096}  # sequences behind the errors


def runs(scale: str) -> Iterator[Config]:
    """Every depth with every seed; at `paper` with MLPs and learned positions, as the authors'."""
    task, depths, seeds, d_model, how = SIZES[scale]
    more: dict[str, Any] = {"mlp": True} if scale == "paper" else {"mlp": False, "positions": "rotary"}
    for layers in depths:
        for seed in range(seeds):
            model = Architecture(n_layers=layers, n_heads=HEADS[scale], d_model=d_model, init="early_layers", **more)
            yield Config(task, model, Training(weight_decay=0.01, checkpoints="100000", **how, seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and k: run, version, seed, layers, k, error (share of defined answers that are wrong), answers."""
    return rows_of(runs, lambda run: errors(run, FRESH[scale]))


def errors(run: Run, sequences: int) -> Iterator[dict[str, float]]:
    """Errors on fresh sequences, by number of hops."""
    task, about = run.task, {"layers": run.config.model.n_layers}
    assert isinstance(task, HopK)
    seen = observe(run.model, task.sample(sequences, generator(run.config.training.seed_eval, "errors")))
    said, answers = seen.outputs.argmax(-1), seen.batch.targets
    for k in range(task.n_hops + 1):
        defined = (answers[..., k] >= 0) & (answers[..., k] != task.undefined)
        wrong = (said != answers[..., k])[defined]
        yield {**about, "k": k, "error": float(torch.mean(wrong.float())), "answers": int(defined.sum())}


# Judging ---------------------------------------------------------------------------------------------------------


def grid(table: DataFrame) -> dict[int, dict[int, float]]:
    """Median error over seeds, by depth and k."""
    medians = table.groupby(["layers", "k"]).error.median()
    found: dict[int, dict[int, float]] = {}
    for layers, k in sorted(zip(table.layers.astype(int), table.k.astype(int), strict=True)):
        found.setdefault(layers, {})[k] = float(medians[layers, k])
    return found


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the shape of the published table."""
    errors = grid(table)
    depths = f"L = {', '.join(map(str, errors))}"
    within = table[(table.layers >= 2) & (table.k <= 2.0 ** (table.layers - 2))]
    yield told(
        "each_depth_learns_its_hops",
        f"Models of L layers ({depths}) answer up to 2^(L−2) hops with an error below {SMALL:g}.",
        within.groupby("run").error.max(),
        f"error within reach (below {SMALL})",
        table,
        number="highest",
        below=SMALL,
    )
    falls = [b - a for _, run in table.sort_values("k").groupby("run") for a, b in pairwise(run.error)]
    yield told(
        "errors_rise_with_hops",
        "At every depth, a model's error rises with the number of hops asked.",
        Series(falls, dtype=float),
        "change of error from one k to the next",
        table,
        number="lowest",
        at_least=-0.02,
    )
    most = max(int(table.k.max()), 0)
    hardest = [row[most] for row in errors.values()]
    yield told(
        "deeper_is_better_beyond",
        f"The deeper the model ({depths}), the better it answers the hardest question, {most} hops (median errors: "
        f"{', '.join(f'{e:.3f}' for e in hardest)}).",
        Series([a - b for a, b in pairwise(hardest)], dtype=float),
        "fall of the median error with one more layer",
        table,
        number="lowest",
        above=0,
    )
    yield as_published(errors, table)


def as_published(errors: dict[int, dict[int, float]], table: DataFrame) -> Claim:
    """The claim that pairs of cells are in the published order, if published errors differ by at least 0.05."""
    cells = [
        (layers, k, published, errors[layers][k])
        for layers, row in PUBLISHED.items()
        for k, published in row.items()
        if k in errors.get(layers, {})
    ]
    pairs = [(a, b) for a in cells for b in cells if a[2] - b[2] >= 0.05]
    same = [a[3] > b[3] for a, b in pairs]
    return told(
        "order_as_published",
        "In nine of ten pairs of settings (numbers of layers and hops) whose published errors are 0.05 or more apart, "
        "the setting with the larger published error has the larger error here, too.",
        Series(same, dtype=bool),
        f"{len(same)} pairs of cells, 0.05 apart in the paper, that are in its order",
        table,
        of="share of",
        at_least=0.9,
        provided=bound("the number of pairs", len(same), above=1),
    )


def told(name: str, sentence: str, values: Series, what: str, rows: DataFrame, **more: Any) -> Claim:
    """A claim about the paper's experiments."""
    return Evidence(rows, PAPER).claim(name, sentence, values, what, n=len(values), **more)


@styled
def figure(table: DataFrame) -> Figure:
    """Errors by number of hops, a line per depth (the median of runs); the paper's errors are dotted."""
    shown = picture(6.2, 3.9)
    ax = shown.subplots()
    for index, layers in enumerate(sorted(table.layers.astype(int).unique().tolist())):
        part = table[table.layers == layers]
        for _, run in part.groupby("run"):
            ax.plot(run.k, run.error, color=colour(index), lw=0.6, alpha=0.4)
        median = part.groupby("k").error.median()
        ax.plot(median.index, median, color=colour(index), lw=2, marker="o", ms=4, label=f"{layers} layers")
        if cells := {k: e for k, e in PUBLISHED.get(layers, {}).items() if k <= table.k.max()}:
            ax.plot(list(cells), list(cells.values()), color=colour(index), ls=":", marker="x", label="_")
    ax.plot([], [], color=GREY, ls=":", marker="x", label="published (length 100)")
    ax.set(xlabel="k, hops asked", ylabel="error on defined answers", title="hop-k by depth", ylim=(0, None))
    ax.legend()
    return shown
