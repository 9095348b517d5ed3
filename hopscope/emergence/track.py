"""Paths over training: when each appears, when it begins to matter, and when the hop that it serves is learnt.

All checkpoints are measured on the same sequences, so that differences over time are not differences of data. By
default the paths are those of the run's circuit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy
from pandas import DataFrame

from hopscope.circuits.changes import NULLS
from hopscope.core.settings import BadInput, check_choice, check_range
from hopscope.emergence.change_point import ChangePoint, change_point
from hopscope.emergence.onset import INTERVAL, Array, Causal, Onset, causal_onset, onset, resamples
from hopscope.emergence.order import event_names, first_of_kind, in_order
from hopscope.emergence.record import (
    Record,
    circuit_paths,
    completed,
    recorded,
    streamed,
    streamed_rows,
    strong_paths as strong_paths,
    trained_steps,
)
from hopscope.problem.paths import Path
from hopscope.runs.run import Run
from hopscope.tasks.base import Task

SAMPLES = 400  # of the bootstrap over sequences
NEGLIGIBLE = 0.01  # share of the chance loss below which an effect has no onset (our choice)
SERVES = 0.5  # share of the largest effect on a hop's loss that the served hop must have


@dataclass(frozen=True)
class Cost:
    """The effect of silencing one path, over training: the loss with the path silenced minus the loss without.

    Attributes:
        effect: at each step, mean over sequences.
        low: lower end of its interval, paired over sequences.
        high: upper end of that interval.
        causal: when the effect begins.
        by_hop: the effect on each hop's loss at the last step.
        hop: the hop that the path serves: the easiest with at least half of the largest effect. None if the effect at
            the last step is not above 0, or is below a hundredth of the chance loss.
    """

    effect: Array
    low: Array
    high: Array
    causal: Causal
    by_hop: dict[str, float]
    hop: str | None


@dataclass(frozen=True)
class Followed:
    """One path over training.

    Attributes:
        path: the path.
        name: its name across runs (`event_names`).
        strength: mean attention on it at each step, 0–1.
        low: lower end of its interval over sequences; NaN if it was streamed.
        high: upper end of that interval.
        onset: when it emerged, by the paper's rule.
        change: its change point; None if no single rise describes the curve.
        cost: the effect of silencing it; None if it was streamed.
        learnt: when the hop that it serves was learnt; None if that hop is not known.
    """

    path: Path
    name: str
    strength: Array
    low: Array
    high: Array
    onset: Onset
    change: ChangePoint | None
    cost: Cost | None
    learnt: Onset | None

    @property
    def hop(self) -> str | None:
        """The hop that it serves; None if unknown."""
        return self.cost.hop if self.cost else None

    @property
    def lead(self) -> float | None:
        """Steps by which the onset precedes the learning of its hop; negative if it follows. None if censored."""
        if self.onset.step is None or self.learnt is None or self.learnt.step is None:
            return None
        return self.learnt.step - self.onset.step

    def as_dict(self) -> dict[str, Any]:
        """The value in emergence.json."""
        return {
            **self.path.as_dict(),
            "name": self.name,
            "strength": float(self.strength[-1]),
            "lead": self.lead,
            "onset": asdict(self.onset),
            "change_point": self.change and asdict(self.change),
            "causal": self.cost and asdict(self.cost.causal),
            "hop": self.hop,
            "hop_effects": self.cost and dict(self.cost.by_hop),
        }


@dataclass(frozen=True)
class Emergence:
    """All followed paths of one run, and its hops.

    Attributes:
        run: its path.
        identity: its identity.
        source: `checkpoints`, or `streamed`.
        steps: of the checkpoints, or of the logged rows.
        paths: the followed paths.
        hops: the loss of each hop at these steps, in columns `step` and one per hop: on the sequences that paths are
            measured on, or on validation data if streamed.
        learnt: when each hop's loss fell below the task's threshold of learning.
        protocol: sequences, seed, null, bootstrap samples.
    """

    run: str
    identity: str
    source: str
    steps: list[int]
    paths: list[Followed]
    hops: DataFrame
    learnt: dict[str, Onset]
    protocol: dict[str, Any]

    @property
    def events(self) -> dict[str, Onset]:
        """The paths' onsets, by names that mean the same in every run."""
        return {followed.name: followed.onset for followed in self.paths}

    @property
    def first_events(self) -> dict[str, Onset]:
        """The onset of the first path of each kind (`first_of_kind`)."""
        return first_of_kind(self.events)

    @property
    def ordered(self) -> list[Followed]:
        """The paths in order of their onsets; those that never emerged are last."""
        by_name = {followed.name: followed for followed in self.paths}
        return [by_name[name] for name in in_order(self.events)]

    def table(self) -> DataFrame:
        """One row per path and step.

        Columns: run, identity, step, path, name, layer, head, query, key, chain; strength and effect, each with its
        interval (low, high, effect_low, effect_high); and the loss of every hop, `loss_…`, the same for all paths.
        """
        losses = {f"loss_{hop}": self.hops[hop].round(6).tolist() for hop in self.learnt}
        rows = [
            {"run": self.run, "identity": self.identity, "step": step, "path": str(f.path), "name": f.name}
            | f.path.as_dict()
            | {name: round(float(values[i]), 6) for name, values in curves_of(f).items()}
            | {name: values[i] for name, values in losses.items()}
            for f in self.paths
            for i, step in enumerate(self.steps)
        ]
        return DataFrame(rows)

    def as_dict(self) -> dict[str, Any]:
        """The value of emergence.json."""
        return {
            "run": self.run,
            "identity": self.identity,
            "source": self.source,
            "steps": self.steps,
            "paths": [rounded(followed.as_dict()) for followed in self.paths],
            "hops": {hop: rounded(asdict(learnt)) for hop, learnt in self.learnt.items()},
            "hop_losses": {hop: self.hops[hop].round(6).tolist() for hop in self.learnt},
            "protocol": self.protocol,
        }


def rounded(value: Any) -> Any:
    """A result's numbers as they are stored: four decimals, far finer than any interval here."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def follow(
    run: Run,
    paths: Sequence[Path] = (),
    *,
    n: int = 256,
    seed: int = 0,
    null: str = "uniform",
    was_streamed: bool = False,
    watch: Callable[[str], None] = lambda _: None,
) -> Emergence:
    """Measure paths at every checkpoint, or read what was logged in training, and find when each emerged.

    Args:
        run: trained here, with at least three checkpoints.
        paths: the paths; by default those of the run's circuit.json, or else of a circuit searched for now.
        n: number of sequences; the paper averages 32 (section 9.1).
        seed: of the sequences and of the bootstrap.
        null: the pattern of a silenced path's rows: `uniform`, `identity` or `resample`.
        was_streamed: whether to read the logged measure instead, at every logged step.
        watch: called with a description of each step of the work.

    Raises:
        BadInput: the run has no training to follow, a path is not one of its model's, or n is below 1.
        Damaged: a checkpoint was altered.
    """
    check_choice("null", null, NULLS)
    check_range("n", n, {"low": 1})
    _ = streamed_rows(run) if was_streamed else trained_steps(run)  # raises before any search
    chosen = list(dict.fromkeys(paths)) or circuit_paths(run, watch)
    record = streamed(run, chosen) if was_streamed else recorded(run, chosen, n, seed, null, watch)
    protocol = {"sequences": n, "seed": seed, "null": null, "samples": SAMPLES} if not was_streamed else {}
    return told(record, chosen, run.task, str(run.path), run.config.identity, protocol)


def told(
    record: Record, paths: Sequence[Path], task: Task, run: str, identity: str, protocol: dict[str, Any]
) -> Emergence:
    """Compute from their measurements when paths emerged.

    Args:
        record: the measurements.
        paths: the measured paths, in their order.
        task: the task, whose hops were learnt.
        run: the run's path, or another name of the model.
        identity: the run's identity.
        protocol: `sequences`, `seed`, `null`, `samples`; empty if it was streamed.
    """
    names, below = event_names(paths), -task.learnt_below
    losses = dict(zip(task.hop_names, record.hops, strict=True))
    hops = DataFrame({"step": record.steps} | losses).dropna(axis=1, how="all")  # without those that nobody asks
    learnt = {hop: onset(record.steps, -losses[hop], below) for hop in task.hop_names if hop in hops}
    weights, least = resamples(record.n, SAMPLES, protocol.get("seed", 0)), NEGLIGIBLE * task.chance
    followed = [summary(path, names[path], i, record, weights, learnt, least) for i, path in enumerate(paths)]
    return Emergence(run, identity, record.source, record.steps, followed, hops, learnt, protocol)


def follow_all(
    runs: Sequence[Run],
    choose: Callable[[Run], Sequence[Path]],
    *,
    was_streamed: bool = False,
    watch: Callable[[str], None] = lambda _: None,
    **how: Any,
) -> list[Emergence]:
    """Follow several runs of one task, so that their orders can be compared.

    Every kind of path that one of them has is followed in all (`completed`); where it did not emerge it is censored.

    Args:
        runs: different runs of one task.
        choose: gives a run's paths; if none, those of its circuit are taken.
        was_streamed: as for `follow`.
        watch: as for `follow`.
        how: `n`, `seed` and `null` of `follow`.

    Raises:
        BadInput: two are the same run, or their tasks have different hops; and as `follow` does.
    """
    every = comparable_paths(runs, choose, was_streamed=was_streamed, watch=watch)
    return [
        follow(run, paths, was_streamed=was_streamed, watch=watch, **how)
        for run, paths in zip(runs, every, strict=True)
    ]


def comparable_paths(
    runs: Sequence[Run],
    choose: Callable[[Run], Sequence[Path]],
    *,
    was_streamed: bool = False,
    watch: Callable[[str], None] = lambda _: None,
) -> list[list[Path]]:
    """The paths to follow in each of several runs; arguments and errors are those of `follow_all`."""
    check_comparable(runs)
    for run in runs:
        _ = streamed_rows(run) if was_streamed else trained_steps(run)
    chosen = [list(dict.fromkeys(choose(run))) or circuit_paths(run, watch) for run in runs]
    kinds = {(path.query, path.key, path.chain) for paths in chosen for path in paths}
    return [completed(run, paths, kinds, was_streamed=was_streamed) for run, paths in zip(runs, chosen, strict=True)]


def check_comparable(runs: Sequence[Run]) -> None:
    """Raise BadInput unless the runs differ and their orders can be compared."""
    first, seen = runs[0], dict[str, Run]()
    for run in runs:
        if (run.task.name(), run.task.hop_names) != (first.task.name(), first.task.hop_names):
            raise BadInput(f"{first.path} and {run.path} are of different tasks: their paths have no common order")
        twin = seen.setdefault(run.config.identity, run)
        if twin is not run:
            raise BadInput(f"{twin.path} and {run.path} are the same run, {run.config.identity}: give each run once")


def summary(
    path: Path, name: str, index: int, record: Record, weights: Array, learnt: dict[str, Onset], least: float
) -> Followed:
    """A path's curves and onsets; a final effect below `least` does not count."""
    mean, steps = record.strength(index), record.steps
    if record.effects is None or record.hop_effects is None:  # streamed: there are no sequences to draw from
        ends = numpy.full(len(steps), numpy.nan)
        return Followed(path, name, mean, ends, ends, onset(steps, mean), change_point(steps, mean), None, None)
    resampled = record.resampled(index, weights)
    low, high = numpy.quantile(resampled, INTERVAL, axis=0)
    when, change = onset(steps, mean, resampled=resampled), change_point(steps, mean, resampled)
    by_hop = dict(zip(learnt, record.hop_effects[index].tolist(), strict=True))
    above = None if record.chance is None else low > record.chance[index]
    effects = record.effects[index]  # sequence step
    effect_low, effect_high = numpy.quantile(weights @ effects / len(effects), INTERVAL, axis=0)
    causal = causal_onset(steps, effects, weights, least, above)
    hop = served(by_hop) if causal.onset.status != "never" else None
    cost = Cost(effects.mean(0), effect_low, effect_high, causal, by_hop, hop)
    return Followed(path, name, mean, low, high, when, change, cost, learnt[hop] if hop else None)


def served(effects: Mapping[str, float]) -> str:
    """The easiest hop with at least half of the largest effect; hops are in order of difficulty."""
    return next(hop for hop, effect in effects.items() if effect >= SERVES * max(effects.values()))


def curves_of(followed: Followed) -> dict[str, Array]:
    """A path's curves, by the names of the table's columns; NaN where unknown."""
    curves = {"strength": followed.strength, "low": followed.low, "high": followed.high}
    unknown, cost = numpy.full(len(followed.strength), numpy.nan), followed.cost
    known = {"effect": cost.effect, "effect_low": cost.low, "effect_high": cost.high} if cost else {}
    return curves | dict.fromkeys(("effect", "effect_low", "effect_high"), unknown) | known
