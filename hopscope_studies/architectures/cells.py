"""The cells of the bench, declared beforehand: candidate, task, hops, layers and seed, at every scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.base import Task
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.k_fold import KFold
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.two_hop import TwoHop
from hopscope_studies.architectures.candidates import LONG, PRIOR, STRONGER, Candidate, fits, others, rules

#: The tasks, by name, of D hops. `two_hop` has two.
TASKS: Mapping[str, Callable[[int], Task]] = {
    "deepest first": lambda hops: Retrieval(n_hops=hops, order="deepest_first", position_base=100.0),
    "nearest first": lambda hops: Retrieval(n_hops=hops, order="nearest_first", position_base=100.0),
    "shuffled": lambda hops: Retrieval(n_hops=hops, order="shuffled", position_base=100.0),
    "hop_k": lambda hops: HopK(length=24, n_hops=hops),
    "two_hop": lambda hops: TwoHop(every_hop=True),
    "k_fold": lambda hops: KFold(n_hops=hops, n_symbols=4),
}
MAIN = "deepest first"
LAYERS = 3  # plain attention reaches three hops with them, and shifted keys and values seven
HOPS = (2, 3, 5)
SEEDS = {"cpu": 2, "long": 3, "paper": 5}
STEPS = {"cpu": 300, "long": 300, "paper": 3000}
TRAINING = Training(batch=128, lr=3e-3, schedule="linear", dtype="bfloat16", log_every=10, val_size=128, stop_below=0.1)
#: Learning rates of optimizers that do not use AdamW's; those whose updates have its size do.
RATES = {"sgd": 0.03}
#: What differs at `quick`.
TINY: dict[str, Any] = {"steps": 4, "batch": 4, "log_every": 2, "val_size": 8, "decay_steps": 2, "checkpoints": "4"}


@dataclass(frozen=True)
class Cell:
    """One run of the bench."""

    candidate: Candidate
    seed: int = 0
    hops: int = 3
    task: str = MAIN
    layers: int = LAYERS

    def config(self, scale: str) -> Config:
        """The configuration of the run."""
        task, training = TASKS[self.task](self.hops), self.training(scale)
        return Config(task, self.candidate.shape(task, self.layers, 16 if scale == "quick" else None), training)

    def training(self, scale: str) -> Training:
        """The run's training settings; only the first and the last weights are kept."""
        rate = RATES.get(self.candidate.optimizer, TRAINING.lr)
        own = {"seed": self.seed, "optimizer": self.candidate.optimizer, "lr": rate}
        if scale == "quick":
            return TRAINING.but(**TINY, **own)
        steps = STEPS[scale]
        return TRAINING.but(steps=steps, decay_steps=steps // 2, checkpoints=str(steps), **own)


def candidate_of(config: Config) -> Candidate:
    """The candidate of a run."""
    shape = config.model
    assert isinstance(shape, Architecture)
    code = PRIOR if shape.positions == STRONGER and len(config.task.hop_names) >= LONG else shape.positions
    return Candidate(shape.attention, code, shape.mlp, config.training.optimizer)


def task_of(config: Config) -> str:
    """The name of a run's task, as in `TASKS`."""
    name = config.task.name()
    return str(config.task.as_dict()["order"]).replace("_", " ") if name == "retrieval" else name


def cells(scale: str) -> Iterator[Cell]:
    """The cells of a scale, the most informative first, since `long` may end early."""
    if scale == "quick":
        yield from (Cell(one, hops=2, layers=1) for one in rules())
        return
    seen = set()
    for cell in declared(scale):
        if cell not in seen and fits(cell.candidate, TASKS[cell.task](cell.hops)):
            seen.add(cell)
            yield cell


def declared(scale: str) -> Iterator[Cell]:
    """The small bench; beyond `cpu` all other cells, block by block."""
    yield from small(range(SEEDS["cpu"]))
    if scale == "cpu":
        return
    seeds = range(SEEDS[scale])
    yield from depths((2,), (3,), seeds[:1])
    yield from every(rules(prior=False), (2,), seeds[:1])
    yield from every(others(), (3,), seeds[:1])
    yield from small(seeds)
    yield from depths((2, 4), (3, 5), seeds)
    yield from every(rules(prior=False), HOPS, seeds)
    yield from every(others(), HOPS, seeds)
    for task, hops in (("nearest first", 2), ("shuffled", 2), ("hop_k", 3), ("two_hop", 2), ("k_fold", 2)):
        yield from every(rules(), (hops,), seeds, task)
    yield from every(rules(), range(1, 9), seeds)


def small(seeds: Iterable[int]) -> Iterator[Cell]:
    """Every rule with the prior; without it, plain attention and rules that join neighbouring tokens by themselves."""
    without = [one for one in rules(prior=False) if one == Candidate(positions=None) or one.brings_its_own]
    return every([*rules(), *without], HOPS, seeds)


def depths(layers: Iterable[int], hops: Iterable[int], seeds: Iterable[int]) -> Iterator[Cell]:
    """Every rule with the prior, with other numbers of layers."""
    return (cell for n_layers in layers for cell in every(rules(), hops, seeds, layers=n_layers))


def every(
    candidates: Iterable[Candidate], hops: Iterable[int], seeds: Iterable[int], task: str = MAIN, layers: int = LAYERS
) -> Iterator[Cell]:
    """All combinations, seed by seed, so that a budget that runs out leaves whole seeds."""
    candidates, hops = list(candidates), list(hops)
    return (Cell(one, seed, n, task, layers) for seed in seeds for n in hops for one in candidates)
