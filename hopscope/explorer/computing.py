"""Computes with PyTorch, on the server, what the page's own engine does not support (`hopscope.explorer.native`).

Queries and answers have the format of the engine. A change of attention is made of three kinds of interventions, which
are those of circuits and clamps (`hopscope.circuits.evaluator`, `hopscope.interventions.clamps`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from hopscope.circuits.changes import NULLS, Change, Hard, Pattern, Silenced
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.losses import Loss
from hopscope.circuits.units import Ground
from hopscope.core.settings import BadInput, check_choice
from hopscope.explorer.bundle import INSTANCES, SIZES
from hopscope.explorer.measuring import accuracy
from hopscope.explorer.scoring import scoring
from hopscope.explorer.sequences import asked
from hopscope.explorer.typed import answers_on, fresh, typed
from hopscope.interventions.patterns import prescribed
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch, VectorTask

WORDS = {
    "off": "Silenced: the path's attention goes where a head without a task attends; all else is as computed.",
    "ideal": "Held ideal: rows of the path's first role that find a target attend to it alone, as far as no other path "
    "held ideal shares the row; all else is as computed.",
    "hand": "Everything by hand: rows of the circuit's paths are ideal, and all other rows are null.",
}
HELD = 4  # most models in memory
MOST_FRESH, MOST_SEEDS = 64, 10**9


@dataclass(frozen=True)
class Edited(Change):
    """Holds the rows of some paths ideal and silences others; all other attention is as computed.

    Attributes:
        ideal: paths whose rows are held ideal.
        off: paths that are silenced.
        null: the pattern that replaces silenced attention.
    """

    ideal: frozenset[Path] = frozenset()
    off: frozenset[Path] = frozenset()
    null: str = "uniform"

    @property
    def first_layer(self) -> float:
        return min((path.layer for path in self.ideal | self.off), default=math.inf)

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        here = sorted(path for path in self.ideal if path.layer == layer)
        held = prescribed(actual, here, ground.roles, ground.sees, ground.batch.task.ideal_over) if here else actual
        return Silenced(self.off, self.null).pattern(layer, held, ground)


@dataclass(frozen=True)
class Ask:
    """A query of the page.

    Attributes:
        step: of the checkpoint.
        n: number of sequences, one of `SIZES`.
        hand: whether every pattern is set by hand.
        off: paths that are silenced, or, under `hand`, left out of the circuit.
        ideal: paths that are held ideal.
        null: the null of silenced paths and, under `hand`, of all other rows.
        instance: a sequence whose patterns and answers are returned, too.
        typed: tokens of a typed sequence; only its answers are returned.
        fresh: number of fresh sequences whose symbols the page renames to typed facts; only their answers are returned.
        seed: of the fresh sequences.
    """

    step: int
    n: int
    hand: bool = False
    off: frozenset[Path] = frozenset()
    ideal: frozenset[Path] = frozenset()
    null: str = "uniform"
    instance: int | None = None
    typed: tuple[int, ...] = ()
    fresh: int = 0
    seed: int = 0

    @classmethod
    def parse(cls, values: Mapping[str, list[str]]) -> Ask:
        """The query in the values of a query string. Raises BadInput."""
        single = {name: found[-1] for name, found in values.items()}
        null = single.get("null", "uniform")
        check_choice("null", null[:40], NULLS)
        n, instance = whole(single, "n", SIZES[1]), single.get("instance")
        if n not in SIZES:
            raise BadInput(f"n must be one of {', '.join(map(str, SIZES))}; got {n}")
        if instance is not None and not 0 <= whole(single, "instance", 0) < INSTANCES:
            raise BadInput(f"instance must be from 0 to {INSTANCES - 1}; got {instance[:40]!r}")
        return cls(
            whole(single, "step", 0),
            n,
            single.get("hand") == "1",
            frozenset(map(Path.parse, values.get("off", ()))),
            frozenset(map(Path.parse, values.get("ideal", ()))),
            null,
            None if instance is None else int(instance),
            tuple(whole({"typed": token}, "typed", 0) for token in filter(None, single.get("typed", "").split(","))),
            among(single, "fresh", MOST_FRESH),
            among(single, "seed", MOST_SEEDS),
        )

    def change(self, circuit: Mapping[str, Any] | None) -> Change:
        """The change of attention; under `hand` with the paths of the run's circuit, weighted by their strengths."""
        if not self.hand:
            return Edited(self.ideal, self.off, self.null)
        found = (circuit or {}).get("paths", ())
        weights = {Path.from_dict(path): max(float(path["strength"]), 1e-6) for path in found}
        weights |= {path: weights.get(path, 1.0) for path in self.ideal}
        return Hard({path: weight for path, weight in weights.items() if path not in self.off}, self.null)


def whole(values: Mapping[str, str], name: str, default: int) -> int:
    """A whole number in a query. Raises BadInput."""
    text = values.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise BadInput(f"{name} must be a whole number of at least 0; got {text[:40]!r}")
    return int(text)


def among(values: Mapping[str, str], name: str, most: int) -> int:
    """A whole number in a query, 0 by default. Raises BadInput if it is too large."""
    if (found := whole(values, name, 0)) > most:
        raise BadInput(f"{name} must be at most {most}; got {found}")
    return found


class Computer:
    """Runs the checkpoints of one training run on the sequences of its explorer bundle (`explorer.bundle`).

    Args:
        batch: the sequences.
        paths: every path of the model.
        at: returns the model as it was at a given step.
    """

    def __init__(self, batch: Batch, paths: Iterable[Path], at: Callable[[int], Model]):
        self.batch, self.paths = batch, frozenset(paths)
        #: The model of a step, from a cache of the last few or from disk. Raises BadInput, Damaged.
        self.model: Callable[[int], Model] = lru_cache(HELD)(at)

    @torch.no_grad()
    def answer(self, ask: Ask, circuit: Mapping[str, Any] | None) -> dict[str, Any]:
        """Losses, accuracies and one sequence under a change. Raises BadInput for a path that does not exist."""
        for path in sorted(ask.off | ask.ideal):
            if path not in self.paths:
                raise BadInput(f"there is no path '{path}' here")
        if ask.typed or ask.fresh:
            return {"step": ask.step, "typed": self.typed(ask, circuit)}
        evaluator = Evaluator(self.model(ask.step), self.batch.rows(slice(0, ask.n)))
        change = ask.change(circuit)
        account = evaluator.accounts([change])[0]
        loss = Loss.of(account.losses)
        outputs = evaluator.outputs([change])[0]
        return {
            "step": ask.step,
            "n": loss.n,
            "loss": loss.mean,
            "low": loss.low,
            "high": loss.high,
            "hop_losses": account.hop_losses,
            "accuracy": accuracy(evaluator.batch, outputs),
            "instance": None if ask.instance is None else self.look(evaluator, change, outputs, ask.instance),
        }

    def typed(self, ask: Ask, circuit: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """Answers on typed sequences. Raises BadInput for a sequence that the task never draws."""
        task = self.batch.task
        batch = typed(task, list(ask.typed)) if ask.typed else fresh(task, ask.fresh, ask.seed)
        outputs = Evaluator(self.model(ask.step), batch).outputs([ask.change(circuit)])[0]
        right = asked(batch)
        return [answers_on(batch, row, right, named(batch, outputs, row)) for row in range(len(batch))]

    def look(self, evaluator: Evaluator, change: Change, outputs: Tensor, row: int) -> dict[str, Any]:
        """The patterns and answers of one sequence."""
        if row >= len(evaluator.batch):
            raise BadInput(f"there are {len(evaluator.batch)} sequences here; got instance {row}")
        patterns = [layer[row].flatten(1).tolist() for layer in evaluator.patterns_under(change)]
        return {"instance": row, "patterns": patterns, "answers": named(evaluator.batch, outputs, row)}


def named(batch: Batch, outputs: Tensor, row: int) -> list[list[dict[str, float]]]:
    """For each query and hop the answer with its distance, and the runner-up with its margin.

    For vectors the answer is the nearest candidate, by Euclidean distance. For tokens it is the likeliest, and its
    distance is −log p in nats.
    """
    task = batch.task
    hops = len(task.hop_names)
    if isinstance(task, VectorTask):
        guesses = outputs[row].float().unflatten(-1, (hops, task.d_symbol))
        costs = torch.cdist(guesses, task.candidates(batch.draw)[row].expand(len(guesses), -1, -1))
    elif (rule := scoring(task)) is not None and rule.kind == "tokens":
        costs = -rule.logits(outputs[row].float()[None])[0].log_softmax(-1)
    else:
        return []
    two = costs.topk(2, largest=False)
    return [
        [
            {"named": first, "distance": near, "runner_up": second, "margin": far - near}
            for (first, second), (near, far) in zip(indices, values, strict=True)
        ]
        for indices, values in zip(two.indices.tolist(), two.values.tolist(), strict=True)
    ]
