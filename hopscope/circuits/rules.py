"""For every row of a circuit the simplest rule under which it does its work (appendix E, steps 3 and 4).

A rule is put in the row's place, the rest being by hand, then the rest being as computed; both must stay under the
threshold. A row that only moves the stream in which others look is missed by the second alone. And where the rule and
the row's strongest path disagree, the head must rather do what the rule says: what works need not be what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import torch

from hopscope.circuits.case import Case, Units, said
from hopscope.circuits.changes import RowPattern
from hopscope.circuits.evaluator import Evaluator, Hard
from hopscope.circuits.hypotheses import CONTENT, Hypothesis, hypotheses
from hopscope.circuits.losses import Loss
from hopscope.circuits.units import Row, row_of
from hopscope.problem.paths import Path

AGREE = 0.5  # of a row's attention, that two rules place alike, to be the same there (ours)
Given = Callable[[Evaluator], dict[Row, RowPattern]]


def choose_rules(case: Case, units: Units, bound: float) -> dict[Row, Hypothesis]:
    """Each row's simplest rule; rows that none fits are left out."""
    case.watch("choosing the simplest hypotheses")
    rows = sorted(frozenset(map(row_of, units)))
    whole = max(bound, 1.05 * case.data.loss(case.kept(units)).mean)  # a circuit that fails live asks for no worse
    found = {row: simplest(case, row, units, (bound, whole)) for row in rows}
    return {row: rule for row, rule in found.items() if rule is not None}


def simplest(case: Case, row: Row, units: Units, bounds: tuple[float, float]) -> Hypothesis | None:
    """The simplest rule for one row that is under one bound by hand, and under another live."""
    proposed = hypotheses(row, case.data.ground, case.strengths)
    others = frozenset(unit for unit in units if row_of(unit) != row)
    weights = {unit: case.strengths[unit] for unit in others if isinstance(unit, Path)}
    for rule in proposed:
        given = patterns_of(row, rule)
        loss, told, found = tried(case, given, weights, others, bounds)
        found = found and is_followed(case, row, rule, proposed)
        case.write("5 hypothesis", str(row), rule.name, loss, said(found), bits=rule.bits, live=told)
        if found:
            return rule
    return None


def is_followed(case: Case, row: Row, rule: Hypothesis, proposed: Sequence[Hypothesis]) -> bool:
    """Whether a row's attention is at least as near to a rule as to its strongest path, where the two differ."""
    rival = next((one for one in proposed if one.bits > CONTENT[-1].bits), None)
    if rival is None or rule.bits > CONTENT[-1].bits:
        return True
    on = case.selection
    actual, ours, theirs = on.patterns[row.layer][:, row.head], rule.pattern(on.ground), rival.pattern(on.ground)
    same = torch.minimum(ours, theirs).sum(-1)
    differ = on.ground.holders(row.query) & (same < AGREE)
    nearness = [torch.minimum(actual, pattern).sum(-1)[differ].sum() for pattern in (ours, theirs)]
    return bool(nearness[0] >= nearness[1])


def patterns_of(row: Row, rule: Hypothesis) -> Given:
    """The rule's patterns in the row's place, on given sequences; made once."""
    return cache(lambda on: {row: rule.pattern(on.ground)})


def tried(
    case: Case, given: Given, weights: Mapping[Path, float], others: Units, bounds: tuple[float, float]
) -> tuple[Loss, float | None, bool]:
    """The loss with a row given and the rest by hand; if that is under the first bound, live; and whether that is, too.

    On few sequences, where they tell; losses alone count.
    """
    by_hand = case.test(lambda on: Hard(weights, case.settings.null, rows=given(on)), bounds[0], accuracy=False)
    if not by_hand.passed:
        return by_hand.loss, None, False
    live = case.test(lambda on: case.kept(others, rows=given(on)), bounds[1], accuracy=False)
    return by_hand.loss, live.loss.mean, live.passed
