"""The report on a search: everything once more on fresh sequences, the verdict, and what is measured of each path."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from hopscope.circuits.case import Case, Units, names, said
from hopscope.circuits.certificates import Supply, certify
from hopscope.circuits.circuit import Circuit, Completeness, Found
from hopscope.circuits.evaluator import AsIs, Change, Hard
from hopscope.circuits.families import Family, family_of
from hopscope.circuits.hypotheses import Hypothesis
from hopscope.circuits.losses import Loss
from hopscope.circuits.rules import choose_rules
from hopscope.circuits.sufficiency import Sufficiency
from hopscope.circuits.takeovers import Takeover, find_takeovers, spared_paths
from hopscope.circuits.units import Row, row_of
from hopscope.circuits.verdict import MORE, TESTS, Trial, judge, on_trial
from hopscope.problem.paths import Path
from hopscope.tasks.base import NOT_ASKED, TokenTask

UNCLAIMED = Completeness("not claimed", "no circuit was accepted")
CERTIFIED = 64  # sequences for certificates
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
        verdict, words = judge(trial, len(paths), self.hint(), advice, minimal=chosen in circuits)
        valid: Validated = [(chosen, trial.losses)] if paths else []
        takeovers: list[Takeover] = []
        family: Family | None = None
        if verdict == "circuit":
            valid += self.validated([one for one in circuits if one != chosen])
            spared = spared_paths(self.case, paths)
            takeovers = find_takeovers(self.case, spared, [one for one, _ in valid])
            claim = claimed(claim, [one for one, _ in valid], spared, len(circuits) - len(valid))
            family = family_of(self.case, self.suffices, chosen) if claim.claim == "not claimed" else None
        return Circuit(
            paths=self.measured(paths, chosen, rules, trial.demands.loss),
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
            alternative_losses=tuple({test: losses[test] for test in TESTS} for _, losses in valid),
            takeovers=tuple(takeovers),
            family=family,
            protocol=self.protocol() | {"demands": asdict(trial.demands)},
            log=self.case.log,
        )

    def first_fit(self, units: Units, circuits: Sequence[Units]) -> tuple[Units, Trial]:
        """The first of the circuits that passes both tests; the first of all if none does."""
        first = self.trial(units)
        if first.fits():
            return units, first
        tried = ((other, self.trial(other)) for other in circuits[1:])
        return next(((other, trial) for other, trial in tried if trial.fits()), (units, first))

    def trial(self, units: Units) -> Trial:
        """The model, the circuit by hand and live, and the null, on report data."""
        changes: dict[str, Change] = {
            "model": AsIs(),
            "circuit": self.case.by_hand(units),
            "live": self.case.kept(units),
            "rows": self.case.rows(units),
            "null": Hard(null=self.case.settings.null),
        }
        return on_trial(self.case.task, changes, self.case.report.prepared(), lambda: self.case.more_to_report_on(MORE))

    def validated(self, others: Sequence[Units]) -> Validated:
        """Those of the other circuits that stand the same trial; with their losses."""
        found = []
        for other in others:
            trial = self.trial(other)
            live, fits = trial.losses["live"], said(trial.fits())
            self.case.write("8 alternative", names(other), "live, all else null", live, fits, data="report")
            found += [(other, trial.losses)] if trial.fits() else []
        return found

    def hint(self) -> str:
        """What may be the matter where nothing was found: answers that are asked at positions without a role."""
        batch = self.case.data.batch
        held = batch.searched.held().any(1)[:, self.case.task.query_positions]
        asked = (batch.targets != NOT_ASKED).any(-1) if isinstance(self.case.task, TokenTask) else torch.ones_like(held)
        named = float((held & asked).sum() / asked.sum())
        if named > 0.99:
            return ""
        return f"only {named:.0%} of the answers are asked at positions with a role: try roles for the others"

    def measured(
        self, paths: Sequence[Path], units: Units, rules: dict[Row, Hypothesis], threshold: float
    ) -> tuple[Found, ...]:
        """Every path with its strength, its hypothesis, and what leaving it out costs."""
        self.case.watch("leaving out each path in turn")
        left_out = self.case.report.losses(self.case.kept(units - {path}) for path in paths)
        silenced = self.case.report.losses(self.case.silenced([path]) for path in paths)
        found = []
        for path, removal, alone in zip(paths, left_out, silenced, strict=True):
            rule = rules.get(row_of(path))
            needed = "needed" if removal.mean >= threshold else "not needed"
            self.case.write("6 necessity", str(path), "left out of the circuit", removal, needed, data="report")
            name, bits = (rule.name, rule.bits) if rule else ("no hypothesis fits", None)
            strength = self.case.report.strengths.get(path, 0.0)  # what is rare may be in none of these sequences
            found.append(Found(path, strength, name, bits, removal.mean, alone.mean))
        return tuple(found)

    def certificates(self, units: Units) -> tuple[Supply, ...]:
        """Why each path attends where it does, on a part of the report data."""
        self.case.watch("asking what feeds each path")
        some = self.case.report.part(slice(0, CERTIFIED))
        return tuple(certify(some, sorted(units, key=str), self.case.settings.null, self.case.identity))

    def protocol(self) -> dict[str, Any]:
        """All that the numbers depend on."""
        return {
            **self.case.settings.as_dict(),
            "threshold of the search": {"loss": self.case.threshold, "accuracy": self.case.accuracy},
            "criterion": "mean loss and accuracy: by hand, live, and live with rows whole",
            "identity": names(self.case.identity),
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
