"""The report on a search: every test on fresh sequences, the verdict, and the measurements of each path."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

from hopscope.circuits.advice import advice
from hopscope.circuits.averages import has_averages
from hopscope.circuits.certificates import Supply, certify
from hopscope.circuits.circuit import VERSION, Alternative, Circuit, Completeness, Found
from hopscope.circuits.completeness import minimality
from hopscope.circuits.evaluator import AsIs, Change, Evaluator, Hard
from hopscope.circuits.exam import AVERAGED, LARGE, Exam, Units, drawn_for, names, said
from hopscope.circuits.families import family_of
from hopscope.circuits.hypotheses import Hypothesis
from hopscope.circuits.losses import Loss, Share
from hopscope.circuits.rules import choose_rules
from hopscope.circuits.sequential import measured_near
from hopscope.circuits.sufficiency import Sufficiency
from hopscope.circuits.takeovers import find_takeovers, spared_paths
from hopscope.circuits.units import Row, paths_of, row_of, rows_of
from hopscope.circuits.use import asleep, left_intact, use_of
from hopscope.circuits.verdict import TESTS, Trial, judge, on_trial
from hopscope.problem.paths import Path

FIRST_PART = 64  # of the report's sequences: for measurements of single paths that are far from the threshold (ours)
CERTIFIED = 32  # of these, for path patching (ours)
LISTED = 3  # most rows in `missed`
OPTION = re.compile(r"--([a-z]+)")  # a setting in a reason, as an option of the command line


class Report:
    """Turns the sets of units that a search found into a `Circuit`."""

    def __init__(self, exam: Exam, suffices: Sufficiency):
        self.exam, self.suffices = exam, suffices
        self.drawn = [exam.report.prepared()]  # the report's sequences, by round, as far as they were drawn
        self.blames_paths = False  # whether the model has solved its task and the set fails, so that another may pass

    def refused(self, units: Units, why: str) -> Circuit:
        """The report on a set that was not shown to be minimal."""
        return self.circuit([units], Completeness("not claimed", why), minimal=False)

    def circuit(self, circuits: Sequence[Units], claim: Completeness, minimal: bool = True) -> Circuit:
        """The report on the first of several circuits that passes every test, or on the very first."""
        exam = self.exam
        exam.watch("validating on fresh data")
        chosen, trial = self.first_fit(circuits)
        self.blames_paths = trial.passes("model") and trial.gap.low > 0 and not trial.fits()
        bound = max(exam.threshold, exam.whole.mean * 1.05)  # if the model has not solved its task, about its own loss
        in_detail = minimal or len(chosen) <= LARGE  # not for a large set that is refused in any case
        rules = choose_rules(exam, chosen, bound) if in_detail else {}
        paths, unsolved = paths_of(chosen), exam.task.unsolved_advice
        on = exam.report if in_detail else self.first_part
        measured, missed = self.measured(paths, chosen, rules, trial, on), self.missed(chosen, trial)
        unused = [found.path for found in measured if found.is_asleep]
        hint = "" if trial.fits() else advice(exam)
        verdict, words = judge(trial, len(paths), hint, unsolved, minimal=minimal, asleep=unused, missed=missed)
        if verdict == "none":
            chosen, trial, measured = self.narrowed(chosen, trial, measured, rules, on)
            verdict, words = judge(trial, len(measured), hint, unsolved, missed=missed)
        accepted, best = verdict == "circuit", listed(chosen, trial)
        needed = all(found.is_needed(trial.demands.loss, trial.demands.accuracy) for found in measured)
        return Circuit(
            paths=measured,
            rows=tuple(rows_of(chosen)),
            **trial.judged,
            verdict=verdict,
            reason=OPTION.sub(lambda found: exam.task.option.format(found[1]), words),
            supplies=self.certificates(chosen) if paths and in_detail else (),
            spare=len(paths) - len(measured),
            missed=tuple(missed),
            intact=() if verdict == "none" else tuple(map(str, self.intact(chosen))),
            **(self.compared(best, circuits, claim, needed) if accepted else {"listed": (best,) * bool(paths)}),
            protocol=self.protocol() | {"demands": asdict(trial.demands)},
            log=exam.log,
        )

    def compared(
        self, chosen: Alternative, circuits: Sequence[Units], claim: Completeness, all_needed: bool
    ) -> dict[str, Any]:
        """The fields that compare an accepted circuit with others: alternatives, takeovers, family, minimality.

        A set with a path that the full model does not use is no circuit of this model, unless it takes over for others.
        """
        others, failed = self.validated([one for one in circuits if one != chosen.units])
        spared, every = spared_paths(self.exam, chosen.paths), [one.units for one in (chosen, *others)]
        takeovers = find_takeovers(self.exam, spared, every)
        unused = {*asleep(self.exam.report, paths_of(set().union(*every)), self.exam.settings.null)}
        dormant = unused - {takeover.by for takeover in takeovers}
        claim = claimed(claim, every, spared, failed)
        return {
            "listed": (chosen, *(one for one in others if dormant.isdisjoint(one.paths))),
            "completeness": claim,
            "takeovers": tuple(takeovers),
            "family": family_of(self.exam, self.suffices, chosen.units) if claim.claim == "not claimed" else None,
            "spared": tuple(spared),
            "minimality": minimality(self.suffices, chosen.units, claim, all_needed),
        }

    def first_fit(self, circuits: Sequence[Units]) -> tuple[Units, Trial]:
        """The first circuit that passes every test, with its trial; if none does, the first."""
        first = circuits[0], self.trial(circuits[0])
        trials = itertools.chain([first], ((other, self.trial(other)) for other in circuits[1:]))
        return next((one for one in trials if one[1].fits()), first)

    def narrowed(
        self, units: Units, trial: Trial, measured: tuple[Found, ...], rules: dict[Row, Hypothesis], on: Evaluator
    ) -> tuple[Units, Trial, tuple[Found, ...]]:
        """Reduce an insufficient set to the paths whose removal raises the live loss.

        The set is left unchanged if any loss is higher without the other paths.
        """
        missed = {one.path for one in measured if one.removal_loss > trial.losses["live"].high}
        if not missed or len(missed) == len(measured):
            return units, trial, measured
        smaller = frozenset[Row | Path](missed).union(rows_of(units))
        fewer = self.trial(smaller)
        worse = any(fewer.losses[test].mean > trial.losses[test].high for test in trial.tests)
        if worse or (fewer.passes("model") and fewer.fits()):  # nothing has tested whether the smaller set is minimal
            return units, trial, measured
        return smaller, fewer, self.measured(sorted(missed), smaller, rules, fewer, on)

    def trial(self, units: Units) -> Trial:
        """Run the model, the circuit in every test, and the null, on report data."""
        exam = self.exam
        tests = {test: exam.tests[test](units) for test in TESTS if test in exam.tests}
        changes: dict[str, Change] = {"model": AsIs(), **tests, "null": Hard(null=exam.settings.null)}
        return on_trial(exam.task, changes, (on.accounts for on in self.rounds()), exam.settings.strict)

    def rounds(self) -> Iterator[Evaluator]:
        """The report's sequences; then further ones, as far as there are any, that double their number each time.

        They are drawn when they are first needed, and are the same for every circuit that is reported on.
        """
        for i, purpose in enumerate(drawn_for(self.exam.trial)):
            if i == len(self.drawn) and self.exam.task.has_further(1):
                self.drawn.append(self.exam.evaluator(purpose, 2 ** (i - 1) * self.exam.settings.report))
            yield from self.drawn[i : i + 1]

    def missed(self, units: Units, trial: Trial) -> list[str]:
        """At most `LISTED` rows whose mean ablation makes a circuit fail that passes every other test.

        A row counts if keeping it lowers the loss by at least a quarter of the excess over the threshold. The largest
        effects come first.
        """
        fails = [test for test in trial.tests if not trial.passes(test)]
        if fails != ["average"] or trial.losses["average"].low < trial.demands.loss:
            return []
        self.exam.watch("looking for rows whose mean ablation makes the circuit fail")
        others = [row for row in self.first_part.ground.rows if row not in {*map(row_of, units)}]
        losses = self.first_part.losses(map(self.exam.at_average, [units, *(units | {row} for row in others)]))
        lacking = losses[0].mean - trial.demands.loss
        helps = {row: losses[0].mean - loss.mean for row, loss in zip(others, losses[1:], strict=True)}
        best = sorted((row for row in others if helps[row] >= lacking / 4 > 0), key=lambda row: (-helps[row], row))
        return [str(row) for row in best[:LISTED]]

    def intact(self, units: Units) -> list[Row]:
        """The rows outside a circuit that the null leaves unchanged, though the model needs them."""
        exam, own = self.exam, {*map(row_of, units)}
        beside = [row for row in exam.data.ground.rows if row not in own]
        return left_intact(exam.half, beside, exam.settings.null, exam.identity, exam.threshold)

    @cached_property
    def first_part(self) -> Evaluator:
        """The first `FIRST_PART` of the report's sequences."""
        return self.exam.report.part(slice(0, FIRST_PART))

    def validated(self, others: Sequence[Units]) -> tuple[list[Alternative], int]:
        """The other circuits that pass every test, with their losses; and the number of those that do not."""
        found: list[Alternative] = []
        for other in others:
            trial = self.trial(other)
            stands, live = trial.fits(), trial.losses["live"]
            self.exam.write("8 alternative", names(other), "live", live, said(stands), data="report")
            found += [listed(other, trial)] if stands else []
        return found, len(others) - len(found)

    def measured(
        self, paths: Sequence[Path], units: Units, rules: dict[Row, Hypothesis], trial: Trial, on: Evaluator
    ) -> tuple[Found, ...]:
        """Every path with its strength, hypothesis and use, and the loss in every test without it."""
        self.exam.watch("leaving out each path in turn")
        exam, without = self.exam, [units - {path} for path in paths]
        lacking: dict[str, list[tuple[Loss, Share]]] = {}
        asked = trial.demands
        for test, change in exam.tests.items():
            bounds, changes = (asked.loss, trial.losses[test].high), [change(units) for units in without]
            lacking[test] = measured_near(bounds, asked.accuracy, changes, (self.first_part, on))
        use, unused = use_of(self.first_part, paths, exam.settings.null), asleep(on, paths, exam.settings.null)
        found = []
        for i, path in enumerate(paths):
            lost = {test: told[i][0].mean for test, told in lacking.items()}
            right = {test: told[i][1].mean for test, told in lacking.items() if asked.accuracy > 0}
            rule = rules.get(row_of(path))
            name, bits = (rule.name, rule.bits) if rule else ("no hypothesis fits", None)
            strength, sole, rests = exam.report.strength(path), use[path], path in unused
            live, alone = lost["live"], sole.loss.mean
            found.append(Found(path, strength, name, bits, live, alone, lost, sole.moves, right, rests))
            words = "needed" if found[-1].is_needed(asked.loss, asked.accuracy) else "not needed"
            exam.write("6 necessity", str(path), "left out of the circuit", lacking["live"][i][0], words, data="report")
        return tuple(found)

    def certificates(self, units: Units) -> tuple[Supply, ...]:
        """The earlier paths that feed each path, by path patching, on a part of the report data."""
        self.exam.watch("finding what feeds each path")
        on = self.first_part.part(slice(0, CERTIFIED))
        return tuple(certify(on, sorted(units, key=str), self.exam.settings.null, self.exam.identity))

    def protocol(self) -> dict[str, Any]:
        """The settings and counts that the numbers depend on."""
        return {
            **self.exam.settings.as_dict(),
            "threshold of the search": {"loss": self.exam.threshold, "accuracy": self.exam.accuracy},
            "criterion": "mean loss and accuracy: by hand, live, live with rows whole, and at averages; use",
            "identity": names(self.exam.identity),
            "left_out": names(self.exam.left_out),
            "forwards": {
                "discovery": round(self.exam.data.forwards),
                "selection": round(self.exam.selection.forwards),
                "report": round(self.exam.report.forwards),
            },
            "joint_sequences": self.suffices.sequences,
            "search_version": VERSION,
            "averaged": AVERAGED * self.exam.settings.report if has_averages(self.exam.model) else 0,
            "trial": self.exam.trial,
            "seconds": round(time.monotonic() - self.exam.began, 2),
        }


def listed(units: Units, trial: Trial) -> Alternative:
    """A circuit with the losses of its trial, as an entry of `Circuit.listed`."""
    losses = {test: trial.losses[test] for test in trial.tests}
    return Alternative(tuple(paths_of(units)), tuple(rows_of(units)), losses)


def claimed(claim: Completeness, listed: Sequence[Units], spared: Sequence[Path], failed: int) -> Completeness:
    """The claim about other circuits after the report.

    It is weakened if sets failed on the report's sequences, or if the model works without a path that every listed
    circuit has: some circuit without this path must then exist.

    Args:
        claim: the claim of the search.
        listed: the circuits that passed.
        spared: paths without which the model's loss stays below the threshold.
        failed: number of circuits that passed in the search and failed in the report.
    """
    if failed and claim.claim == "proven":
        undecided = (
            f"{failed} of the sets that passed failed on the report's sequences, so sets at the threshold are undecided"
        )
        claim = Completeness("searched", f"{claim.how}; {undecided}")
    alone = [path for path in spared if all(path in units for units in listed)]
    if alone and claim.claim != "proven":
        paths = ", ".join(map(str, alone))
        return Completeness("not claimed", f"the model does without {paths}, but every circuit that was found has it")
    return claim
