"""The sequential test: whether changes of attention keep the loss under a threshold, and enough answers right.

Most sets that a search tries are far from the threshold, so a few sequences decide; the closer one comes, the more are
drawn (Wald, 1945).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from hopscope.circuits.evaluator import Change, Evaluator
from hopscope.circuits.losses import Loss, Share
from hopscope.circuits.units import Unit

SURE = 3.0  # standard errors from the threshold, to be decided before the last sequences (ours)
NEAR = 0.02  # of a bound, by which a loss on few sequences may be off where these do not differ (ours)
Units = frozenset[Unit]
FEW = 2  # sequences, too few to tell the spread of losses


class Outcome(NamedTuple):
    """What a test came to.

    Attributes:
        passed: whether the change keeps the loss under the threshold, and enough answers right.
        loss: under the change, on as many sequences as it took.
        clear: whether that is sure: what is rejected at the threshold itself might as well have passed.
    """

    passed: bool
    loss: Loss
    clear: bool

    @property
    def clearly_fails(self) -> bool:
        return self.clear and not self.passed

    @property
    def is_open(self) -> bool:
        return not self.clear and not self.passed


@dataclass(frozen=True)
class Asked:
    """What is asked of a change, and how sure one has to be.

    Attributes:
        loss: to be below.
        accuracy: share of right answers, to be reached.
        accepts: sequences, from which on it may be accepted before the last.
        sure: standard errors, to be accepted before the last sequences: of the loss,
        sure_right: and of the share.
        fair: of both, to be accepted with the last ones.
        far: a loss that is hopeless in each of the first two sequences.
    """

    loss: float
    accuracy: float
    accepts: int
    sure: float = SURE
    sure_right: float = SURE
    fair: float = 0.0
    far: float = math.inf

    def outcome(self, losses: Tensor, hits: Sequence[Tensor], last: bool) -> Outcome | None:
        """The decision, given what was seen; None where more sequences are needed."""
        loss = Loss.of(losses)
        error = (loss.high - loss.low) / (2 * 1.96)
        if loss.n <= FEW and not last:
            return Outcome(False, loss, True) if float(losses.min()) >= self.far else None
        if not math.isfinite(loss.mean) or loss.mean - SURE * error >= self.loss:
            return Outcome(False, loss, True)
        if self.right(hits, SURE).high < self.accuracy:
            return Outcome(False, loss, True)
        sure = loss.mean + self.sure * error < self.loss and self.right(hits, self.sure_right).low >= self.accuracy
        if sure and (last or loss.n >= self.accepts):
            return Outcome(True, loss, True)
        if not last:
            return None
        fair = loss.mean + self.fair * error < self.loss and self.right(hits, self.fair).low >= self.accuracy
        return Outcome(fair, loss, False)

    def right(self, hits: Sequence[Tensor], errors: float) -> Share:
        """The share of right answers, with an interval of so many standard errors; all, where none are looked at."""
        return Share.of(torch.cat(list(hits)), errors) if hits else Share(1.0, 1.0, 1.0, 0)


class StagedTest(ABC):
    """A test of sets of units: each set is asked once, on as many sequences as it takes.

    Attributes:
        outcomes: of the sets that were asked, each by the words for how, and by what was asked.
    """

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, Units, Asked], Outcome] = {}

    @property
    @abstractmethod
    def asked(self) -> Asked:
        """What is asked of every set now."""

    @abstractmethod
    def stages(self) -> Iterable[tuple[Evaluator, bool]]:
        """The sequences that every stage adds, and whether they are the last."""

    @abstractmethod
    def note(self, words: str, found: Mapping[Units, Outcome]) -> None:
        """Write what became of some sets into the proof log."""

    def ask(self, words: str, sets: Iterable[Units], changed: Callable[[Units], Change]) -> list[Outcome]:
        """What becomes of each set where attention is changed as it has it."""
        asked, sets = self.asked, list(sets)
        new = [units for units in dict.fromkeys(sets) if (words, units, asked) not in self.outcomes]
        found = dict(zip(new, decide([*map(changed, new)], self.stages(), asked), strict=True))
        self.outcomes |= {(words, units, asked): outcome for units, outcome in found.items()}
        self.note(words, found)
        return [self.outcomes[words, units, asked] for units in sets]

    @property
    def undecided(self) -> set[Units]:
        """Sets that were rejected for want of sequences, not by them."""
        return {units for (_, units, _), outcome in self.outcomes.items() if outcome.is_open}


def decide(changes: Sequence[Change], stages: Iterable[tuple[Evaluator, bool]], asked: Asked) -> list[Outcome]:
    """What becomes of each change.

    Args:
        changes: of attention.
        stages: sequences, by the stage that adds them, each with whether it is the last; drawn when first asked for.
        asked: of every change.
    """
    found: list[Outcome | None] = [None] * len(changes)
    losses: list[list[Tensor]] = [[] for _ in changes]
    hits: list[list[Tensor]] = [[] for _ in changes]
    for stage, last in stages:
        open_ = [i for i, outcome in enumerate(found) if outcome is None]
        if not open_:
            break
        copies = stage.outputs([changes[i] for i in open_])
        for i, outputs, new in zip(open_, copies, stage.losses_of_copies(copies), strict=True):
            losses[i].append(new)
            hits[i] += [stage.hits_of(outputs)] if asked.accuracy > 0 else []
            found[i] = asked.outcome(torch.cat(losses[i]), hits[i], last)
    return [outcome for outcome in found if outcome is not None]


def measured_near(bounds: Sequence[float], changes: Sequence[Change], on: tuple[Evaluator, Evaluator]) -> list[Loss]:
    """The loss under each change: of few sequences or, where their interval comes near one of the bounds, of more."""
    few, more = on
    losses = few.losses(changes)
    is_near = lambda loss, bound, by: loss.low - by < bound <= loss.high + by  # noqa: E731
    near = [i for i, loss in enumerate(losses) if any(is_near(loss, bound, NEAR * abs(bound)) for bound in bounds)]
    told = dict(zip(near, more.losses(changes[i] for i in near), strict=True))
    return [told.get(i, loss) for i, loss in enumerate(losses)]
