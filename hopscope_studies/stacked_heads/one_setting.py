"""Claims on runs that differ in one setting: whether every value can learn, and whether larger ones learn sooner.

A setting that is a number is judged by rank correlation, with a permutation test within seeds, because runs of one seed
share initial weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.emergence.order import tau_b
from hopscope.experiments.judging import Claim, Evidence, significant
from hopscope.tasks.retrieval import Retrieval

PERMUTATIONS = 2000
TWO_HOPS = Retrieval(n_hops=2, order="nearest_first", position_base=100.0)  # the packaged run's task
NO_CHAIN = Retrieval().baselines["right step, no chain followed"]  # the loss of a guess among all chains
#: Settings of a run by the names of their columns in tables.
SETTINGS: dict[str, Callable[[Config], Any]] = {
    "D": lambda config: config.task.as_dict()["n_hops"],
    "N": lambda config: config.task.as_dict()["n_chains"],
    "order": lambda config: config.task.as_dict()["order"],
    "curriculum": lambda config: config.task.as_dict()["curriculum"],
    "layers": lambda config: config.model.n_layers,
    "heads": lambda config: config.model.n_heads,
    "d_model": lambda config: config.model.d_model,
    "shape": lambda config: f"{config.model.n_layers} × {config.model.d_model}",
}


def columns(*names: str) -> dict[str, Callable[[Config], Any]]:
    """The functions that fill some columns of a table from a run's configuration."""
    return {name: SETTINGS[name] for name in names}


def share_solved(table: DataFrame, column: str) -> Any:
    """The share of runs with each value of the column that end with every hop solved."""
    return table.groupby([column, "run"], sort=False).solved.all().groupby(column, sort=False).mean()


def somebody_solves(table: DataFrame, column: str, sentence: str, level: str = "0.05") -> Claim:
    """Judge whether with every value some seed ends with every hop's loss below 0.05 (or as described by `level`)."""
    share = share_solved(table, column)
    return Evidence(table, "beyond").claim(
        "every_setting_can",
        sentence,
        share,
        f"share of runs with all hops below {level}",
        above=0,
    )


def grows_with(table: DataFrame, column: str, name: str, sentence: str, sign: int = 1) -> Claim:
    """Judge by mean Kendall's τ over hops whether hops are learnt later (`sign` 1) or sooner (−1) for larger values."""
    hops = [part for _, part in table.groupby("k") if part[column].nunique() > 1]
    never = table.steps.max() * 2.0
    pairs = [(part[column].to_numpy(float), part.learnt.fillna(never).to_numpy()) for part in hops]
    seeds = hops[0].seed.to_numpy() if hops else numpy.array([])
    taus = [tau_b(setting.tolist(), learnt.tolist()) for setting, learnt in pairs]
    mean = float(numpy.mean(taus)) if taus else float("nan")
    chance, contrary = by_chance(pairs, seeds, mean, sign), by_chance(pairs, seeds, mean, -sign)
    return Evidence(table, "beyond").claim(
        name,
        f"{sentence.removesuffix('.')} (by Kendall's τ between {column} and the step of learning; probability by "
        f"chance {chance:.2g}).",
        taus,
        number=mean,
        also=[significant(f"τ {'>' if sign > 0 else '<'} 0", chance, contrary)],
    )


def by_chance(pairs: list[tuple[numpy.ndarray, numpy.ndarray]], seeds: numpy.ndarray, mean: float, sign: int) -> float:
    """The share of shuffles within seeds whose mean τ is as extreme on this side; 1 if there is nothing to shuffle."""
    if not pairs or not numpy.isfinite(mean):
        return 1.0
    random, hits, order = numpy.random.default_rng(0), 0, numpy.arange(len(seeds))
    for _ in range(PERMUTATIONS):
        # Runs are shuffled within their seed, and their hops stay together.
        order[numpy.argsort(seeds, kind="stable")] = numpy.lexsort((random.random(len(seeds)), seeds))
        shuffled = [tau_b(setting[order].tolist(), learnt.tolist()) for setting, learnt in pairs]
        hits += sign * float(numpy.mean(shuffled)) >= sign * mean - 1e-12
    return (hits + 1) / (PERMUTATIONS + 1)
