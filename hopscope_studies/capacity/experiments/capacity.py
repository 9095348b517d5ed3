"""Do models that are asked for more than their depth can do learn heuristics? (Ye et al., 2025, arXiv:2510.19753)

Ye et al. find that training on graphs beyond a model's capacity leads to a heuristic, and on graphs within it to the
algorithm. In the retrieval problem capacity is exact: under a causal mask with one head per layer, L layers reach
2^(L−1) − 1 hops (`hopscope.theory.depth`). Here chains have as many hops, fewer or more. Longer chains are asked for
all hops, or only for those within reach. Both have the same sequences, so any difference is due to what is asked.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.core.seeds import generator
from hopscope.drawing.settings import by_setting
from hopscope.experiments.curves import LEARNT, endings_of
from hopscope.experiments.judging import Claim, Evidence, around
from hopscope.experiments.tables import rows_of
from hopscope.experiments.variants import TINY_TRAINING
from hopscope.runs.run import Run
from hopscope.tasks.some_hops import SomeHops
from hopscope.theory.depth import minimum_depth

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 660, "paper": 1400}

#: By layers, D and the last hop that is asked: D below, at and above capacity, which is 1 and 3.
SETTINGS = {2: ((1, 1), (2, 1), (2, 2), (3, 1), (3, 3)), 3: ((2, 2), (3, 3), (4, 3), (4, 4))}
SEEDS = {"quick": 1, "cpu": 8, "paper": 8}
STEPS = {"quick": 10, "cpu": 500, "paper": 1500}
#: Sequences on which accuracy is measured, too, by column; those of training have four chains, deepest facts first.
UNLIKE: dict[str, dict[str, Any]] = {"three_chains": {"n_chains": 3}, "shuffled": {"order": "shuffled"}}
SEQUENCES = 256
GUESS = 0.75  # the loss of a model that finds the step among four chains, and follows none
#: What is claimed, by id.
SENTENCES = tomllib.loads((Path(__file__).parents[1] / "data" / "sentences.toml").read_text())


def runs(scale: str) -> Iterator[Config]:
    """Every setting with every seed."""
    for seed in range(SEEDS[scale]):
        yield from (config(scale, layers, *asked, seed) for layers in SETTINGS for asked in SETTINGS[layers])


def config(scale: str, layers: int, hops: int, last: int, seed: int) -> Config:
    """The preset `minimum_depth` at half its width, asked for the hops 1 to `last`."""
    steps = STEPS[scale]
    tiny = TINY_TRAINING if scale == "quick" else {}
    training = {"steps": steps, "decay_steps": steps // 2, "checkpoints": str(steps), **tiny}
    made = recipe("minimum_depth").config(seed=seed, **training)
    task = SomeHops.from_dict(made.task.as_dict() | {"n_hops": hops, "last": last})
    return Config(task, made.model.but(n_layers=layers, d_model=64), made.training)


def capacity(layers: int) -> int:
    """The largest number of hops that this many layers reach."""
    return max(hops for hops in range(1, 2**layers) if minimum_depth(hops).min_layers <= layers)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop.

    Columns: those of `endings_of`; layers, hops (D), last (hop asked), setting (these in words), capacity (the most
    hops that the layers reach), and the hop's accuracies: trained (on sequences as in training) and those of `UNLIKE`.
    """
    found = endings_of(
        runs,
        layers=lambda config: config.model.n_layers,
        hops=lambda config: config.task.as_dict()["n_hops"],
        last=lambda config: config.task.as_dict()["last"],
        setting=lambda config: "L{}\nD{n_hops}\n1–{last}".format(config.model.n_layers, **config.task.as_dict()),
        capacity=lambda config: capacity(config.model.n_layers),
    )
    return found.merge(rows_of(runs, accuracies)[["run", "hop", "trained", *UNLIKE]], on=["run", "hop"])


@torch.no_grad()
def accuracies(run: Run) -> Iterator[dict[str, Any]]:
    """Each hop's share of right answers on fresh sequences: as in training, and unlike them."""
    shares = {}
    for name, change in {"trained": {}, **UNLIKE}.items():
        posed = run.task.but(**change)
        batch = posed.sample(SEQUENCES, generator(0, "report"))
        right = posed.correct(run.model(batch.inputs, at=posed.query_positions), batch)
        shares[name] = right.float().mean(0).tolist()
    for index, hop in enumerate(run.task.hop_names):
        yield {"hop": hop, **{name: share[index] for name, share in shares.items()}}


def beside(table: DataFrame, value: str) -> DataFrame:
    """A value of the hops within reach, for chains beyond capacity: asked for all hops (True) or for these (False).

    A row per layers, hops, seed and hop asked.
    """
    rows = table[(table.hops > table.capacity) & (table.k <= table.capacity)]
    rows = rows.assign(all=rows["last"] > rows.capacity)
    return rows.pivot(index=["layers", "hops", "seed", "k"], columns="all", values=value)


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims. Thresholds are ours and were committed before the runs; README.md states what we expected."""
    table = table.assign(learns=table.loss < LEARNT, by=table.learnt.fillna(table.steps))
    within, beyond = table[table.hops <= table.capacity], table[table.k > table.capacity]
    claim = partial(told, within, table)
    share = within.groupby(["setting", "run"]).learns.all().groupby("setting").mean()
    yield claim("within_is_learnt", share, "share of runs by setting", at_least=0.8)
    kept = within[within.learns].three_chains
    yield claim("algorithm_within", kept, "accuracy of a learnt hop", at_least=0.8, of="median")
    claim = partial(told, beyond, table)
    yield claim("nothing_beyond", beyond.loss, "loss", at_least=LEARNT)
    yield claim("guess_beyond", beyond.loss, "loss", within=around(GUESS, 0.05), of="median")
    yield from of_what_is_reachable(table)


def of_what_is_reachable(table: DataFrame) -> Iterator[Claim]:
    """Claims about how asking for hops beyond capacity affects the hops within it, on the same sequences."""
    claim = partial(told, table[table.hops > table.capacity], table)
    learns, by, unlike = (beside(table, value).astype(float) for value in ("learns", "by", "three_chains"))
    fewer = (learns[False] - learns[True]).groupby(["layers", "hops", "seed"]).mean()
    yield claim("fewer", fewer, "difference of the shares learnt", at_least=0.2, of="mean", n=len(fewer))
    later = by[True] / by[False]
    yield claim("later", later, "ratio of steps", at_least=1.25, of="median", n=len(later))
    lost = (unlike[False] - unlike[True])[learns.min(axis=1) == 1]
    yield claim("worse_elsewhere", lost, "difference of accuracies", above=0.05, of="median", n=len(lost))


def told(rows: DataFrame, table: DataFrame, id: str, *measured: Any, **limit: Any) -> Claim:
    """The claim of a sentence on some rows of a table."""
    return Evidence(rows, "arXiv:2510.19753", among=table).claim(id, SENTENCES[id], *measured, **limit)


def figure(table: DataFrame) -> Figure:
    """How each hop ended and when it was learnt, by layers, D and the hops asked."""
    return by_setting(table, "setting", "layers L, hops D, hops asked", GUESS)
