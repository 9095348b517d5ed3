"""The report on a search: everything once more on fresh sequences, the verdict, and what is measured of each path."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from typing import Any

import torch

from hopscope.circuits.averages import Averaged, Head, has_averages
from hopscope.circuits.case import Case, Units, names, said
from hopscope.circuits.certificates import Supply, certify
from hopscope.circuits.circuit import Circuit, Completeness, Found
from hopscope.circuits.evaluator import AsIs, Change, Evaluator, Hard
from hopscope.circuits.families import Family, family_of
from hopscope.circuits.hypotheses import Hypothesis
from hopscope.circuits.losses import Account, Loss
from hopscope.circuits.rules import choose_rules
from hopscope.circuits.sufficiency import Sufficiency
from hopscope.circuits.takeovers import Takeover, find_takeovers, spared_paths
from hopscope.circuits.units import NO_ROLE, Row, row_of
from hopscope.circuits.use import sleeps, use_of
from hopscope.circuits.verdict import MORE, SEARCHED, Trial, judge, on_trial
from hopscope.core.wording import listed
from hopscope.problem.paths import Path
from hopscope.tasks.base import NOT_ASKED, TokenTask

UNCLAIMED = Completeness("not claimed", "no circuit was accepted")
FEW = 64  # of the report's sequences, for certificates, what heads are at work, and removals but live (ours)
TOLD = 3  # most heads, or rows, that are named
UNNAMED = 0.5  # share of a row's attention on positions without a role that is worth a word (ours)
Validated = list[tuple[Units, dict[str, Loss]]]


class Report:
    """From what a search came to, to a circuit."""

    def __init__(self, case: Case, suffices: Sufficiency):
        self.case, self.suffices = case, suffices
        self.blames_paths = False  # a good model's paths fell short: others may not

    def circuit(self, units: Units, circuits: Sequence[Units], claim: Completeness) -> Circuit:
        """The circuit of some units, or of the first of several minimal ones that passes its trial."""
        self.case.watch("validating on fresh data")
        chosen, trial = self.first_fit(units, circuits)
        self.blames_paths = trial.solved() and trial.gap.low > 0 and not trial.fits()
        rules = choose_rules(self.case, chosen, max(self.case.threshold, self.case.whole.mean * 1.05))
        paths, advice = sorted(paths_of(chosen)), self.case.task.unsolved_advice
        measured, (missed, as_null) = self.measured(paths, chosen, rules, trial), self.missed(chosen, trial)
        verdict, words = judge(
            trial,
            len(paths),
            self.hint(),
            advice,
            minimal=chosen in circuits,
            asleep=[found.path for found in measured if found.is_asleep],
            at_work=missed if as_null else [],
        )
        found = len(paths)
        if verdict == "none":
            chosen, trial, measured = self.narrowed(chosen, trial, measured, rules)
            verdict, words = judge(trial, len(measured), self.hint(), advice)
        valid: Validated = [(chosen, trial.losses)] if paths else []
        takeovers: list[Takeover] = []
        spared: list[Path] = []
        family: Family | None = None
        if verdict == "circuit":
            others, failed, asleep = self.validated([one for one in circuits if one != chosen])
            valid += others
            spared = spared_paths(self.case, paths)
            takeovers = find_takeovers(self.case, spared, [one for one, _ in valid])
            claim = replace(claimed(claim, [one for one, _ in valid], spared, failed), asleep=asleep)
            family = family_of(self.case, self.suffices, chosen) if claim.claim == "not claimed" else None
        return Circuit(
            paths=measured,
            rows=tuple(sorted(rows_of(chosen))),
            losses=trial.losses,
            hop_losses=trial.hop_losses,
            verdict=verdict,
            reason=words,
            threshold=trial.demands.loss,
            alternatives=tuple(paths_of(one) for one, _ in valid),
            completeness=claim if verdict == "circuit" else UNCLAIMED,
            supplies=self.certificates(chosen) if paths else (),
            accuracies=trial.accuracies,
            alternative_rows=tuple(rows_of(one) for one, _ in valid),
            alternative_losses=tuple({test: losses[test] for test in SEARCHED} for _, losses in valid),
            takeovers=tuple(takeovers),
            family=family,
            spared=tuple(spared),
            spare=found - len(measured),
            missed=tuple(missed),
            protocol=self.protocol() | {"demands": asdict(trial.demands)},
            log=self.case.log,
        )

    def first_fit(self, units: Units, circuits: Sequence[Units]) -> tuple[Units, Trial]:
        """The first circuit that passes every test with no null at work; else that passes; else the first of all."""
        first: tuple[Units, Trial] = (units, self.trial(units))
        fitting: tuple[Units, Trial] | None = None
        for one, trial in itertools.chain([first], ((other, self.trial(other)) for other in circuits[1:])):
            if trial.fits() and not self.missed(one, trial)[1]:
                return one, trial
            fitting = fitting or ((one, trial) if trial.fits() else None)
        return fitting or first

    def narrowed(
        self, units: Units, trial: Trial, measured: tuple[Found, ...], rules: dict[Row, Hypothesis]
    ) -> tuple[Units, Trial, tuple[Found, ...]]:
        """Of a set that does not suffice only the paths that are missed live, if without the rest no loss is higher."""
        missed = {one.path for one in measured if one.removal_loss > trial.losses["live"].high}
        if not missed or len(missed) == len(measured):
            return units, trial, measured
        few = frozenset[Row | Path](missed) | rows_of(units)
        fewer = self.trial(few)
        worse = any(fewer.losses[test].mean > trial.losses[test].high for test in SEARCHED)
        if worse or (fewer.solved() and fewer.fits()):  # the search has not asked whether that is minimal
            return units, trial, measured
        return few, fewer, self.measured(sorted(missed), few, rules, fewer)

    def trial(self, units: Units) -> Trial:
        """The model, the circuit in every test, and the null, on report data."""
        changes: dict[str, Change] = {
            "model": AsIs(),
            "circuit": self.case.by_hand(units),
            "live": self.case.kept(units),
            "rows": self.case.rows(units),
            "null": Hard(null=self.case.settings.null),
        }
        more = lambda: self.case.more_to_report_on(MORE)  # noqa: E731
        return on_trial(self.case.task, changes, self.case.report.prepared(), more, partial(self.at_average, units))

    def at_average(self, units: Units, on: Evaluator) -> dict[str, Account]:
        """The circuit as computed, all other heads at their average; nothing where the model does not allow it."""
        if not has_averages(on):
            return {}
        return {"average": on.account_of(Averaged(on).outputs(self.case.kept(units), map(row_of, units)))}

    def missed(self, units: Units, trial: Trial) -> tuple[list[str], bool]:
        """The rows beside a circuit that it clearly lacks when they are at their average, the most missed first.

        And whether what it lacks is what heads do that attend as a null does: all of these make up for half of it.
        """
        if "average" not in trial.losses or trial.losses["average"].low < trial.demands.loss:
            return [], False
        self.case.watch("looking for what is missed at its average")
        few, averaged, kept, rows = self.few, Averaged(self.few), self.case.kept(units), [*map(row_of, units)]
        loss = lambda more=(), nulls=(): float(few.losses_of(averaged.outputs(kept, [*rows, *more], nulls)).mean())  # noqa: E731
        without = loss()
        lacking = without - trial.demands.loss
        if lacking <= 0:  # of few sequences none shows it
            return [], False
        as_null = without - loss(nulls=averaged.heads) >= lacking / 2
        others: dict[Head, list[Row]] = {}
        for row in few.ground.rows:
            if row not in rows:
                others.setdefault((row.layer, row.head), []).append(row)
        helps = {head: without - (loss(nulls=[head]) if as_null else loss(own)) for head, own in others.items()}
        best = sorted(others, key=lambda head: (-helps[head], head))[:TOLD]
        heads = [head for head in best if helps[head] >= lacking / 4] or best[:1]
        return [str(min(others[head], key=lambda row: loss([row]))) for head in heads], as_null

    @cached_property
    def few(self) -> Evaluator:
        """A part of the report data."""
        return self.case.report.part(slice(0, FEW))

    def validated(self, others: Sequence[Units]) -> tuple[Validated, int, int]:
        """Those of the other circuits that stand the same trial, with their losses; and how many do not, and sleep.

        One that sleeps must work at averages, too, or it is kept asleep by what is no part of it: no backup, but a
        route that the model never takes.
        """
        case, found, failed = self.case, [], 0
        every = sorted({path for other in others for path in paths_of(other)})
        use = use_of(case.report, every, case.settings.null) if every else {}
        asleep = {path for path in every if sleeps(case.report.strengths.get(path, 0.0), use[path])}
        for other in others:
            trial = self.trial(other)
            wakes = not other & asleep or "average" not in trial.losses or trial.passes("average")
            stands = trial.fits() and wakes
            case.write(
                "8 alternative", names(other), "live, all else null", trial.losses["live"], said(stands), data="report"
            )
            found += [(other, trial.losses)] if stands else []
            failed += not trial.fits()
        return found, failed, len(others) - len(found) - failed

    def hint(self) -> str:
        """What may be the matter where no circuit is found: answers are asked, or heads look, where no role is."""
        batch = self.case.data.batch
        held = batch.searched.held().any(1)[:, self.case.task.query_positions]
        asked = (batch.targets != NOT_ASKED).any(-1) if isinstance(self.case.task, TokenTask) else torch.ones_like(held)
        named = float((held & asked).sum() / asked.sum())
        if named <= 0.99:
            return f"only {named:.0%} of the answers are asked at positions with a role: try roles for the others"
        return self.elsewhere()

    def elsewhere(self) -> str:
        """Rows that matter and look at positions without a role, by how much, those that look there most first."""
        case = self.case
        unnamed = case.data.ground.holders(NO_ROLE)[:, None]
        shares = {}
        for row in case.data.ground.rows:
            if row.query != NO_ROLE and case.effects.get(frozenset([row]), 0.0) >= case.threshold:
                pattern, at = case.data.patterns[row.layer][:, row.head], case.data.ground.holders(row.query)
                shares[row] = float((pattern * unnamed).sum(-1)[at].mean())
        most = sorted((row for row in shares if shares[row] > UNNAMED), key=lambda row: (-shares[row], row))[:TOLD]
        looks = listed(f"{shares[row]:.0%} of {row}" for row in most) if most else ""
        return f"where heads look has no role ({looks}): try roles for these positions" if most else ""

    def measured(
        self, paths: Sequence[Path], units: Units, rules: dict[Row, Hypothesis], trial: Trial
    ) -> tuple[Found, ...]:
        """Every path with its strength, its hypothesis, its use, and what leaving it out costs in every test."""
        self.case.watch("leaving out each path in turn")
        case, without = self.case, [units - {path} for path in paths]
        left_out = {"live": case.report.losses(map(case.kept, without))}
        for test, change in (("circuit", case.by_hand), ("rows", case.rows)):
            left_out[test] = self.few.losses(map(change, without))
        silenced = case.report.losses(case.silenced([path]) for path in paths)
        use = use_of(case.report, paths, case.settings.null)
        found = []
        for i, path in enumerate(paths):
            removals = {test: losses[i] for test, losses in left_out.items()}
            needed = any(loss.mean >= trial.demands.loss for loss in removals.values())
            words = "needed" if needed else "not needed"
            case.write("6 necessity", str(path), "left out of the circuit", removals["live"], words, data="report")
            rule = rules.get(row_of(path))
            name, bits = (rule.name, rule.bits) if rule else ("no hypothesis fits", None)
            strength = case.report.strengths.get(path, 0.0)  # what is rare may be in none of these sequences
            live, alone = removals["live"].mean, silenced[i].mean
            means = {test: loss.mean for test, loss in removals.items()}
            found.append(Found(path, strength, name, bits, live, alone, means, use[path]))
        return tuple(found)

    def certificates(self, units: Units) -> tuple[Supply, ...]:
        """Why each path attends where it does, on a part of the report data."""
        self.case.watch("asking what feeds each path")
        return tuple(certify(self.few, sorted(units, key=str), self.case.settings.null, self.case.identity))

    def protocol(self) -> dict[str, Any]:
        """All that the numbers depend on."""
        return {
            **self.case.settings.as_dict(),
            "threshold of the search": {"loss": self.case.threshold, "accuracy": self.case.accuracy},
            "criterion": "mean loss and accuracy: by hand, live, and live with rows whole; nulls at work; use",
            "identity": names(self.case.identity),
            "left_out": names(self.case.left_out),
            "forwards": {
                "discovery": round(self.case.data.forwards),
                "selection": round(self.case.selection.forwards),
                "report": round(self.case.report.forwards),
            },
            "joint_sequences": self.suffices.sequences,
            "trial": self.case.trial,
            "seconds": round(time.monotonic() - self.case.began, 2),
        }


def paths_of(units: Units) -> frozenset[Path]:
    return frozenset(unit for unit in units if isinstance(unit, Path))


def rows_of(units: Units) -> frozenset[Row]:
    """Units that no path names."""
    return frozenset(unit for unit in units if isinstance(unit, Row))


def claimed(claim: Completeness, listed: Sequence[Units], spared: Sequence[Path], failed: int) -> Completeness:
    """What may be claimed of other circuits in the end, where some that were found failed on the report's sequences."""
    if failed and claim.claim == "proven":
        undecided = (
            f"{failed} of the sets that passed failed on the report's sequences, so what is at the threshold is open"
        )
        claim = Completeness("searched", f"{claim.how}; {undecided}")
    alone = [path for path in spared if all(path in units for units in listed)]
    if alone and claim.claim != "proven":
        told = ", ".join(map(str, alone))
        return Completeness("not claimed", f"the model does without {told}, but no circuit without it was found")
    return claim
