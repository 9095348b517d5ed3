"""The sequential test: whether a change of attention keeps the loss below a threshold, and enough answers right.

For most sets that a search tries, the loss is far from the threshold, and a few sequences decide. The closer the loss
is to the threshold, the more sequences are drawn (Wald, 1945).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from hopscope.circuits.evaluator import Change, Evaluator
from hopscope.circuits.losses import Loss, Share

SURE = 3.0  # standard errors between loss and threshold that a decision needs before the last sequences (ours)
NEAR = 0.02  # share of a bound that widens intervals on few sequences, whose losses may be alike by chance (ours)
FIRST = 2  # sequences in the first step: too few to show the spread of losses, so only `Asked.far` is tested


class Outcome(NamedTuple):
    """The result of a test.

    Attributes:
        passed: whether the change keeps the loss under the threshold, and enough answers right.
        loss: the loss under the change, on the sequences that were drawn.
        clear: whether the loss is far enough from the threshold for the decision to be certain. If it is not, a change
            that was rejected is undecided.
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


#: The outcome of a change whose losses on the first sequences are all at least `Asked.far`; its loss is not kept.
HOPELESS = Outcome(False, Loss(math.inf, math.inf, math.inf, FIRST), True)


@dataclass(frozen=True)
class Asked:
    """The bounds that a change must keep, and the certainty that a decision needs.

    Attributes:
        loss: the loss must be below it.
        accuracy: the share of right answers that must be reached.
        accepts: the least number of sequences on which a change may be accepted before the last ones.
        sure: the margin, in standard errors, by which the loss must then be below its bound.
        sure_right: the same margin for the share of right answers.
        fair: the margin of both that is enough on the last sequences.
        far: a change is rejected at once if the losses of the first two sequences both reach it.
    """

    loss: float
    accuracy: float
    accepts: int
    sure: float = SURE
    sure_right: float = SURE
    fair: float = 0.0
    far: float = math.inf

    def fails(self, loss: Loss) -> bool:
        """Whether the loss alone is enough to reject a change."""
        return not math.isfinite(loss.mean) or loss.mean - SURE * error_of(loss) >= self.loss

    def outcome(self, loss: Loss, hits: Sequence[Tensor], last: bool) -> Outcome | None:
        """The decision for a change that the loss alone does not reject; None if more sequences are needed."""
        if self.right(hits, SURE).high < self.accuracy:
            return Outcome(False, loss, True)
        if (last or loss.n >= self.accepts) and self.holds(loss, hits, self.sure, self.sure_right):
            return Outcome(True, loss, True)
        return Outcome(self.holds(loss, hits, self.fair, self.fair), loss, False) if last else None

    def holds(self, loss: Loss, hits: Sequence[Tensor], sure: float, sure_right: float) -> bool:
        """Whether loss and share of right answers keep their bounds by margins of so many standard errors."""
        return loss.mean + sure * error_of(loss) < self.loss and self.right(hits, sure_right).low >= self.accuracy

    def right(self, hits: Sequence[Tensor], errors: float) -> Share:
        """The share of right answers with an interval of so many standard errors; 1 if answers are not checked."""
        return Share.of(torch.cat(list(hits)), errors) if hits else Share(1.0, 1.0, 1.0, 0)


def error_of(loss: Loss) -> float:
    """The standard error of a mean loss."""
    return (loss.high - loss.low) / (2 * 1.96)


def decide(changes: Sequence[Change], stages: Iterable[tuple[Evaluator, bool]], asked: Asked) -> list[Outcome]:
    """Decide for each change whether it passes.

    Args:
        changes: changes of attention.
        stages: the sequences that each stage adds, and whether it is the last stage; an iterator may draw them as
            needed.
        asked: the bounds for every change.
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
        is_telling = n > FIRST or last
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


def measured_near(
    bounds: Sequence[float], accuracy: float, changes: Sequence[Change], on: tuple[Evaluator, Evaluator]
) -> list[tuple[Loss, Share]]:
    """The loss and the share of right answers under each change, on few sequences; on more if these are near a bound.

    Args:
        bounds: bounds of the loss. An interval that contains one, or nearly does (`NEAR`), is measured again.
        accuracy: the bound of the share of right answers; 0 if answers are not checked.
        changes: changes of attention.
        on: the model on few sequences, and on more.
    """

    def told(lab: Evaluator, some: Sequence[Change]) -> Iterator[tuple[Loss, Share]]:
        return ((Loss.of(account.losses), Share.of(account.hits)) for account in lab.accounts(some))

    def is_open(loss: Loss, share: Share) -> bool:
        near = (loss.low - NEAR * abs(bound) < bound <= loss.high + NEAR * abs(bound) for bound in bounds)
        return any(near) or share.low < accuracy <= share.high

    few, more = on
    found = list(told(few, changes))
    again = [i for i, one in enumerate(found) if is_open(*one)]
    for i, one in zip(again, told(more, [changes[i] for i in again]), strict=True):
        found[i] = one
    return found
