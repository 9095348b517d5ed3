"""Carriers: minimal sets of paths that carry the answers while all other rows are null (appendix E, steps 1, 2 and 5).

The paper's author replaced heads one after the other; single and joint replacements differ, so we search jointly: for
rows whose patterns, as the model has them, keep the loss under a bound; of each row the paths that matter; then all
patterns by hand. A head may also act only while another is silent (a backup; self-repair). So where a row is forbidden
to look for others, patterns are also taken from the model with that row silenced and all else live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from hopscope.circuits.case import Case, Outcome, Units, names, said
from hopscope.circuits.evaluator import Evaluator, Pattern
from hopscope.circuits.search import all_minimal, minimal
from hopscope.circuits.sufficiency import smallest_first
from hopscope.circuits.units import NO_ROLE, Row, row_of
from hopscope.problem.paths import Path

Rows = frozenset[Row]
Test = Callable[[Rows], bool]
Patterns = Callable[[Evaluator], Sequence[Pattern]]


@dataclass(frozen=True)
class Carriers:
    """What the search for carriers came to.

    Attributes:
        rows: minimal sets of rows that carry the answers with the patterns that they have, those of few rows first.
        by_hand: the sets of paths by which some of them do so by hand, those of few paths first.
        complete: whether the search came to its end.
    """

    rows: list[Rows]
    by_hand: list[Units]
    complete: bool


def find_carriers(case: Case, bound: float) -> Carriers:
    """Minimal sets of rows that carry the answers, and their paths.

    Other sets are looked for without the rows of a set's paths, each in turn: what carries nothing by hand needs no
    substitute, and of what is hardly missed by hand any other row may be one.
    """
    search = CarrierSearch(case, bound)
    case.watch("looking for the rows that carry the answers")
    if not search.as_is(frozenset(search.rows)):
        return Carriers([], [], True)
    most = case.settings.alternatives
    found, complete = all_minimal(search.rows, search.as_is, most, search.minimal, search.absence, search.needed)
    by_hand = smallest_first(case, (units for rows in found if (units := search.by_hand[rows])))
    return Carriers(sorted((search.carried[rows] for rows in found), key=len), by_hand, complete)


class CarrierSearch:
    """What is known of rows, with the patterns of the model as it is or of the model without some of them.

    Attributes:
        by_hand: the paths, by their rows; where there are none, by the rows for which there are none.
        carried: the rows as the model has them, likewise.
    """

    def __init__(self, case: Case, bound: float):
        self.case, self.bound = case, bound
        self.rows = case.rows_to_search
        self.as_is = carrying(case, bound, lambda evaluator: evaluator.patterns, "frozen, all else null")
        self.at_work: dict[Rows, Patterns] = {}
        self.by_hand: dict[Rows, Units] = {}
        self.carried: dict[Rows, Rows] = {}

    def absence(self, silent: Rows) -> Test:
        """The test of rows with the patterns that they have while others are silent."""
        patterns = cache(lambda evaluator: evaluator.patterns_under(self.case.silenced(silent)))
        words = f"frozen as without {', '.join(names(silent))}, all else null"
        passes = carrying(self.case, self.bound, patterns, words)

        def test(rows: Rows) -> bool:
            if passes(rows):
                self.at_work.setdefault(rows, patterns)
                return True
            return False

        return test

    def minimal(self, left: Sequence[Row], test: Test, near: Rows) -> Rows:
        """The rows of a minimal set of paths; where there is none, of a minimal set of rows."""
        if self.by_hand:
            self.case.watch(f"looking for others that do (found so far: {len(self.by_hand)})")
        carried = minimal_rows(self.case, left, test, near)
        if carried in self.at_work:
            remember(self.case, carried, self.at_work[carried](self.case.data))
        paths = find_paths(self.case, carried, self.bound)
        found = frozenset(map(row_of, paths)) or carried
        self.by_hand[found], self.carried[found] = paths, carried
        return found

    def needed(self, rows: Rows) -> Iterable[Row]:
        """The rows without whose paths the others are clearly over the bound by hand."""
        paths = self.by_hand[rows]
        if not paths:
            return rows
        named = [path for path in paths if isinstance(path, Path)]
        without = {row: frozenset(path for path in named if row_of(path) != row) for row in rows}
        return [row for row in rows if tested_by_hand(self.case, without[row], self.bound).clearly_fails]


def carrying(case: Case, bound: float, patterns: Patterns, words: str) -> Test:
    """Whether rows, with the patterns of given sequences, keep the loss under a bound, all else being null."""
    known: dict[Rows, bool] = {}

    def passes(rows: Rows) -> bool:
        if rows not in known:
            known[rows], loss, _ = case.test(lambda evaluator: case.frozen(rows, patterns(evaluator)), bound)
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


def minimal_rows(case: Case, rows: Sequence[Row], passes: Test, near: Rows = frozenset()) -> Rows:
    """A minimal set of rows, of few heads; of few heads beside those that are near."""
    heads: dict[tuple[int, int], Rows] = {}
    for row in rows:
        if row not in near:
            heads[row.layer, row.head] = heads.get((row.layer, row.head), frozenset()) | {row}
    ranked = case.ranked(list(heads.values()))
    useful = minimal(ranked, lambda groups: passes(near.union(*groups)))
    in_use = sorted(near.union(*useful))
    single = case.ranked([frozenset([row]) for row in in_use])
    return minimal([row for group in single for row in group], passes)


def find_paths(case: Case, rows: Rows, bound: float) -> Units:
    """A minimal set of paths in some rows that suffices by hand; empty if there is none.

    The strongest path of each row, if they do; else whichever do with the model's own shares.
    """
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
    return lambda chosen: case.test(lambda on: case.frozen(chosen | whole, on.patterns), bound).passed


def by_hand_passes(case: Case, paths: frozenset[Path], bound: float) -> bool:
    """Whether some paths suffice with all patterns by hand, on discovery data."""
    return tested_by_hand(case, paths, bound).passed


def tested_by_hand(case: Case, paths: frozenset[Path], bound: float) -> Outcome:
    """What becomes of discovery's loss with all patterns by hand."""
    found = case.test(lambda _: case.by_hand(paths), bound)
    case.write("2 by hand", names(paths), "all by hand", found.loss, said(found.passed), bound=bound)
    return found
