"""For every row of a circuit the simplest rule under which it does its work (appendix E, steps 3 and 4).

A rule is put in the row's place, the rest being by hand, then the rest being as computed; both must stay under the
threshold. A row that only moves the stream in which others look is missed by the second alone.
"""

from __future__ import annotations

from hopscope.circuits.case import Case, Units, said
from hopscope.circuits.evaluator import Hard
from hopscope.circuits.hypotheses import Hypothesis, hypotheses
from hopscope.circuits.units import Row, row_of
from hopscope.problem.paths import Path


def choose_rules(case: Case, units: Units, bound: float) -> dict[Row, Hypothesis]:
    """Each row's simplest rule; rows that none fits are left out."""
    case.watch("choosing the simplest hypotheses")
    rows = sorted(frozenset(map(row_of, units)))
    found = {row: simplest(case, row, units, bound) for row in rows}
    return {row: rule for row, rule in found.items() if rule is not None}


def simplest(case: Case, row: Row, units: Units, bound: float) -> Hypothesis | None:
    """The simplest rule for one row that passes by hand, and live where the circuit does."""
    proposed = hypotheses(row, case.data.ground, case.strengths)
    others = [unit for unit in units if row_of(unit) != row]
    weights = {unit: case.strengths[unit] for unit in others if isinstance(unit, Path)}
    whole = max(bound, 1.05 * case.data.loss(case.kept(units)).mean)  # a circuit that fails live asks for no worse
    for rule in proposed:
        given = {row: rule.pattern(case.data.ground)}
        loss = case.data.loss(Hard(weights, case.settings.null, rows=given))
        live = case.data.loss(case.kept(others, rows=given)) if loss.mean < bound else None
        found = live is not None and live.mean < whole
        told = None if live is None else live.mean
        case.write("5 hypothesis", str(row), rule.name, loss, said(found), bits=rule.bits, live=told)
        if found:
            return rule
    return None
