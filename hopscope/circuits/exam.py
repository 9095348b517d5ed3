"""An exam: one model, one task, the sequences to search and to judge on, and what is known so far."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from hopscope.circuits.averages import AtAverage, averages, has_averages
from hopscope.circuits.evaluator import NULLS, AsIs, Change, Evaluator, Hard, Kept, Silenced
from hopscope.circuits.hypotheses import LEAST_SHARE
from hopscope.circuits.losses import Loss, Share, pooled
from hopscope.circuits.sequential import Asked, Outcome, decide
from hopscope.circuits.units import Row, Unit, row_of
from hopscope.circuits.verdict import Demands
from hopscope.core.seeds import generator
from hopscope.core.settings import Settings, setting
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task

Rows = frozenset[Row]
Units = frozenset[Unit]
Watch = Callable[[str], None]

STAGES = (4, 16, 32)  # sequences in all, after which a search may decide on a set, before all are seen (ours)
ACCEPTS = 16  # from so many on (ours)
AVERAGES = "averages"  # the purpose of the sequences over which heads are averaged
AVERAGED = 2  # times as many as are reported on: what few say on average still tells them apart (ours)
WAKES = 0.1  # rise of attention by which a backup is told from what is always at work (ours)
MOST = 0.4  # share of a row's attention that makes a path stand for it (ours)
LARGE = 20  # units; of sets of more no substitutes, stricter sets or hypotheses are looked for: they are many (ours)
HAIR = 0.02  # of the threshold, by which losses are told apart (ours)
ASLEEP = 0.01  # share of its row's attention from which a path is tried, and the least that it has by hand (ours)
TRIALS = 3  # most times that something is put on trial, each on its own sequences (ours)
ROUNDS = 6  # most rounds of a trial, each of which doubles the number of its sequences (ours)


def drawn_for(trial: int) -> list[str]:
    """The purposes of a trial's sequences, round by round."""
    name = "report" if trial == 1 else f"report {trial}"
    return [name, *(f"{name}, round {i}" for i in range(2, ROUNDS + 1))]


@dataclass(frozen=True)
class Discovery(Settings):
    """How a circuit is looked for."""

    null: str = setting("uniform", "what heads without a task attend to", choices=NULLS)
    discovery: int = setting(64, "sequences to search and to choose hypotheses on", low=8)
    selection: int = setting(128, "sequences to check what the search found on", low=8)
    report: int = setting(512, "sequences for the reported numbers", low=8)
    alternatives: int = setting(8, "most circuits to look for", low=1)
    strict: bool = setting(False, "whether to ask for 99 % of what the model has over itself idle", since="0.2.0")
    seed: int = setting(0, "of all three sets", low=0)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Of the three sets, in sequences."""
        return self.discovery, self.selection, self.report


class Exam:
    """Data sets, thresholds, the proof log, and how circuits are run.

    Attributes:
        strengths: mean attention on every path, where it is at work: in the model as it is, or, for a head that acts
            only when others are silenced, then.
        effects: the loss with each row alone silenced.
        whole, right: the model's loss, and share of right answers, on the sequences of discovery and selection.
        threshold, accuracy: the loss that a circuit must be below, and the share of right answers that it must reach,
            as far as these tell; the verdict asks for those of the report's sequences.
        own: the model's loss on discovery's sequences alone.
        harder, fewer: how much more loss, and how many fewer right answers (a share), the model has on these.
        bound: the loss that a set of rows must be below now,
        least: the share of right answers that it must reach, and
        accepts: number of sequences from which on it may be accepted.
        known: what became of sets of rows, by the test, the set and the bound.
        joint: the sequences of the joint test, by the stage that adds them, in steps, as far as they were drawn.
        identity: rows whose null is to attend to oneself.
        left_out: rows that the search leaves alone, always null.
        most: circuits to look for.
        trial: the number of the trial for which the report's sequences are.
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

    def set_thresholds(self) -> None:
        """What is asked of circuits: their loss and accuracy, by the model's and those of the same with heads idle."""
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
        """Ask sets of rows for a share of the loss, and of the accuracy, that may be lost.

        They are tried on discovery's sequences alone; if these are harder for the model than the others, more may be
        lost. Sets are then accepted on all sequences: what is seldom asked for is not among the first.
        """
        self.bound = min(self.threshold, self.whole.mean + share * (self.threshold - self.whole.mean)) + self.harder
        self.least = self.right - share * (self.right - self.accuracy) - self.fewer if self.accuracy > 0 else 0.0
        self.accepts = len(self.data.batch) if share < 1 else ACCEPTS

    @property
    def solved(self) -> bool:
        """Whether the model, on the search's sequences, may be good enough for a circuit to be accepted."""
        return self.whole.mean < self.threshold and self.whole.low < self.task.model_threshold

    # How circuits are run ------------------------------------------------------------------------------------

    def test(self, change: Change, bound: float, least: float = 0.0) -> Outcome:
        """Whether a change keeps discovery's loss under a bound, and so many answers right, on few where they tell."""
        return decide([change], self.stages, Asked(bound, least, self.accepts, sure_right=0.0))[0]

    def alone(self, units: Units) -> Outcome:
        """What becomes of the search's loss when units stay as computed: all else null, then at its average."""
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
        """Whether units alone, as computed, keep the search's loss under its bound."""
        return self.alone(units).passed

    def needed_rows(self, rows: Rows) -> list[Row]:
        """Of some rows those without which the others are clearly over the bound; none of many.

        Only for these are substitutes looked for: many a row helps by next to nothing, and any few do for any others.
        """
        return [row for row in rows if len(rows) <= LARGE and self.alone(rows - {row}).clearly_fails]

    @cached_property
    def stages(self) -> list[tuple[Evaluator, bool]]:
        """Discovery's sequences, by the stage at which they are added."""
        whole = len(self.data.batch)  # no part is of one sequence, which has no other to be resampled from
        ends = [0, *(end for end in STAGES if end + 1 < whole), whole]
        return [(self.data.part(slice(begin, end)), end == whole) for begin, end in itertools.pairwise(ends)]

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

    @cached_property
    def tests(self) -> dict[str, Callable[[Units], Change]]:
        """All that is asked of a circuit, by the test's name; at average, where heads' outputs can be replaced."""
        found: dict[str, Callable[[Units], Change]] = {"rows": self.rows, "live": self.kept}
        found |= {"average": self.at_average} if has_averages(self.model) else {}
        return found | {"circuit": self.by_hand}

    def at_average(self, units: Units) -> AtAverage:
        """Units as computed, all other heads at their average."""
        return AtAverage(units, self.settings.null, self.identity, means=self.means)

    @cached_property
    def means(self) -> list[Tensor]:
        """What every head says on average, by layer: over sequences of the search, whatever is judged."""
        return averages(self.evaluator(AVERAGES, AVERAGED * self.settings.report))

    def by_hand(self, units: Iterable[Unit], **rows: Any) -> Hard:
        """All patterns by hand: a path's row is ideal; several of one row share it as they do in the model.

        A path that gets nothing there, such as a backup's, has some weight, too. Where only some of them have a target,
        they share it as in sequences where just these have.
        """
        weights = {u: max(self.strengths[u], ASLEEP) for u in units if isinstance(u, Path)}
        where: dict[frozenset[Path], Mapping[Path, float]] = {}
        for _, some in itertools.groupby(sorted(weights, key=row_of), row_of):
            where |= self.data.shares(frozenset(some), ASLEEP)
        return Hard(weights, self.settings.null, identity=self.identity, where=where, **rows)

    def silenced(self, units: Iterable[Unit]) -> Silenced:
        """The model as it is, but for some units; whatever null is chosen for what is idle, this one is common."""
        return Silenced(frozenset(units), self.settings.null)

    # What is known -------------------------------------------------------------------------------------------

    def by_effect(self) -> list[Row]:
        """All rows but those left out, by what silencing each alone costs, most first; then the sharper first."""
        if not self.effects:
            without = self.half.alone({row: self.silenced([row]) for row in self.data.ground.rows})
            for row, loss in without.items():
                verdict = "accepted alone" if loss.mean < self.threshold else "rejected"
                self.write("1 single", [str(row)], f"unused: {self.settings.null}", loss, verdict)
                self.effects[row] = loss.mean
        left = (row for row in self.data.ground.rows if row not in self.left_out)
        return sorted(left, key=lambda row: (-self.effects[row], -self.sharpness(row), str(row)))

    def choose_nulls(self) -> None:
        """Whether what is idle attends evenly or to itself, whichever harms less (appendix E).

        Heads become idle one after the other and stay so while the model keeps its loss, those that cost least alone
        first: what each harms depends on what else is idle. They attend to themselves if that is better by a hair;
        where attending evenly costs nothing it is not asked. Of other heads rows do that harm alone by attending
        evenly, and not by attending to themselves. All tests of sets have the nulls that are chosen here.
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
            nulls, loss = self.identity, self.half.loss(Kept(left, "uniform", self.identity)).mean
            if loss > lost + hair:
                other = self.half.loss(Kept(left, "uniform", itself)).mean
                nulls, loss = (itself, other) if other < loss - hair else (nulls, loss)
            if loss < self.bound:
                live, self.identity, lost = left, nulls, loss
        harmful = [row for row in rows if row in live and self.effects[row] >= self.bound]
        losses = self.half.losses(Silenced(frozenset([row]), "identity") for row in harmful)
        self.identity |= {row for row, loss in zip(harmful, losses, strict=True) if loss.mean < self.bound}
        for row in sorted(self.identity):
            self.write("1 null", str(row), "unused: identity", None, "accepted")

    def by_strength(self, unit: Unit) -> tuple[float, str]:
        """A key that puts what gets most attention first."""
        return -self.strengths.get(unit, 0.0) if isinstance(unit, Path) else 0.0, str(unit)

    def named(self, rows: Iterable[Row], least: float = 0.0) -> Units:
        """Each row by its strongest path; as it is, where it has no path with so much of its attention."""
        strongest = {row: min(self.data.ground.paths_in(row), key=self.by_strength, default=row) for row in rows}
        return frozenset(path if -self.by_strength(path)[0] >= least else row for row, path in strongest.items())

    def widened(self, units: Units) -> Units:
        """With all paths of the same rows that have a share of the attention: a row may do its work by several."""
        every = (path for row in set(map(row_of, units)) for path in self.data.ground.paths_in(row))
        return units | {path for path in every if self.strengths[path] >= LEAST_SHARE}

    def shown(self, rows: Rows) -> Units:
        """What is told of rows of which no paths suffice: their strongest, or all with a share if only these work."""
        strongest = self.named(rows)
        return next(filter(self.works, (strongest, self.widened(strongest))), strongest)

    def note_awakened(self, rows: Rows) -> None:
        """Note how strong the paths of rows are while these are alone, where that is more than in the whole model.

        A head may act only while another is silent (a backup; self-repair).
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
