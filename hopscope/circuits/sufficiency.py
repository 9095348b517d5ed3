"""Sufficiency: whether a set of paths does what the model does, by hand and live; and the minimal sets that do.

Losses of many sets are near the threshold of none, so a few sequences reject most; the closer a set comes the more
are drawn (a sequential test; Wald, 1945). To be sufficient a set must be below the threshold by more than its error,
and as accurate as the task asks, by more than that error, too.
Nothing is assumed about supersets: heads can undo each other, so that less does what more does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from hopscope.circuits.case import SURE, Case, Units, names, said
from hopscope.circuits.evaluator import Change, Evaluator
from hopscope.circuits.every_set import EverySet
from hopscope.circuits.losses import Loss
from hopscope.circuits.search import minimal
from hopscope.circuits.units import Row, Unit, row_of
from hopscope.problem.paths import Path

STAGES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # sequences in all, after which sets are decided (ours)
LAST = 1024  # but for a closer look, where nothing passes
FIRST = 2  # sequences, too few to tell the spread of losses
FAR = 8.0  # times the threshold: a set that loses so much in each of the first is rejected (ours)
ACCEPTS = 128  # from so many on: what fails in one of twenty is missed by one set in seven hundred
FAIR = 1.96  # standard errors below the threshold, to be accepted in the end
SURER = 5.0  # in place of SURE, to be accepted before, once a report has rejected what was; in the end SURE is asked
EXHAUSTIVE = 12  # paths: of circuits up to this size all subsets are tried
TOGETHER = 8  # paths: up to here also those of all circuits together
REMOVALS = 3  # of larger ones, all removals of up to so many


class Sufficiency:
    """The joint test of sets of units. What depends on their rows alone is measured once."""

    def __init__(self, case: Case):
        self.case = case
        self.alive: dict[frozenset[Row], bool] = {}
        self.known: dict[Units, bool] = {}
        self.undecided: set[frozenset[Unit]] = set()  # rejected for want of sequences, not by them
        self.drawn = case.joint
        self.last = LAST

    def stages(self) -> Iterator[tuple[int, Evaluator]]:
        """How many sequences were seen after every stage, and those that it adds; drawn when first asked for.

        The last stage is that after which whoever owns the data has no more.
        """
        for i, (before, seen) in enumerate(itertools.pairwise((0, *STAGES))):
            if before == self.last:
                break
            if i == len(self.drawn):
                self.drawn.append(self.case.evaluator(f"joint {i}", seen - before))
            if i + 1 == len(self.drawn) and not self.case.task.has_more_to_search:
                self.last = seen
            if i == 0:
                yield from self.first_two_steps
            else:
                yield seen, self.drawn[i]

    @cached_property
    def first_two_steps(self) -> list[tuple[int, Evaluator]]:
        """The first stage in two, the first of which rejects most sets."""
        whole = self.drawn[0]
        if len(whole.batch) <= FIRST:  # whoever owns the data has no more
            return [(STAGES[0], whole)]
        return [(FIRST, whole.part(slice(0, FIRST))), (STAGES[0], whole.part(slice(FIRST, None)))]

    def look_closer(self) -> None:
        """From now on draw more sequences for sets that are near the threshold; those rejected are asked anew."""
        self.last = STAGES[-1]
        self.known = {units: passed for units, passed in self.known.items() if passed}
        self.alive = {rows: passed for rows, passed in self.alive.items() if passed}

    def doubt(self, rejected: Iterable[Units]) -> None:
        """Ask all anew, and be surer before anything is accepted on few sequences; what a report rejected stays so.

        Of many sets that are tried on the same few sequences the luckiest pass.
        """
        self.last, self.case.sure = STAGES[-1], SURER
        self.known, self.alive = dict.fromkeys(rejected, False), {}

    @property
    def sequences(self) -> int:
        """Sequences that were run, all changes together."""
        return round(sum(e.forwards * len(e.batch) for e in self.drawn))

    def __call__(self, units: Iterable[Unit]) -> bool:
        """Whether one set suffices."""
        return self.all_of([frozenset(units)])[0]

    def all_of(self, sets: Sequence[Units]) -> list[bool]:
        """Which of some sets suffice: live with their rows whole, live as they are, and by hand."""
        unknown = [units for units in dict.fromkeys(sets) if units not in self.known]
        self.known |= dict.fromkeys(unknown, False)
        whole = self.whole([frozenset(map(row_of, units)) for units in unknown])
        left = [units for units, passed in zip(unknown, whole, strict=True) if passed]
        for words, change in (("live, all else null", self.case.kept), ("all by hand", self.case.by_hand)):
            passing = self.decide([change(units) for units in left], left, words)
            left = [units for units, passed in zip(left, passing, strict=True) if passed]
        self.known |= dict.fromkeys(left, True)
        return [self.known[units] for units in sets]

    def whole(self, groups: Sequence[frozenset[Row]]) -> list[bool]:
        """Which sets of rows suffice live."""
        new = [rows for rows in dict.fromkeys(groups) if rows not in self.alive]
        found = self.decide([self.case.rows(rows) for rows in new], new, "rows live, all else null")
        self.alive |= dict(zip(new, found, strict=True))
        return [self.alive[rows] for rows in groups]

    def near_among(self, rows: Sequence[Row], size: int) -> list[frozenset[Row]]:
        """Every set of up to so many of some rows that is not hopeless live; of few rows first."""
        every = self.every_set(rows, size)
        groups = every.sets()
        if not every.possible:
            return groups
        near = set(every.below(self.far))
        far = [group for group in groups if group not in near and group not in self.alive]
        self.alive |= dict.fromkeys(far, False)
        self.tell_number(len(far), "rows live, all else null", FIRST)
        return [group for group in groups if group in near]

    @property
    def far(self) -> float:
        """The loss that is hopeless in both of two sequences; of losses that may be negative, none is."""
        bounded = self.case.task.floor >= 0 and self.case.threshold > 0
        return FAR * self.case.threshold if bounded else math.inf

    def every_set(self, rows: Sequence[Row], size: int) -> EverySet:
        """All sets of some rows, on the first sequences."""
        _, first = next(self.stages())
        return EverySet(first, rows, size, self.case.settings.null, self.case.identity)

    def decide(self, changes: Sequence[Change], about: Sequence[Collection[Unit]], words: str) -> list[bool]:
        """Whether each change keeps the loss under the threshold."""
        verdicts: list[bool | None] = [None] * len(changes)
        to_the_end: set[int] = set()
        losses: list[list[Tensor]] = [[] for _ in changes]
        hits: list[list[Tensor]] = [[] for _ in changes]
        for seen, stage in self.stages():
            open_ = [i for i, verdict in enumerate(verdicts) if verdict is None]
            if not open_:
                break
            to_the_end = {*open_} if seen == self.last else to_the_end
            copies = stage.outputs([changes[i] for i in open_])
            for i, outputs, new in zip(open_, copies, stage.losses_of_copies(copies), strict=True):
                losses[i].append(new)
                hits[i] += [stage.hits_of(outputs)] if self.case.accuracy > 0 else []
                verdicts[i] = self.decided(torch.cat(losses[i]), hits[i], seen)
        far = 0  # of the many that are far away only the number is told
        for i, (units, verdict, found) in enumerate(zip(about, verdicts, map(torch.cat, losses), strict=True)):
            if not verdict and len(found) <= STAGES[0]:
                far += 1
            else:
                self.case.write("4 joint", names(units), words, Loss.of(found), said(bool(verdict)))
            if not verdict and i in to_the_end and self.is_open(found):
                self.undecided.add(frozenset(units))
        self.tell_number(far, words, STAGES[0])
        return [bool(verdict) for verdict in verdicts]

    def is_open(self, losses: Tensor) -> bool:
        """Whether losses on all sequences are not clearly over the threshold."""
        return float(losses.mean()) - SURE * error_of(losses) < self.case.threshold

    def tell_number(self, sets: int, words: str, n: int) -> None:
        """Note how many sets were rejected, on so many sequences or fewer."""
        if sets:
            self.case.write("4 joint", f"{sets} sets", words, None, "rejected", n=n)

    def decided(self, losses: Tensor, hits: Sequence[Tensor], seen: int) -> bool | None:
        """The decision on a change after so many sequences; None where more are needed."""
        mean, error = float(losses.mean()), error_of(losses)
        bound, accuracy = self.case.threshold, self.case.accuracy
        last = seen == self.last
        fair = FAIR if self.case.sure == SURE else SURE
        right = self.case.right(hits, fair if last else SURE)
        if last:
            return mean + fair * error < bound and right.low >= accuracy
        if seen == FIRST:
            return False if float(losses.min()) >= self.far else None
        if not math.isfinite(mean) or mean - SURE * error >= bound or right.high < accuracy:
            return False
        sure = mean + self.case.sure * error < bound and self.case.right(hits, self.case.sure).low >= accuracy
        return True if seen >= ACCEPTS and sure else None

    # Minimal sets --------------------------------------------------------------------------------------------

    def minimal_sets(self, units: Collection[Unit], limit: int = 64) -> list[Units]:
        """All minimal sufficient sets among a few units, whatever the order in which they undo each other."""
        ordered = sorted(units, key=str)
        rows = sorted(set(map(row_of, units)))
        self.near_among(rows, len(rows))  # most sets are rejected here, in one pass
        found: list[Units] = []
        for size in range(len(ordered) + 1):
            sets = [frozenset(chosen) for chosen in itertools.combinations(ordered, size)]
            sets = [chosen for chosen in sets if not any(known <= chosen for known in found)]
            found += [chosen for chosen, passed in zip(sets, self.all_of(sets), strict=True) if passed]
            if len(found) >= limit:
                break
        return found

    def minimised(self, units: Units) -> tuple[list[Units], bool]:
        """Minimal sets in a sufficient one: they fail without any part, or, over `EXHAUSTIVE`, any `REMOVALS`.

        And whether these are all: of a larger set from which something can be left out, one smaller circuit is found.
        """
        case, all_ = self.case, True
        while len(units) > EXHAUSTIVE:
            smaller = self.without_some(units)
            if smaller is None:
                return [units], all_
            all_ = False
            ordered = sorted(smaller, key=lambda unit: (-case.effects.get(frozenset([row_of(unit)]), 0.0), str(unit)))
            fewer = minimal(ordered, lambda chosen: self(chosen))
            if not self(fewer):  # heads undo each other: what each step passed need not pass together
                return [smaller], all_
            units = fewer
        return smallest_first(case, self.minimal_sets(units)) or [units], all_

    def without_some(self, units: Units) -> Units | None:
        """The set without a few units, if it still suffices."""
        for size in range(1, REMOVALS + 1):
            sets = [units - set(removed) for removed in itertools.combinations(sorted(units, key=str), size)]
            passing = [chosen for chosen, passed in zip(sets, self.all_of(sets), strict=True) if passed]
            if passing:
                return passing[0]
        return None


def error_of(losses: Tensor) -> float:
    """The standard error of their mean; of one loss nothing is known of it."""
    return float(losses.std()) / math.sqrt(len(losses)) if len(losses) > 1 else math.inf


def smallest_first(case: Case, sets: Iterable[Units]) -> list[Units]:
    """Sets without any that contain another; those of few units, then those most attended to, first."""

    def attended(units: Units) -> float:
        return round(
            min((case.data.strengths.get(unit, 0.0) for unit in units if isinstance(unit, Path)), default=0), 1
        )

    found = list(dict.fromkeys(sets))
    least = [chosen for chosen in found if not any(other < chosen for other in found)]
    return sorted(least, key=lambda chosen: (len(chosen), -attended(chosen), names(chosen)))
