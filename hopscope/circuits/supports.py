"""Supports: minimal sets of further rows with which carriers find their targets, so that the circuit works live.

A head that only tells another where to attend is not missed while patterns are set by hand, but nothing works without
it; nor, in a trained model, without a row that carries nothing and yet moves the stream in which others look. All that
counts is the loss. Positions that hold no role have rows like all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.circuits.case import Case, Outcome, Units, names, said
from hopscope.circuits.search import all_minimal
from hopscope.circuits.units import Row, row_of


def find_supports(case: Case, carriers: Units, bound: float) -> tuple[list[frozenset[Row]], bool]:
    """Minimal sets of rows with which carriers are under a bound live, all else null; and whether these are all.

    Rows of earlier layers, if they do; else of all. Of the whole model, if even that is over the bound. Only for rows
    without which a set is clearly over the bound substitutes are looked for: many a row helps by next to nothing, and
    any few of these do for any others.
    """
    case.watch("looking for what tells them where to attend")
    last = max(unit.layer for unit in carriers)
    own = frozenset(map(row_of, carriers))
    rows = [row for row in case.rows_to_search if row not in own]
    known: dict[frozenset[Row], Outcome] = {}

    def outcome(chosen: frozenset[Row]) -> Outcome:
        if chosen not in known:
            known[chosen] = found = case.test(lambda _: case.rows(chosen | own), bound)
            case.write("3 supports", names(chosen), "live, all else null", found.loss, said(found.passed), bound=bound)
        return known[chosen]

    def passes(chosen: frozenset[Row]) -> bool:
        return outcome(chosen).passed

    def needed(chosen: frozenset[Row]) -> list[Row]:
        return [row for row in chosen if outcome(chosen - {row}).clearly_fails]

    for candidates in ([row for row in rows if row.layer < last], rows):
        choose_nulls(case, candidates)
        ordered = [row for group in case.ranked([frozenset([row]) for row in candidates]) for row in group]
        known.clear()  # other nulls, other losses
        if passes(frozenset(ordered)):
            return all_minimal(ordered, passes, case.settings.alternatives, needed=needed)
    return [], False


def choose_nulls(case: Case, rows: Sequence[Row]) -> None:
    """Rows that do less harm attending to themselves than evenly are null so (appendix E: uniform or identity)."""
    if case.one_null:
        return
    even = case.ranked([frozenset([row]) for row in rows])
    harmful = [group for group in even if case.effects[group] >= case.threshold and not group <= case.identity]
    losses = case.data.losses([case.silenced(group, "identity") for group in harmful])
    for group, loss in zip(harmful, losses, strict=True):
        unused = loss.mean < case.threshold
        case.write("1 single", names(group), "unused: identity", loss, said(unused) + " alone")
        case.identity |= group if unused else frozenset()
