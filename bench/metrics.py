"""How good a circuit is: the field's metrics, as their authors define them, each stamped with its protocol.

N is the model, C a circuit, ∅ all paths null, m = −loss. Sources: faithfulness, completeness and minimality, Wang et
al. (IOI, 2022); normalised faithfulness and that of the complement, Marks et al. (2024); CPR and CMD, Mueller et al.
(MIB, 2025); edges against a known truth, Conmy et al. (ACDC, 2023) and Miller et al. (AutoCircuit, 2024).

Published scores of one circuit differ by a factor of two with the protocol alone (MIB, issue 19), so no number goes
without its own. C and its parts are evaluated *live* (`Kept`: the paths as computed, all else null) or *by hand*
(`Hard`); the model without some paths, N∖K, is always `Silenced`. For `Kept` would give a path that is removed from
everything its attention back: there is nowhere else for it to fall.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.circuits.components.curve import Curve, areas, normalised
from hopscope.circuits.evaluator import AsIs, Change, Evaluator, Hard, Kept, Silenced
from hopscope.circuits.units import NO_ROLE, Unit
from hopscope.core.seeds import generator
from hopscope.problem.paths import Path
from hopscope.tasks.base import NOT_ASKED, Batch, TokenTask, VectorTask

Criterion = Literal["live", "by hand"]
Paths = frozenset[Path]


@dataclass(frozen=True)
class Protocol:
    """What a number depends on.

    Attributes:
        null: the pattern of what is not kept.
        n: number of sequences.
        seed: of random choices of the metric itself.
        criterion: `live` or `by hand`: how circuits are run.
        about: further choices, in words.
    """

    null: str
    n: int
    seed: int
    criterion: Criterion
    about: str = ""


@dataclass(frozen=True)
class Score:
    """A metric's value.

    Attributes:
        name: of the metric.
        value: its number; range and unit are its function's.
        protocol: under which it was measured.
        parts: what it was made from.
    """

    name: str
    value: float
    protocol: Protocol
    parts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "protocol": asdict(self.protocol), "parts": dict(self.parts)}


class Yardstick:
    """A model on sequences, and the one way in which circuits of it are run.

    Args:
        evaluator: the model on the sequences.
        criterion: `live`, paths as computed and all else null; or `by hand`, ideal rows and null elsewhere.
        null: kind of the null patterns.
        seed: of random choices of metrics.
    """

    def __init__(self, evaluator: Evaluator, criterion: Criterion = "live", null: str = "uniform", seed: int = 0):
        self.evaluator, self.criterion, self.null, self.seed = evaluator, criterion, null, seed
        unnamed = [row for row in evaluator.ground.rows if row.query == NO_ROLE]
        #: Rows without a role, which no path names, so that no circuit can leave them out.
        self.always: frozenset[Unit] = frozenset(unnamed)
        self.model, self.nothing = (loss.mean for loss in evaluator.losses([AsIs(), self.change(())]))

    def change(self, paths: Iterable[Path]) -> Change:
        """A circuit as a change of the model."""
        if self.criterion == "live":
            return Kept(frozenset(paths) | self.always, self.null)
        strengths = self.evaluator.strengths
        return Hard({path: strengths[path] for path in paths}, self.null)

    def losses(self, circuits: Iterable[Collection[Path]]) -> list[float]:
        """L_C of many circuits."""
        return [loss.mean for loss in self.evaluator.losses(self.change(circuit) for circuit in circuits)]

    def losses_without(self, removed: Iterable[Collection[Path]]) -> list[float]:
        """L of the model without some paths."""
        return [loss.mean for loss in self.evaluator.losses(Silenced(frozenset(r), self.null) for r in removed)]

    def score(self, name: str, value: float, about: str = "", **parts: Any) -> Score:
        """A value with this protocol."""
        protocol = Protocol(self.null, len(self.evaluator.batch), self.seed, self.criterion, about)
        return Score(name, value, protocol, parts)


# Faithfulness ----------------------------------------------------------------------------------------------------


def normalised_faithfulness(lab: Yardstick, circuit: Paths) -> Score:
    """f(C): 1 as good as the model, 0 as bad as null, either side unbounded (Marks et al., 2024)."""
    [loss] = lab.losses([circuit])
    value = normalised(loss, lab.model, lab.nothing)
    return lab.score("normalised faithfulness", value, circuit=loss, model=lab.model, null=lab.nothing)


def ioi_faithfulness(lab: Yardstick, circuit: Paths) -> Score:
    """|m(N) − m(C)|, in units of the loss; 0 is faithful (Wang et al., 2022)."""
    [loss] = lab.losses([circuit])
    return lab.score("IOI faithfulness", abs(lab.model - loss), circuit=loss, model=lab.model)


# Completeness and minimality -------------------------------------------------------------------------------------


def random_completeness(lab: Yardstick, circuit: Paths, n: int = 20) -> Score:
    """Mean over random K ⊂ C of |m(N∖K) − m(C∖K)|: 0 is complete. Each path is in K with probability ½."""
    random = generator(lab.seed, "completeness", 0)
    members = sorted(circuit)
    draws = torch.rand(n, len(members), generator=random) < 0.5
    subsets = [frozenset(itertools.compress(members, draw)) for draw in draws.tolist()]
    gaps = incompleteness(lab, circuit, subsets)
    return lab.score("completeness, random K", sum(gaps) / n, f"{n} K, each path with p = ½", greatest=max(gaps))


def greedy_completeness(lab: Yardstick, circuit: Paths, budget: int = 10) -> Score:
    """The greatest |m(N∖K) − m(C∖K)| on a greedy climb from K = ∅ that adds the worst path at each of so many steps."""
    removed: Paths = frozenset()
    [worst] = incompleteness(lab, circuit, [removed])
    at = removed
    for _ in range(min(budget, len(circuit))):
        candidates = [removed | {path} for path in sorted(circuit - removed)]
        gaps = incompleteness(lab, circuit, candidates)
        removed = candidates[gaps.index(max(gaps))]
        if max(gaps) > worst:
            worst, at = max(gaps), removed
    return lab.score("completeness, greedy K", worst, f"at most {budget} paths", removed=sorted(map(str, at)))


def incompleteness(lab: Yardstick, circuit: Paths, removed: Sequence[Paths]) -> list[float]:
    """|m(N∖K) − m(C∖K)| for some K."""
    without = zip(lab.losses_without(removed), lab.losses(circuit - k for k in removed), strict=True)
    return [abs(model - rest) for model, rest in without]


def complement_faithfulness(lab: Yardstick, circuit: Paths) -> Score:
    """f of all that is not in C: 0 where C is complete (Marks et al., 2024)."""
    [loss] = lab.losses_without([circuit])
    value = normalised(loss, lab.model, lab.nothing)
    return lab.score("faithfulness of the complement", value, complement=loss, model=lab.model, null=lab.nothing)


def minimality(lab: Yardstick, circuit: Paths, budget: int = 0) -> dict[Path, Score]:
    """For each v ∈ C the greatest |m(C∖(K∪{v})) − m(C∖K)| found: what v is worth; 0 means that it can go.

    Args:
        lab: how circuits are run.
        circuit: C.
        budget: how many K ⊂ C∖{v} are tried beside K = ∅ (which is step 6 of the seed paper's appendix E); all of
            them if there are no more than that.
    """
    scores = {}
    for path in sorted(circuit):
        subsets = [frozenset[Path](), *some_subsets(sorted(circuit - {path}), budget, lab.seed)]
        without, with_it = (lab.losses(circuit - k - v for k in subsets) for v in ({path}, frozenset[Path]()))
        worth = [abs(a - b) for a, b in zip(without, with_it, strict=True)]
        best = worth.index(max(worth))
        about = f"best of {len(subsets)} K"
        names = sorted(map(str, subsets[best]))
        scores[path] = lab.score("minimality", worth[best], about, removed=names, alone=worth[0])
    return scores


def some_subsets(members: Sequence[Path], budget: int, seed: int) -> list[Paths]:
    """Non-empty subsets: all of them if the budget allows, else so many at random."""
    if 2 ** len(members) - 1 <= budget:
        sizes = range(1, len(members) + 1)
        return [frozenset(chosen) for size in sizes for chosen in itertools.combinations(members, size)]
    draws = torch.rand(budget, len(members), generator=generator(seed, "minimality", 0)) < 0.5
    return [frozenset(itertools.compress(members, draw)) for draw in draws.tolist()]


# Orders of all paths: CPR and CMD --------------------------------------------------------------------------------


def exact(curve: Curve) -> tuple[float, float]:
    """CPR and CMD over every size: with a few hundred units MIB's first points are no unit at all."""
    return areas([size / curve.n for size in curve.sizes], curve.faithfulness)


def on_log_axis(curve: Curve) -> tuple[float, float]:
    """CPR and CMD over ln(size) from 1 to n, divided by ln n: small circuits count for as much as large ones."""
    logs = [math.log(size) / max(math.log(curve.n), 1e-12) for size in curve.sizes if size]
    return areas(logs, curve.faithfulness[1:])


def curve(lab: Yardstick, order: Sequence[Path]) -> Curve:
    """Losses of all prefixes of an order: n + 1 forwards."""
    sizes = tuple(range(len(order) + 1))
    return Curve(tuple(lab.losses(order[:size] for size in sizes)), lab.model, lab.nothing, sizes)


# Answers ---------------------------------------------------------------------------------------------------------


def named(outputs: Float[Tensor, "batch query output"], batch: Batch) -> Int[Tensor, "batch query hop"]:
    """Which symbol each answer names: the nearest of the sequence's, by number; or the likeliest token."""
    task = batch.task
    if isinstance(task, VectorTask):
        guesses = outputs.float().unflatten(-1, (len(task.hop_names), task.d_symbol))
        distances = torch.cdist(guesses.flatten(1, 2), task.candidates(batch.draw))
        return distances.argmin(-1).unflatten(1, guesses.shape[1:3])
    assert isinstance(task, TokenTask)
    return task.logits(outputs).argmax(-1)


def asked(batch: Batch) -> Bool[Tensor, "batch query hop"]:
    """Which answers are asked for at all."""
    if isinstance(batch.task, TokenTask):
        return batch.targets != NOT_ASKED
    n_queries = batch.targets.shape[1]
    return torch.ones(len(batch), n_queries, len(batch.task.hop_names), dtype=torch.bool, device=batch.targets.device)


def same_symbol(lab: Yardstick, circuit: Paths) -> Score:
    """The share of answers for which model and circuit name the same symbol, 0–1; its parts are the hops."""
    batch = lab.evaluator.batch
    model, found = (named(o, batch) for o in lab.evaluator.outputs([AsIs(), lab.change(circuit)]))
    same, wanted = (model == found), asked(batch)
    parts = {name: share(same[..., i], wanted[..., i]) for i, name in enumerate(batch.task.hop_names)}
    return lab.score("same symbol as the model", share(same, wanted), hops=parts)


def share(true: Tensor, among: Tensor) -> float:
    return float(true[among].float().mean())


def distance_to_model(lab: Yardstick, circuit: Paths) -> Score:
    """How far the circuit's answers are from the model's; 0 is the same.

    Vectors: the mean squared difference per number, in the unit of the loss; its part is E‖y_N − y_C‖² per query.
    Tokens: KL(p_N ‖ p_C) in nats, the mean over answers asked for.
    """
    batch = lab.evaluator.batch
    model, found = lab.evaluator.outputs([AsIs(), lab.change(circuit)])
    if isinstance(batch.task, TokenTask):
        p, q = (batch.task.logits(o).log_softmax(-1) for o in (model, found))
        kl = (p.exp() * (p - q)).sum(-1)
        return lab.score("KL to the model", float(kl[asked(batch)].mean()))
    squares = (model - found).float().square()
    return lab.score("MSE to the model", float(squares.mean()), squared_norm=float(squares.sum(-1).mean()))


# Circuits against a truth, and against one another ---------------------------------------------------------------


def shd(circuit: Paths, truth: Paths) -> int:
    """Structural Hamming distance: paths in one of the two, but not in the other."""
    return len(circuit ^ truth)


def nearest(circuit: Paths, truths: Iterable[Paths]) -> Paths:
    """The true circuit at the least distance: where heads have doubles, there are several."""
    return min(truths, key=lambda truth: (shd(circuit, truth), sorted(truth)))
