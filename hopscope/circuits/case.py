"""A case: one model, one task, sequences to search on, and what is known so far; the stages of discovery share it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hopscope.circuits.evaluator import NULLS, AsIs, Change, Evaluator, Frozen, Hard, Kept, Pattern, Silenced
from hopscope.circuits.losses import Account, Loss, Share, pooled
from hopscope.circuits.units import NO_ROLE, Row, Unit, row_of
from hopscope.core.seeds import generator
from hopscope.core.settings import Settings, setting
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task

Units = frozenset[Unit]
Watch = Callable[[str], None]

STAGES = (4, 16, 32)  # sequences in all, after which a search may decide on a set, before all are seen (ours)
ACCEPTS = 16  # from so many on (ours)
SURE = 3.0  # standard errors from the bound, to be decided on so few (ours)
ASLEEP = 0.01  # by hand, the least share of a row's attention that a path of the circuit has (ours)
TRIALS = 3  # most times that something is put on trial, each on its own sequences (ours)


class Outcome(NamedTuple):
    """What a test of the search came to.

    Attributes:
        passed: whether the change keeps the loss under the bound, and enough answers right.
        loss: under the change.
        clear: whether that is sure: what is rejected at the bound itself might as well have passed.
    """

    passed: bool
    loss: Loss
    clear: bool

    @property
    def clearly_fails(self) -> bool:
        return self.clear and not self.passed


def drawn_for(trial: int) -> tuple[str, str]:
    """For what a trial's sequences are drawn, and further ones beside them."""
    name = "report" if trial == 1 else f"report {trial}"
    return name, f"{name}, more"


@dataclass(frozen=True)
class Discovery(Settings):
    """How a circuit is looked for."""

    null: str = setting("uniform", "what heads without a task attend to", choices=NULLS)
    discovery: int = setting(64, "sequences to search and to choose hypotheses on", low=8)
    selection: int = setting(128, "sequences to check what the search found on", low=8)
    report: int = setting(512, "sequences for the reported numbers", low=8)
    alternatives: int = setting(8, "most circuits to look for", low=1)
    seed: int = setting(0, "of all three sets", low=0)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Of the three sets, in sequences."""
        return self.discovery, self.selection, self.report


class Case:
    """Data sets, thresholds, the proof log, and how circuits are run.

    Attributes:
        strengths: mean attention on every path, where it is at work: in the model as it is, or, for a head that acts
            only when others are silenced, then.
        effects: what silencing groups of rows alone costs.
        own, lossless: the model's loss and share of right answers on discovery's sequences.
        bound: the loss that a circuit must be below on these, and
        least: the share of right answers that it must have.
        threshold, accuracy: the same as far as discovery and selection tell; the verdict asks for those of the report's
            sequences.
        joint: the sequences of the joint test, by the stage that adds them, as far as they were drawn.
        identity: rows whose null is to attend to oneself.
        left_out: rows that the search leaves alone, always null.
        one_null: whether all rows have the same null.
        trial: the number of the trial for which the report's sequences are.
        sure: standard errors from the threshold at which the joint test accepts before its last sequences.
    """

    def __init__(self, model: Model, task: Task, settings: Discovery, watch: Watch):
        self.model, self.task, self.settings, self.watch = model, task, settings, watch
        self.log: list[dict[str, Any]] = []
        self.began = time.monotonic()
        self.data = self.evaluator("discovery", settings.discovery)
        self.selection = self.evaluator("selection", settings.selection)
        self.joint: list[Evaluator] = []
        self.trial, self.sure = 1, SURE
        self.report = self.evaluator(drawn_for(1)[0], settings.report)
        self.strengths = dict(self.data.prepared().strengths)
        self.effects: dict[frozenset[Row], float] = {}
        self.identity: frozenset[Row] = frozenset()
        self.one_null = True
        self.left_out: set[Row] = set()
        self.accepts = ACCEPTS
        self.demands()

    def evaluator(self, purpose: str, n: int) -> Evaluator:
        random = generator(self.settings.seed, f"circuit {purpose}", 0, self.model.device)
        return Evaluator(self.model, self.task.sample(n, random))

    @property
    def another_trial(self) -> bool:
        """Whether there may be one, on sequences that nothing was chosen by or judged on."""
        return self.trial < TRIALS and self.task.has_further(2 * self.settings.report)

    def report_on_others(self) -> None:
        """What is found from now on is reported on other sequences than those on which something failed."""
        self.trial += 1
        self.report = self.evaluator(drawn_for(self.trial)[0], self.settings.report)

    def more_to_report_on(self, times: int) -> Evaluator:
        """Further sequences beside the report's, so many times as many."""
        return self.evaluator(drawn_for(self.trial)[1], times * self.settings.report)

    def demands(self) -> None:
        """What is asked of circuits: their loss and accuracy, by the model's and those of the same with heads idle."""
        changes: list[Change] = [AsIs(), self.kept(())]
        first, second = self.data.accounts(changes), self.selection.accounts(changes)
        both = [pooled(*accounts) for accounts in zip(first, second, strict=True)]
        self.whole = Loss.of(both[0].losses)
        self.bound, self.least = self.asked(first)
        self.own, self.lossless = float(first[0].losses.mean()), Share.of(first[0].hits).mean
        self.may_lose = self.lossless - self.least
        self.threshold, self.accuracy = self.asked(both)
        if not self.solved:
            self.least = self.accuracy = 0.0

    def tighten(self, share: float) -> float:
        """Ask the search's sets for a share of the bound, and allow them a share of the accuracy that may be lost.

        Sets are then accepted on all sequences: what is seldom asked for is not among the first.
        """
        if share < 1:
            self.accepts = len(self.data.batch)
        if self.least > 0:
            self.least = self.lossless - share * self.may_lose
        return share * self.bound

    def asked(self, accounts: Sequence[Account]) -> tuple[float, float]:
        """A circuit's loss and accuracy, of those of the model and of the same with every head idle."""
        losses = [float(account.losses.mean()) for account in accounts]
        shares = [Share.of(account.hits).mean for account in accounts]
        return self.task.circuit_threshold(*losses), self.task.circuit_accuracy(*shares)

    @property
    def solved(self) -> bool:
        """Whether the model, on the search's sequences, may be good enough for a circuit to be accepted."""
        return self.whole.mean < self.threshold and self.whole.low < self.task.model_threshold

    # How circuits are run ------------------------------------------------------------------------------------

    def test(self, changed: Callable[[Evaluator], Change], bound: float, *, accuracy: bool = True) -> Outcome:
        """Whether a change keeps discovery's loss under a bound and enough answers right; on few, where they tell.

        Most sets that a search tries are far from the bound. The first stage only ever rejects, for it may lack what a
        set does not answer. What is found is tested again on more.

        Args:
            changed: the change, of given sequences: patterns that it holds are of those.
            bound: a loss.
            accuracy: whether enough answers must be right, too.
        """
        losses: list[Tensor] = []
        hits: list[Tensor] = []
        least = self.least if accuracy else 0.0
        for stage in self.stages:
            [outputs] = stage.outputs([changed(stage)])
            losses.append(stage.losses_of(outputs))
            loss = Loss.of(torch.cat(losses))
            error, left = (loss.high - loss.low) / (2 * 1.96), bound - loss.mean
            if not math.isfinite(loss.mean) or left < -SURE * error:
                return Outcome(False, loss, True)
            hits += [stage.hits_of(outputs)] if least > 0 else []
            right = self.right(hits)
            if right.high < least:
                return Outcome(False, loss, True)
            sure = left > SURE * error and right.mean >= least
            if sure and loss.n >= self.accepts:
                break
        return Outcome(loss.mean < bound and right.mean >= least, loss, sure)

    def right(self, hits: Sequence[Tensor], errors: float = SURE) -> Share:
        """The share of right answers, with an interval of so many standard errors; all, where none are looked at."""
        return Share.of(torch.cat(list(hits)), errors) if hits else Share(1.0, 1.0, 1.0, 0)

    @cached_property
    def stages(self) -> list[Evaluator]:
        """Discovery's sequences, by the stage at which they are added."""
        whole = len(self.data.batch)  # no part is of one sequence, which has no other to be resampled from
        ends = [0, *(end for end in STAGES if end + 1 < whole), whole]
        return [self.data.part(slice(*ends_)) for ends_ in itertools.pairwise(ends)]

    @cached_property
    def half(self) -> Evaluator:
        """Half of discovery's sequences, which tell in what order sets are tried."""
        return self.data.part(slice(0, max(1, len(self.data.batch) // 2)))

    def kept(self, units: Iterable[Unit], **rows: Any) -> Kept:
        """Units as computed, all else null."""
        return Kept(frozenset(units), self.settings.null, self.identity, **rows)

    def rows(self, units: Iterable[Unit]) -> Kept:
        """The rows of some units, whole and as computed; all other rows null.

        A row that is cut down to one path is helped: a head that attends evenly to all chains does not know its own;
        where only what falls on its own is kept, it seems to. Whole rows are not.
        """
        return self.kept(map(row_of, units))

    def frozen(self, units: Iterable[Unit], patterns: Sequence[Pattern]) -> Frozen:
        """Units with given patterns; all else null."""
        return Frozen(frozenset(units), patterns, self.settings.null)

    def by_hand(self, units: Iterable[Unit]) -> Hard:
        """All patterns by hand: a path's row is ideal; several of one row share it as they do in the model.

        A path that gets nothing there, such as a backup's, has some weight, too.
        """
        weights = {u: max(self.strengths[u], ASLEEP) for u in units if isinstance(u, Path)}
        return Hard(weights, self.settings.null)

    def silenced(self, units: Iterable[Unit], null: str | None = None) -> Silenced:
        """The model as it is, but for some units."""
        return Silenced(frozenset(units), null or self.settings.null)

    # What is known -------------------------------------------------------------------------------------------

    @property
    def rows_to_search(self) -> list[Row]:
        """All rows but those that are left out."""
        return [row for row in self.data.ground.rows if row not in self.left_out]

    def name(self, rows: Iterable[Row]) -> frozenset[Path]:
        """Each row's strongest path; rows without a role have none."""
        ground = self.data.ground
        return frozenset(
            max(ground.paths_in(row), key=lambda path: self.strengths[path]) for row in rows if row.query != NO_ROLE
        )

    def ranked(self, groups: Sequence[frozenset[Row]]) -> list[frozenset[Row]]:
        """Groups of rows by what silencing each alone costs, most first; of what costs the same, the sharper first."""
        unknown = [group for group in groups if group not in self.effects]
        losses = self.half.losses([self.silenced(group) for group in unknown])
        for group, loss in zip(unknown, losses, strict=True):
            verdict = "accepted alone" if loss.mean < self.threshold else "rejected"
            self.write("1 single", sorted(map(str, group)), f"unused: {self.settings.null}", loss, verdict)
            self.effects[group] = loss.mean
        return sorted(groups, key=lambda g: (-self.effects[g], -max(map(self.sharpness, g)), sorted(map(str, g))))

    def sharpness(self, row: Row) -> float:
        """The share of the row's attention on its strongest path."""
        return max((self.strengths[path] for path in self.data.ground.paths_in(row)), default=0.0)

    def write(self, stage: str, about: Any, hypothesis: str, loss: Loss | None, verdict: str, **more: Any) -> None:
        """A line of the proof log."""
        numbers = asdict(loss) if loss else {}
        self.log.append(
            {"stage": stage, "unit": about, "hypothesis": hypothesis, **numbers, "verdict": verdict, **more}
        )


def said(passed: bool) -> str:
    return "accepted" if passed else "rejected"


def names(units: Iterable[Unit]) -> list[str]:
    """Units in the short form, in order."""
    return sorted(map(str, units))
