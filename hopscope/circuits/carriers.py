"""Carriers: minimal sets of paths that carry the answers while all other rows are null (appendix E, steps 1, 2 and 5).

The paper's author replaced heads one after the other; single and joint replacements differ, so we search jointly: for
rows whose patterns, as the model has them, keep the loss under a bound; of each row the paths that matter; then all
patterns by hand. A head may also act only while another is silent (a backup; self-repair). So where a row is forbidden
to look for others, patterns are also taken from the model with that row silenced and all else live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from hopscope.circuits.case import Case, Units, names, said
from hopscope.circuits.evaluator import Evaluator, Pattern
from hopscope.circuits.search import all_minimal, minimal
from hopscope.circuits.units import NO_ROLE, Row, row_of
from hopscope.problem.paths import Path

Rows = frozenset[Row]
Test = Callable[[Rows], bool]
Patterns = Callable[[Evaluator], Sequence[Pattern]]


@dataclass(frozen=True)
class RowSets:
    """What the search for rows came to.

    Attributes:
        found: minimal sets of rows, of few rows first.
        complete: whether the search came to its end.
    """

    found: list[Rows]
    complete: bool


def find_rows(case: Case, bound: float) -> RowSets:
    """Minimal sets of rows that carry the answers."""
    case.watch("looking for the rows that carry the answers")
    as_is = carrying(case, bound, lambda evaluator: evaluator.patterns, "frozen, all else null")
    at_work: dict[Rows, Patterns] = {}

    def in_their_absence(silent: Rows) -> Test:
        patterns = cache(lambda evaluator: evaluator.patterns_under(case.silenced(silent)))
        passes = carrying(case, bound, patterns, f"frozen as without {', '.join(names(silent))}, all else null")

        def test(rows: Rows) -> bool:
            if passes(rows):
                at_work.setdefault(rows, patterns)
                return True
            return False

        return test

    rows = case.data.ground.rows
    if not as_is(frozenset(rows)):
        return RowSets([], True)
    found, complete = all_minimal(
        rows, as_is, case.settings.alternatives, lambda left, test: minimal_rows(case, left, test), in_their_absence
    )
    for chosen in found:
        if chosen in at_work:
            remember(case, chosen, at_work[chosen](case.data))
    return RowSets(sorted(found, key=len), complete)


def carrying(case: Case, bound: float, patterns: Patterns, words: str) -> Test:
    """Whether rows, with the patterns of given sequences, keep the loss under a bound, all else being null."""
    known: dict[Rows, bool] = {}

    def passes(rows: Rows) -> bool:
        if rows not in known:
            known[rows], loss = case.test(lambda evaluator: case.frozen(rows, patterns(evaluator)), bound)
            case.write("2 carriers", names(rows), words, loss, said(known[rows]), bound=bound)
        return known[rows]

    return passes


def remember(case: Case, rows: Rows, patterns: Sequence[Pattern]) -> None:
    """Note how strong the paths of rows are while others are silent, where that is more than they ever were."""
    for row in rows:
        ground = case.data.ground
        strengths = {path: case.data.attention(path, patterns) for path in ground.paths_in(row)}
        if max(strengths.values(), default=0.0) > case.sharpness(row) + 0.1:
            case.strengths.update(strengths)


def minimal_rows(case: Case, rows: Sequence[Row], passes: Test) -> Rows:
    """A minimal set of rows, of few heads."""
    heads: dict[tuple[int, int], Rows] = {}
    for row in rows:
        heads[row.layer, row.head] = heads.get((row.layer, row.head), frozenset()) | {row}
    ranked = case.ranked(list(heads.values()))
    useful = minimal(ranked, lambda groups: passes(frozenset[Row]().union(*groups)))
    in_use = sorted(frozenset[Row]().union(*useful))
    single = case.ranked([frozenset([row]) for row in in_use])
    return minimal([row for group in single for row in group], passes)


def find_paths(case: Case, rows: Rows, bound: float) -> Units:
    """A minimal set of paths in some rows that suffices by hand; empty if there is none.

    The strongest path of each row, if they do; else whichever do with the model's own shares.
    """
    case.watch("looking for the paths in them")
    strongest = case.name(rows)
    if not by_hand_passes(case, strongest, bound):
        whole: Units = frozenset(row for row in rows if row.query == NO_ROLE)
        paths = [path for row in rows - whole for path in case.data.ground.paths_in(row)]
        paths.sort(key=lambda path: (path not in strongest, -case.strengths[path], str(path)))
        frozen = carrying_paths(case, bound, whole)
        strongest = minimal(paths, frozen) if frozen(frozenset(paths)) else frozenset()
        if not strongest or not by_hand_passes(case, strongest, bound):
            return frozenset()
    effects = {path: case.effects.get(frozenset([row_of(path)]), 0.0) for path in strongest}
    ordered = sorted(strongest, key=lambda path: (-effects[path], str(path)))
    fewer = minimal(ordered, lambda chosen: by_hand_passes(case, chosen, bound))
    loss = case.selection.loss(case.by_hand(fewer))
    fits = loss.mean < max(bound, case.threshold)
    case.write("2 by hand", names(fewer), "all by hand", loss, said(fits), data="selection")
    return frozenset[Row | Path](fewer) if fits else frozenset()


def carrying_paths(case: Case, bound: float, whole: Units) -> Callable[[frozenset[Path]], bool]:
    """Whether paths beside whole rows, with the model's own shares, keep the loss under a bound."""
    return lambda chosen: case.test(lambda on: case.frozen(chosen | whole, on.patterns), bound)[0]


def by_hand_passes(case: Case, paths: frozenset[Path], bound: float) -> bool:
    """Whether some paths suffice with all patterns by hand, on discovery data."""
    passed, loss = case.test(lambda _: case.by_hand(paths), bound)
    case.write("2 by hand", names(paths), "all by hand", loss, said(passed), bound=bound)
    return passed
