"""Following paths over training: their attention, and what silencing them costs, at every checkpoint of a run.

All checkpoints are measured on the same sequences, so that differences over time are not differences of data. Paths are
those of the run's circuit, unless others are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from pandas import DataFrame
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.evaluator import AsIs, Evaluator, Silenced
from hopscope.emergence.onset import Array, Causal, Change, Onset, causal_onset, change_point, onset, resamples
from hopscope.emergence.order import event_names
from hopscope.paths import Path
from hopscope.runs import Run
from hopscope.settings import BadInput
from hopscope.storage import read_json

SAMPLES = 400  # of the bootstrap over sequences
LEAST = 3  # checkpoints, below which there is nothing to follow
CHUNK = 64  # sequences per evaluator


@dataclass(frozen=True)
class Followed:
    """One path over training.

    Attributes:
        path: which.
        name: what it is called in every run (`event_names`).
        strength: mean attention on it at each checkpoint, 0–1.
        low: lower end of its interval over sequences.
        high: its upper end.
        effect: what silencing it adds to the loss at each checkpoint.
        onset: by the paper's rule.
        change: its change point; None where no single rise describes the curve.
        causal: when silencing begins to cost.
    """

    path: Path
    name: str
    strength: Array
    low: Array
    high: Array
    effect: Array
    onset: Onset
    change: Change | None
    causal: Causal

    def as_dict(self) -> dict[str, Any]:
        """As in emergence.json."""
        return {
            **self.path.as_dict(),
            "name": self.name,
            "strength": round(float(self.strength[-1]), 4),
            "onset": self.onset.as_dict(),
            "change_point": self.change and self.change.as_dict(),
            "causal": self.causal.as_dict(),
        }


@dataclass(frozen=True)
class Emergence:
    """All followed paths of one run, and its hops.

    Attributes:
        run: where it is.
        steps: of the checkpoints.
        paths: followed.
        hops: validation loss of each hop at every logged step, columns `step` and one per hop.
        learnt: the step at which each hop goes below the task's threshold of learning, as an onset.
    """

    run: str
    steps: list[int]
    paths: list[Followed]
    hops: DataFrame
    learnt: dict[str, Onset]

    @property
    def events(self) -> dict[str, Onset]:
        """The paths' onsets, by names that mean the same in every run."""
        return {followed.name: followed.onset for followed in self.paths}

    def table(self) -> DataFrame:
        """One row per path and checkpoint: run, step, path, name, strength, low, high, effect."""
        rows = [
            {"run": self.run, "step": step, "path": str(f.path), "name": f.name}
            | {name: round(float(getattr(f, name)[i]), 6) for name in ("strength", "low", "high", "effect")}
            for f in self.paths
            for i, step in enumerate(self.steps)
        ]
        return DataFrame(rows)

    def as_dict(self) -> dict[str, Any]:
        """As in emergence.json."""
        return {
            "run": self.run,
            "steps": self.steps,
            "paths": [followed.as_dict() for followed in self.paths],
            "hops": {hop: learnt.as_dict() for hop, learnt in self.learnt.items()},
        }


def follow(
    run: Run, paths: Sequence[Path] = (), *, n: int = 256, seed: int = 0, watch: Callable[[str], None] = lambda _: None
) -> Emergence:
    """Measure paths at every checkpoint.

    Args:
        run: trained here, with at least three checkpoints.
        paths: which; by default those of the run's circuit.json, or else of the circuit that is found now.
        n: sequences; the paper averages 32 (section 9.1).
        seed: of the sequences and of the bootstrap.
        watch: told in words what is being done.

    Raises:
        BadInput: the run has no training to follow, or a path is not one of its model's.
        Damaged: a checkpoint is not what was written.
    """
    steps = run.steps
    if run.config.origin is not None or len(steps) < LEAST:
        raise BadInput(
            f"{run.path} has {len(steps)} checkpoints, and emergence needs at least {LEAST} of a training run"
        )
    chosen = list(paths) or circuit_of(run, watch)
    strengths, effects = measured(run, steps, chosen, n, seed, watch)
    weights = resamples(n, SAMPLES, seed)
    names = event_names(chosen)
    followed = [
        summary(path, names[path], steps, strengths[:, i], effects[:, i], weights) for i, path in enumerate(chosen)
    ]
    hops = run.metrics[["step", *run.task.hop_names]]
    below = -run.task.learnt_below
    learnt = {hop: onset(hops.step.tolist(), -hops[hop].to_numpy(float), below) for hop in run.task.hop_names}
    return Emergence(str(run.path), steps, followed, hops, learnt)


def circuit_of(run: Run, watch: Callable[[str], None]) -> list[Path]:
    """The paths of the run's circuit: stored, or found now. Raises BadInput if it has none."""
    stored = run.path / "circuit.json"
    if stored.is_file():
        found = [Path.from_dict(path) for path in read_json(stored)["paths"]]
    else:
        circuit: Circuit = discover(run.model, run.task, Discovery(), watch)
        found = [part.path for part in circuit.paths] if circuit.accepted else []
    if not found:
        raise BadInput(f"{run.path} has no circuit whose paths could be followed; name some with --path")
    return sorted(found)


def strong_paths(run: Run, above: float, n: int = CHUNK) -> list[Path]:
    """All paths whose final mean attention is above a threshold."""
    evaluator = Evaluator(run.model, run.task.sample(n, 0))
    return sorted(path for path, strength in evaluator.strengths.items() if strength > above)


def measured(
    run: Run, steps: Sequence[int], paths: Sequence[Path], n: int, seed: int, watch: Callable[[str], None]
) -> tuple[Array, Array]:
    """Attention on every path, and what silencing it adds to the loss: (sequence, path, step) both."""
    batch = run.task.sample(n, seed)
    strengths, effects = [], []
    for step in steps:
        watch(f"measuring step {step}")
        model = run.at(step)
        here = [Evaluator(model, batch.rows(slice(i, i + CHUNK))) for i in range(0, n, CHUNK)]
        strengths.append(torch.cat([attention(evaluator, paths) for evaluator in here]))
        effects.append(torch.cat([costs(evaluator, paths) for evaluator in here]))
    return torch.stack(strengths, -1).double().numpy(), torch.stack(effects, -1).double().numpy()


def attention(evaluator: Evaluator, paths: Sequence[Path]) -> Tensor:
    """Mean attention on each path in each sequence, (sequence, path). Raises BadInput for a path that is not there."""
    columns = []
    for path in paths:
        shape = evaluator.model.architecture
        mask = evaluator.ground.entries(path)
        if path.layer >= shape.n_layers or path.head >= shape.n_heads or not mask.any():
            raise BadInput(f"this model has no path {path}; it has {shape.n_layers} layers of {shape.n_heads} heads")
        on_path = (evaluator.patterns[path.layer][:, path.head] * mask).sum(-1)
        held = mask.any(-1)
        columns.append(on_path.sum(-1) / held.sum(-1).clamp(min=1))
    return torch.stack(columns, 1)


def costs(evaluator: Evaluator, paths: Sequence[Path]) -> Tensor:
    """What silencing each path adds to the loss of each sequence, (sequence, path)."""
    losses = evaluator.sequence_losses([AsIs(), *(Silenced(frozenset([path])) for path in paths)])
    return (losses[1:] - losses[0]).T


def summary(path: Path, name: str, steps: Sequence[int], strengths: Array, effects: Array, weights: Array) -> Followed:
    """A path's curves and onsets."""
    mean = strengths.mean(0)
    resampled = weights @ strengths / weights.sum(1, keepdims=True)
    low, high = numpy.quantile(resampled, (0.025, 0.975), axis=0)
    return Followed(
        path=path,
        name=name,
        strength=mean,
        low=low,
        high=high,
        effect=effects.mean(0),
        onset=onset(steps, mean, resampled=resampled),
        change=change_point(steps, mean, resampled),
        causal=causal_onset(steps, effects, weights),
    )
