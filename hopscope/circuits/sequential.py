"""The sequential test: whether changes of attention keep the loss under a threshold, and enough answers right.

Most sets that a search tries are far from the threshold, so a few sequences decide; the closer one comes, the more are
drawn (Wald, 1945).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from hopscope.circuits.evaluator import Change, Evaluator
from hopscope.circuits.losses import Loss, Share

SURE = 3.0  # standard errors from the threshold, to be decided before the last sequences (ours)
NEAR = 0.02  # of a bound, by which a loss on few sequences may be off where these do not differ (ours)
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


#: What is far away already on the first few.
HOPELESS = Outcome(False, Loss(math.inf, math.inf, math.inf, FEW), True)


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

    def fails(self, loss: Loss) -> bool:
        """Whether a loss alone is enough to reject a change."""
        return not math.isfinite(loss.mean) or loss.mean - SURE * error_of(loss) >= self.loss

    def outcome(self, loss: Loss, hits: Sequence[Tensor], last: bool) -> Outcome | None:
        """The decision, given a loss that does not fail alone; None where more sequences are needed."""
        if self.right(hits, SURE).high < self.accuracy:
            return Outcome(False, loss, True)
        if (last or loss.n >= self.accepts) and self.holds(loss, hits, self.sure, self.sure_right):
            return Outcome(True, loss, True)
        return Outcome(self.holds(loss, hits, self.fair, self.fair), loss, False) if last else None

    def holds(self, loss: Loss, hits: Sequence[Tensor], sure: float, sure_right: float) -> bool:
        """Whether loss and share are as asked by more than so many standard errors of each."""
        return loss.mean + sure * error_of(loss) < self.loss and self.right(hits, sure_right).low >= self.accuracy

    def right(self, hits: Sequence[Tensor], errors: float) -> Share:
        """The share of right answers, with an interval of so many standard errors; all, where none are looked at."""
        return Share.of(torch.cat(list(hits)), errors) if hits else Share(1.0, 1.0, 1.0, 0)


def error_of(loss: Loss) -> float:
    """The standard error of a loss's mean."""
    return (loss.high - loss.low) / (2 * 1.96)


def decide(changes: Sequence[Change], stages: Iterable[tuple[Evaluator, bool]], asked: Asked) -> list[Outcome]:
    """What becomes of each change.

    Args:
        changes: of attention.
        stages: sequences, by the stage that adds them, each with whether it is the last; drawn when first asked for.
        asked: of every change.
    """
    found: dict[int, Outcome] = {}
    losses: list[list[Tensor]] = [[] for _ in changes]
    hits: list[list[Tensor]] = [[] for _ in changes]
    n = 0
    for stage, last in stages:
        open_ = [i for i in range(len(changes)) if i not in found]
        if not open_:
            break
        copies = stage.outputs([changes[i] for i in open_])
        new, n = stage.losses_of_copies(copies), n + len(stage.batch)
        is_telling = n > FEW or last
        if not is_telling:
            far = (new >= asked.far).all(1).tolist()
            found |= {i: HOPELESS for i, is_far in zip(open_, far, strict=True) if is_far}
        for i, outputs, some in zip(open_, copies, new, strict=True):
            if i in found:
                continue
            losses[i].append(some)
            loss = Loss.of(torch.cat(losses[i]))
            if is_telling and asked.fails(loss):
                found[i] = Outcome(False, loss, True)
                continue
            hits[i] += [stage.hits_of(outputs)] if asked.accuracy > 0 else []
            if is_telling and (outcome := asked.outcome(loss, hits[i], last)):
                found[i] = outcome
    return [found[i] for i in range(len(changes))]


def measured_near(bounds: Sequence[float], changes: Sequence[Change], on: tuple[Evaluator, Evaluator]) -> list[Loss]:
    """The loss under each change: of few sequences or, where their interval comes near one of the bounds, of more."""
    few, more = on
    losses = few.losses(changes)
    is_near = lambda loss, bound, by: loss.low - by < bound <= loss.high + by  # noqa: E731
    near = [i for i, loss in enumerate(losses) if any(is_near(loss, bound, NEAR * abs(bound)) for bound in bounds)]
    told = dict(zip(near, more.losses(changes[i] for i in near), strict=True))
    return [told.get(i, loss) for i, loss in enumerate(losses)]
