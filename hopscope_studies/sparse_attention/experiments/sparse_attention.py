"""Attention's entropy in the loss: does sparse attention make smaller circuits? (ours, after arXiv:2512.05865)

Language models with sparse attention keep their loss with a small share of the attention edges (arXiv:2512.05865). Here
three hops are learnt by the preset `three_hops`, in two heads per layer instead of one, so that there is room for
several paths that do the same. The preset starts with a prior for the previous token. The loss gets the mean entropy of
all rows of all patterns, times a weight. Each circuit is found by the common search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.circuits.discovery import discover
from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.core.seeds import generator
from hopscope.drawing.style import colour, picture, styled
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.tables import rows_of
from hopscope.experiments.variants import TINY_TRAINING
from hopscope.runs.run import Run
from hopscope.training.trainer import entropy

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 350, "paper": 900}

WEIGHTS = (0.0, 0.01, 0.03)
SEEDS = {"quick": 1, "cpu": 3, "paper": 8}
HEADS = 2
SEQUENCES = 256  # on which entropy and edges are measured
EDGE = 0.05  # least attention that counts as an edge
SOLVED = 0.05  # nats of every hop
RATIO = "ratio of {} to those without"


def runs(scale: str) -> Iterator[Config]:
    """Every weight, seed by seed."""
    yield from (config(scale, weight, seed) for seed in range(SEEDS[scale]) for weight in WEIGHTS)


def config(scale: str, weight: float, seed: int) -> Config:
    """A run of three hops with so much weight on entropy."""
    made = recipe("three_hops").config(seed=seed, attention_entropy=weight, checkpoints="800")
    if scale == "quick":
        tiny: dict[str, Any] = TINY_TRAINING | {"decay_steps": None}
        return Config(made.task, made.model.but(n_heads=HEADS, d_model=8, n_layers=2), made.training.but(**tiny))
    return Config(made.task, made.model.but(n_heads=HEADS), made.training)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run.

    Columns: run, version, seed, prior, weight, loss (greatest of the hops' mean validation losses over the last 100
    steps, nats), learnt (the first logged step at which every hop is below 0.5; NaN: never), entropy (mean over
    rows, nats), edges (keys of a row with attention above 0.05, mean over rows), verdict (of the circuit), paths (in
    it; NaN if there is none), passes (forward passes of a batch that the search made).
    """
    return rows_of(runs, lambda run: [measured(run)])


def measured(run: Run) -> dict[str, Any]:
    """What one run reached, how sparse its attention is, and its circuit."""
    hops = DataFrame([row["hop_losses"] for row in run.rows], index=[row["step"] for row in run.rows])
    loss = float(hops[hops.index > hops.index[-1] - 100].mean().max())
    learnt = hops.index[(hops < 0.5).all(axis=1)]
    circuit = discover(run.model, run.task)
    return {
        "weight": run.config.training.attention_entropy,
        "loss": loss,
        "learnt": float(learnt[0]) if len(learnt) else float("nan"),
        **sparsity(run),
        "verdict": circuit.verdict,
        "paths": len(circuit.paths) if circuit.paths else float("nan"),
        "passes": sum(circuit.protocol["forwards"].values()),
    }


@torch.no_grad()
def sparsity(run: Run) -> dict[str, float]:
    """Mean entropy of a row of attention, in nats, and mean number of keys with more than `EDGE` of it."""
    names = [name for name in run.model.activation_names if name.endswith("hook_pattern")]
    batch = run.task.sample(SEQUENCES, generator(0, "report"))
    patterns = run.model(batch.inputs, cache=names)[1].values()
    entropies = [float(entropy(pattern).mean()) for pattern in patterns]
    edges = [float((pattern > EDGE).sum(-1).float().mean()) for pattern in patterns]
    return {"entropy": sum(entropies) / len(names), "edges": sum(edges) / len(names)}


def beside(table: DataFrame, value: str, weight: float) -> Series:
    """A value of the runs with a weight, divided by that of the run of the same seed without."""
    by_seed = table.pivot(index="seed", columns="weight", values=value)
    return (by_seed[weight] / by_seed[0.0]).dropna()


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims. Thresholds are ours and were committed before the runs; README.md states what we expected."""
    light, heavy = WEIGHTS[1:]
    some, plain, most = (table[table.weight == weight] for weight in (light, 0.0, heavy))
    of = Evidence(some, "ours", among=table)
    yield of.claim(
        "solved", f"Models with an entropy penalty of {light:g} solve all hops.", some.loss, "loss", below=SOLVED
    )
    sentence = (
        f"An entropy penalty of {light:g} at least halves the number of keys that get an attention above {EDGE:g}."
    )
    yield of.claim("sparser", sentence, beside(table, "edges", light), RATIO.format("edges"), at_most=0.5)
    sentence, paths = f"An entropy penalty of {light:g} makes circuits use fewer paths.", beside(table, "paths", light)
    yield of.claim("fewer_paths", sentence, paths, RATIO.format("paths"), below=1.0, of="median")
    sentence = f"Circuits of models trained with an entropy penalty of {light:g} are found in fewer forward passes."
    passes = beside(table, "passes", light)
    yield of.claim("faster_search", sentence, passes, RATIO.format("forward passes"), below=0.8, of="median")
    sentence = f"With an entropy penalty of {light:g} at least as many models have a circuit as without it."
    accepted = int((some.verdict == "circuit").sum() - (plain.verdict == "circuit").sum())
    yield of.claim("more_accepted", sentence, accepted, "accepted circuits more than without", at_least=0)
    sentence, late = (
        f"Under an entropy penalty of {heavy:g}, models learn later than without it, or not at all.",
        table.fillna({"learnt": float("inf")}),
    )
    of = Evidence(most, "ours", among=table)
    learnt = beside(late, "learnt", heavy)
    yield of.claim("too_much_is_late", sentence, learnt, RATIO.format("steps"), above=1.0, of="median")


@styled
def figure(table: DataFrame) -> Figure:
    """A dot per run: edges, paths, forward passes and loss, by the weight of entropy."""
    shown = picture(11.5, 3.2)
    titles = {
        "edges": "edges per row",
        "paths": "paths in the circuit",
        "passes": "passes of the search",
        "loss": "loss",
    }
    for ax, (name, title) in zip(shown.subplots(1, len(titles)), titles.items(), strict=True):
        for place, weight in enumerate(WEIGHTS):
            rows = table[table.weight == weight]
            for verdict, marker in (("circuit", "o"), ("partial", "s"), ("none", "x")):
                values = rows[rows.verdict == verdict][name]
                ax.plot([place] * len(values), values, marker, color=colour(place), ms=4, alpha=0.8)
        ax.set_xticks(range(len(WEIGHTS)), [f"{weight:g}" for weight in WEIGHTS])
        ax.set(title=title, xlabel="weight of entropy")
    return shown
