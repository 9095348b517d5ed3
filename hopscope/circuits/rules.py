"""For every row of a circuit the simplest rule under which it does its work (appendix E, steps 3 and 4).

A rule is put in the row's place, the rest being by hand, then the rest being as computed; both must stay under the
threshold. A row that only moves the stream in which others look is missed by the second alone. And where the rule and
the row's strongest path disagree, the head must rather do what the rule says: what works need not be what is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from hopscope.circuits.changes import RowPattern
from hopscope.circuits.exam import Exam, Units, said
from hopscope.circuits.hypotheses import CONTENT, Hypothesis, hypotheses
from hopscope.circuits.losses import Loss
from hopscope.circuits.units import Row, paths_of, row_of

AGREE = 0.5  # of a row's attention, that two rules place alike, to be the same there (ours)


def choose_rules(exam: Exam, units: Units, bound: float) -> dict[Row, Hypothesis]:
    """The simplest rule of each row that has a path; rows that none fits are left out."""
    exam.watch("choosing the simplest hypotheses")
    rows = sorted(frozenset(map(row_of, paths_of(units))))
    whole = max(bound, 1.05 * exam.data.loss(exam.kept(units)).mean)  # a circuit that fails live asks for no worse
    return {row: rule for row in rows if (rule := simplest(exam, row, units, (bound, whole))) is not None}


def simplest(exam: Exam, row: Row, units: Units, bounds: tuple[float, float]) -> Hypothesis | None:
    """The simplest rule for one row that is under one bound by hand, and under another live."""
    proposed = hypotheses(row, exam.data.ground, exam.strengths)
    others = frozenset(unit for unit in units if row_of(unit) != row)
    for rule in proposed:
        loss, told, found = tried(exam, {row: rule.pattern}, others, bounds)
        found = found and is_followed(exam, row, rule, proposed)
        exam.write("5 hypothesis", str(row), rule.name, loss, said(found), bits=rule.bits, live=told)
        if found:
            return rule
    return None


def is_followed(exam: Exam, row: Row, rule: Hypothesis, proposed: Sequence[Hypothesis]) -> bool:
    """Whether a row's attention is at least as near to a rule as to its strongest path, where the two differ."""
    rival = next((one for one in proposed if one.bits > CONTENT[-1].bits), None)
    if rival is None or rule.bits > CONTENT[-1].bits:
        return True
    on = exam.selection
    actual, ours, theirs = on.patterns[row.layer][:, row.head], rule.pattern(on.ground), rival.pattern(on.ground)
    same = torch.minimum(ours, theirs).sum(-1)
    differ = on.ground.holders(row.query) & (same < AGREE)
    nearness = [torch.minimum(actual, pattern).sum(-1)[differ].sum() for pattern in (ours, theirs)]
    return bool(nearness[0] >= nearness[1])


def tried(
    exam: Exam, given: Mapping[Row, RowPattern], others: Units, bounds: tuple[float, float]
) -> tuple[Loss, float | None, bool]:
    """The loss with one row's pattern given and all others set by hand; then the live loss, and whether it passes.

    The live loss is measured only if the first is under its bound. Few sequences are used if they decide. Accuracy
    does not count.
    """
    by_hand = exam.test(exam.by_hand(others, rows=given), bounds[0])
    if not by_hand.passed:
        return by_hand.loss, None, False
    live = exam.test(exam.kept(others, rows=given), bounds[1])
    return by_hand.loss, live.loss.mean, live.passed
