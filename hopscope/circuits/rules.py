"""For every row of a circuit, the simplest rule for its attention that fits (appendix E, steps 3 and 4).

A rule fits a row under three conditions:

1. With the row's pattern set by the rule and all other rows by hand, the loss stays below the threshold.
2. The same holds with all other rows of the circuit as computed. Only this test notices a row whose work is to
   determine where later heads attend, because by hand those patterns are given.
3. Where the rule and the row's strongest path predict different attention, the head's own attention is at least as
   close to the rule (`is_followed`). A rule can keep the loss low although the head does something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from hopscope.circuits.changes import RowPattern
from hopscope.circuits.exam import Exam, Units, said
from hopscope.circuits.hypotheses import CONTENT, Hypothesis, hypotheses
from hopscope.circuits.losses import Loss
from hopscope.circuits.units import Row, paths_of, row_of

AGREE = 0.5  # two rules predict the same at a position if they place at least this share of attention alike (ours)


def choose_rules(exam: Exam, units: Units, bound: float) -> dict[Row, Hypothesis]:
    """The simplest rule that fits each row of which the circuit has a path; rows that no rule fits are left out."""
    exam.watch("choosing the simplest hypotheses")
    rows = sorted(frozenset(map(row_of, paths_of(units))))
    # If the circuit itself is above the bound live, a rule need only do about as well as the circuit.
    live_bound = max(bound, 1.05 * exam.data.loss(exam.kept(units)).mean)
    return {row: rule for row in rows if (rule := simplest(exam, row, units, (bound, live_bound))) is not None}


def simplest(exam: Exam, row: Row, units: Units, bounds: tuple[float, float]) -> Hypothesis | None:
    """The simplest rule that fits one row; `bounds` are those of the loss by hand and of the live loss."""
    proposed = hypotheses(row, exam.data.ground, exam.strengths)
    others = frozenset(unit for unit in units if row_of(unit) != row)
    for rule in proposed:
        loss, live, found = tried(exam, {row: rule.pattern}, others, bounds)
        found = found and is_followed(exam, row, rule, proposed)
        exam.write("5 hypothesis", str(row), rule.name, loss, said(found), bits=rule.bits, live=live)
        if found:
            return rule
    return None


def is_followed(exam: Exam, row: Row, rule: Hypothesis, proposed: Sequence[Hypothesis]) -> bool:
    """Whether a row's attention is at least as close to a rule as to its strongest path, where the two differ.

    Always true of a rule that names roles itself.
    """
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
    """The loss by hand and the live loss with one row's pattern given, and whether both are below their bounds.

    The live loss is measured only if the loss by hand is below its bound; else it is None. Few sequences are used if
    they decide. Right answers are not counted.
    """
    by_hand = exam.test(exam.by_hand(others, rows=given), bounds[0])
    if not by_hand.passed:
        return by_hand.loss, None, False
    live = exam.test(exam.kept(others, rows=given), bounds[1])
    return by_hand.loss, live.loss.mean, live.passed
