"""An exam: one model, one task, the sequences to search and to judge on, and what the search knows so far.

The exam tests sets of rows and turns units into changes of attention. `sufficiency` has the stricter test of circuits.
"""

from __future__ import annotations

import itertools
import operator
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from hopscope.circuits.averages import AtAverage, averages, has_averages
from hopscope.circuits.changes import NULLS, AsIs, Change, Hard, Kept, Silenced
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.hypotheses import LEAST_SHARE
from hopscope.circuits.losses import Loss, Share, pooled
from hopscope.circuits.sequential import SURE, Asked, Outcome, decide, error_of
from hopscope.circuits.units import Row, Unit, paths_of, row_of
from hopscope.circuits.verdict import Demands
from hopscope.core.seeds import generator
from hopscope.core.settings import Settings, setting
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task

Rows = frozenset[Row]
Units = frozenset[Unit]
Watch = Callable[[str], None]

STAGES = (4, 16, 32)  # numbers of discovery's sequences after which a set may be decided before all are used (ours)
ACCEPTS = 16  # least number of them on which a set may be accepted before all are used (ours)
AVERAGES = "averages"  # the purpose of the sequences over which heads' outputs are averaged
AVERAGED = 4  # times the report's number of sequences; a mean over few is noisy, and knows something of each (ours)
WAKES = 0.1  # rise of attention, while others are silenced, above which a path is a backup and not always active (ours)
MOST = 0.4  # least share of a row's attention for a path to stand for the row (ours)
LARGE = 20  # units; for larger sets the search tries no substitutes, stricter bounds or hypotheses: too many (ours)
HAIR = 0.02  # share of the threshold; losses that differ by less count as equal (ours)
ASLEEP = 0.01  # least share of its row's attention for a path to be tried in a proof; its least weight by hand (ours)
TRIALS = 3  # most trials, each with fresh sequences for its report (ours)
ROUNDS = 6  # most rounds of a trial; each round but the first doubles the number of its sequences (ours)


def drawn_for(trial: int) -> list[str]:
    """The purposes for which a trial's sequences are drawn, round by round."""
    name = "report" if trial == 1 else f"report {trial}"
    return [name, *(f"{name}, round {i}" for i in range(2, ROUNDS + 1))]


@dataclass(frozen=True)
class Discovery(Settings):
    """Settings of the search for a circuit of paths."""

    null: str = setting("uniform", "what heads without a task attend to", choices=NULLS)
    discovery: int = setting(64, "sequences to search and to choose hypotheses on", low=8)
    selection: int = setting(128, "sequences to check what the search found on", low=8)
    report: int = setting(512, "sequences for the reported numbers", low=8)
    alternatives: int = setting(8, "most circuits to look for", low=1)
    strict: bool = setting(False, "whether to ask for 99 % of what the model has over itself idle", since="0.2.0")
    seed: int = setting(0, "of all three sets", low=0)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of sequences of the three sets: discovery, selection and report."""
        return self.discovery, self.selection, self.report


class Exam:
    """Data sets, thresholds, the proof log, and how circuits are run.

    Attributes:
        strengths: mean attention on every path in the full model; for a head that is active only when others are
            silenced, its attention then.
        effects: the loss with each row alone silenced.
        whole, right: the model's loss and share of right answers on the sequences of discovery and selection together.
        threshold, accuracy: the loss that a circuit must be below, and the share of right answers that it must reach,
            computed on the same sequences. The verdict computes both again on the report's sequences.
        own: the model's loss on discovery's sequences alone.
        harder, fewer: by how much the model's loss is higher, and its share of right answers lower, on discovery's
            sequences alone than on both sets together; 0 if it is not.
        bound: the loss that a set of rows must be below in the present round.
        least: the share of right answers that a set of rows must reach in the present round.
        accepts: the least number of sequences on which a set of rows may be accepted in the present round.
        known: the outcomes for sets of rows, by test, set and bound.
        joint: the sequences of the joint test that have been drawn: for each stage, those that it adds, in steps.
        identity: rows whose null is that each position attends to itself.
        left_out: rows that the search does not use; they are always null.
        most: the most circuits to look for.
        trial: the number of the present trial, from 1; each trial has its own sequences for the report.
    """

    def __init__(self, model: Model, task: Task, settings: Discovery, watch: Watch):
        self.model, self.task, self.settings, self.watch = model, task, settings, watch
        self.log: list[dict[str, Any]] = []
        self.most = settings.alternatives
        self.began = time.monotonic()
        self.data = self.evaluator("discovery", settings.discovery)
        self.selection = self.evaluator("selection", settings.selection)
        self.joint: list[list[Evaluator]] = []
        self.trial = 1
        self.report = self.evaluator(drawn_for(1)[0], settings.report)
        self.strengths = dict(self.data.prepared().strengths)
        self.effects: dict[Row, float] = {}
        self.identity: Rows = frozenset()
        self.left_out: set[Row] = set()
        self.known: dict[tuple[str, Units, float], Outcome] = {}
        self.set_thresholds()

    def evaluator(self, purpose: str, n: int) -> Evaluator:
        """The model on n sequences; those of different purposes are drawn independently."""
        random = generator(self.settings.seed, f"circuit {purpose}", 0, self.model.device)
        return Evaluator(self.model, self.task.sample(n, random))

    @property
    def another_trial(self) -> bool:
        """Whether a further trial is allowed, and sequences are left on which nothing was chosen or judged."""
        return self.trial < TRIALS and self.task.has_further(2 * self.settings.report)

    def report_on_others(self) -> None:
        """Begin the next trial, with fresh sequences for its report."""
        self.trial += 1
        self.report = self.evaluator(drawn_for(self.trial)[0], self.settings.report)

    def set_thresholds(self) -> None:
        """Compute the thresholds from the model's results and those with every head null, on the search's sequences."""
        changes: list[Change] = [AsIs(), self.kept(())]
        here, there = self.data.accounts(changes), self.selection.accounts(changes)
        model, null = map(pooled, here, there)
        self.whole, demands = Loss.of(model.losses), Demands.of(self.task, model, null, self.settings.strict)
        self.right, self.threshold = Share.of(model.hits).mean, demands.loss
        self.accuracy = demands.accuracy if self.solved else 0.0
        self.own = float(here[0].losses.mean())
        self.harder = max(0.0, self.own - self.whole.mean)
        self.fewer = max(0.0, self.right - Share.of(here[0].hits).mean)
        self.tighten(1.0)

    def tighten(self, share: float) -> None:
        """Set the bounds for sets of rows.

        These sets are tested on discovery's sequences alone. If the model does worse on these than on both sets
        together, the bounds are looser by the difference. If `share` is below 1, a set is accepted only on all of
        discovery's sequences, because a case that occurs seldom may be missing in the first ones.

        Args:
            share: how far from the model's own loss to the threshold the loss may go, 0–1; likewise for accuracy.
        """
        self.bound = min(self.threshold, self.whole.mean + share * (self.threshold - self.whole.mean)) + self.harder
        self.least = self.right - share * (self.right - self.accuracy) - self.fewer if self.accuracy > 0 else 0.0
        self.accepts = len(self.data.batch) if share < 1 else ACCEPTS

    @property
    def solved(self) -> bool:
        """Whether the model does well enough on the search's sequences that a circuit may be accepted."""
        return self.whole.mean < self.threshold and self.whole.low < self.task.model_threshold

    # How circuits are run ------------------------------------------------------------------------------------

    def test(self, change: Change, bound: float, least: float = 0.0) -> Outcome:
        """Test a change on discovery's sequences against a loss and a least share of right answers.

        Few sequences are used if they decide.
        """
        return decide([change], self.stages, Asked(bound, least, self.accepts, sure_right=0.0))[0]

    def alone(self, units: Units) -> Outcome:
        """The worse outcome of two tests of units as computed: all else null, and all other heads at their average.

        The second test is left out if the first clearly fails, or if outputs of heads cannot be replaced.
        """
        worst = Outcome(True, self.whole, True)
        for test in ("live", "average") if "average" in self.tests else ("live",):
            found = self.known.get((test, units, self.bound))
            if found is None:
                found = self.known[test, units, self.bound] = self.test(self.tests[test](units), self.bound, self.least)
                self.write("2 rows", names(units), test, found.loss, said(found.passed), bound=self.bound)
            worst = min(worst, found, key=lambda outcome: (outcome.passed, not outcome.clear))
            if worst.clearly_fails:
                break
        return worst

    def works(self, units: Units) -> bool:
        """Whether units as computed pass both tests of `alone`."""
        return self.alone(units).passed

    def needed_rows(self, rows: Rows) -> list[Row]:
        """The rows of a set without which the others clearly fail; none if the set has more than `LARGE` rows.

        Substitutes are sought only for these rows. A set may need a few of the many rows that help by next to nothing,
        and almost any others would then do as well.
        """
        return [row for row in sorted(rows) if len(rows) <= LARGE and self.alone(rows - {row}).clearly_fails]

    @cached_property
    def stages(self) -> list[tuple[Evaluator, bool]]:
        """The sequences of discovery that each stage adds, and whether they are the last."""
        whole = len(self.data.batch)  # no part has a single sequence, since null `resample` needs another one
        ends = [0, *(end for end in STAGES if end + 1 < whole), whole]
        return [(self.data.part(slice(begin, end)), end == whole) for begin, end in itertools.pairwise(ends)]

    @cached_property
    def half(self) -> Evaluator:
        """Half of discovery's sequences: enough to rank units, and to see whether a null does harm."""
        return self.data.part(slice(0, max(1, len(self.data.batch) // 2)))

    def kept(self, units: Iterable[Unit], **rows: Any) -> Kept:
        """Units as computed, all else null."""
        return Kept(frozenset(units), self.settings.null, self.identity, **rows)

    def rows(self, units: Iterable[Unit]) -> Kept:
        """The rows of some units, whole and as computed; all other rows null.

        To keep only one path of a row can help the model. A head that attends evenly to all chains does not select its
        own chain, but it appears to if only its attention to that chain is kept. Whole rows get no such help.
        """
        return self.kept(map(row_of, units))

    @cached_property
    def tests(self) -> dict[str, Callable[[Units], Change]]:
        """The tests of a circuit, by name; `average` only if the outputs of the model's heads can be replaced."""
        found: dict[str, Callable[[Units], Change]] = {"rows": self.rows, "live": self.kept}
        found |= {"average": self.at_average} if has_averages(self.model) else {}
        return found | {"circuit": self.by_hand}

    def at_average(self, units: Units) -> AtAverage:
        """Units as computed, all other heads at their average."""
        return AtAverage(units, self.settings.null, self.identity, means=self.means)

    @cached_property
    def means(self) -> list[Tensor]:
        """The mean output of every head, by layer. They are taken on the search's sequences for all tests."""
        return averages(self.evaluator(AVERAGES, AVERAGED * self.settings.report))

    def by_hand(self, units: Iterable[Unit], **rows: Any) -> Hard:
        """All patterns by hand: the row of a path is ideal, all other rows are null.

        Several paths of one row share it in the proportions of the full model. Where only some of them have a target,
        the proportions are those at positions where just these have one. A path that gets no attention in the full
        model, such as that of a backup, has the least weight `ASLEEP`.
        """
        weights = {path: max(self.strengths[path], ASLEEP) for path in paths_of(units)}
        where: dict[frozenset[Path], Mapping[Path, float]] = {}
        for _, some in itertools.groupby(sorted(weights, key=row_of), row_of):
            where |= self.data.shares(frozenset(some), ASLEEP)
        return Hard(weights, self.settings.null, identity=self.identity, where=where, **rows)

    def silenced(self, units: Iterable[Unit]) -> Silenced:
        """The full model with some units null; rows in `identity` get the same null as all others here."""
        return Silenced(frozenset(units), self.settings.null)

    # What is known -------------------------------------------------------------------------------------------

    def by_effect(self) -> list[Row]:
        """All rows except those left out, by the loss with each alone silenced, highest first.

        Of rows with equal losses the sharper comes first. The losses are measured at the first call.
        """
        if not self.effects:
            without = self.half.alone({row: self.silenced([row]) for row in self.data.ground.rows})
            for row, loss in without.items():
                verdict = "accepted alone" if loss.mean < self.threshold else "rejected"
                self.write("1 single", [str(row)], f"unused: {self.settings.null}", loss, verdict)
                self.effects[row] = loss.mean
        left = (row for row in self.data.ground.rows if row not in self.left_out)
        return sorted(left, key=lambda row: (-self.effects[row], -self.sharpness(row), str(row)))

    def choose_nulls(self) -> None:
        """Choose the null of idle rows, uniform or identity, whichever harms less (appendix E), for all tests of sets.

        1. Heads are made idle one after the other, because the harm of a null depends on which other heads are idle.
           The heads that cost least alone come first, and each stays idle if the loss stays below the bound. A head
           gets `identity` if `uniform` raises the loss by more than a hair (`HAIR`) and `identity` clearly does less
           harm (`clearly_less`).
        2. A row of the remaining heads that raises the loss by more than a hair alone gets `identity` if `uniform`
           takes the loss to the threshold and `identity` does not.

        Half of discovery's sequences are enough to see whether `uniform` does harm. The two nulls are compared on the
        selection's sequences, because the choice between them affects all that follows.
        """
        if self.settings.null != "uniform":
            return
        rows, hair = self.by_effect(), HAIR * abs(self.threshold)
        self.watch("choosing what idle heads attend to")
        heads = sorted({(row.layer, row.head) for row in rows})
        of_head = [[row for row in rows if (row.layer, row.head) == head] for head in heads]
        alone = [loss.mean for loss in self.half.losses(map(self.silenced, of_head))]
        live, lost = frozenset(rows), self.own
        for _, group in sorted(zip(alone, of_head, strict=True)):
            left, itself = live.difference(group), self.identity.union(group)
            spread, resting = (Kept(left, "uniform", nulls) for nulls in (self.identity, itself))
            nulls, loss = self.identity, self.half.loss(spread).mean
            if loss > lost + hair and self.clearly_less(resting, spread):
                nulls, loss = itself, self.half.loss(resting).mean
            if loss < self.bound:
                live, self.identity, lost = left, nulls, loss
        harmful = [row for row in rows if row in live and self.effects[row] > self.own + hair]
        for kind, takes in (("uniform", operator.ge), ("identity", operator.lt)):
            losses = self.selection.losses(Silenced(frozenset([row]), kind) for row in harmful)
            harmful = [row for row, loss in zip(harmful, losses, strict=True) if takes(loss.mean, self.threshold)]
        self.identity |= set(harmful)
        for row in sorted(self.identity):
            self.write("1 null", str(row), "unused: identity", None, "accepted")

    def clearly_less(self, change: Change, other: Change) -> bool:
        """Whether a change costs less than another by more than a hair, by three paired standard errors (`SURE`)."""
        here, there = self.selection.accounts([change, other])
        gain = Loss.of(there.losses - here.losses)
        least = gain.mean - SURE * error_of(gain)  # NaN if the other loss is not finite, which is worse than any
        return not least <= HAIR * abs(self.threshold)

    def by_strength(self, unit: Unit) -> tuple[float, str]:
        """A sort key that puts the paths with the most attention first, and whole rows last."""
        return -self.strengths.get(unit, 0.0) if isinstance(unit, Path) else 0.0, str(unit)

    def named(self, rows: Iterable[Row], least: float = 0.0) -> Units:
        """The strongest path of each row; a row without a path of at least `least` of its attention stays whole."""
        strongest = {row: min(self.data.ground.paths_in(row), key=self.by_strength, default=row) for row in rows}
        return frozenset(path if -self.by_strength(path)[0] >= least else row for row, path in strongest.items())

    def widened(self, units: Units) -> Units:
        """Units with all paths of the same rows that have at least `LEAST_SHARE` of the attention.

        A row may do its work by several paths.
        """
        every = (path for row in set(map(row_of, units)) for path in self.data.ground.paths_in(row))
        return units | {path for path in every if self.strengths[path] >= LEAST_SHARE}

    def shown(self, rows: Rows) -> Units:
        """What is reported of rows that work, though no paths in them suffice.

        These are the strongest paths, or all paths with a share of attention, if they keep the search's bound live. If
        neither do, these are the strongest paths if they keep it by hand, and else the rows.
        """
        strongest = self.named(rows)
        found = next(filter(self.works, (strongest, self.widened(strongest))), None)
        carries = found is None and self.test(self.by_hand(strongest), self.bound, self.least).passed
        return found or (strongest if carries else rows)

    def note_awakened(self, rows: Rows) -> None:
        """Update the strengths of paths that get more attention with only these rows active than in the full model.

        Some heads are active only while others are silenced (backups; self-repair).
        """
        patterns = self.data.patterns_under(self.kept(rows))
        for row in rows:
            strengths = {path: self.data.attention(path, patterns) for path in self.data.ground.paths_in(row)}
            if max(strengths.values(), default=0.0) > self.sharpness(row) + WAKES:
                self.strengths.update(strengths)

    def sharpness(self, row: Row) -> float:
        """The share of the row's attention on its strongest path."""
        return max((self.strengths[path] for path in self.data.ground.paths_in(row)), default=0.0)

    def write(self, stage: str, about: Any, hypothesis: str, loss: Loss | None, verdict: str, **more: Any) -> None:
        """Write a line of the proof log."""
        numbers = asdict(loss) if loss else {}
        self.log.append(
            {"stage": stage, "unit": about, "hypothesis": hypothesis, **numbers, "verdict": verdict, **more}
        )


def said(passed: bool) -> str:
    return "accepted" if passed else "rejected"


def names(units: Iterable[Unit]) -> list[str]:
    """The names of units, sorted."""
    return sorted(map(str, units))
