"""Whether there are other circuits: proven, by trying every set of paths; searched, and how; or not claimed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable

from hopscope.circuits.case import Case, Units
from hopscope.circuits.circuit import Completeness
from hopscope.circuits.sufficiency import EXHAUSTIVE, REMOVALS, Sufficiency, smallest_first
from hopscope.circuits.units import Row, Unit, row_of

PROOF = 600  # sets of rows, and of paths, that a proof may try (ours)
FORBIDDEN = (
    "each row of every set of carriers was forbidden in turn, with the patterns of the model as it is and of the model "
    "without it; supports likewise; then "
)
TOGETHER_TRIED = FORBIDDEN + "all subsets of what was found"
EACH_TRIED = FORBIDDEN + (
    f"all subsets of each set that was found, or, of more than {EXHAUSTIVE} paths, all removals of up to {REMOVALS}"
)


def proof(case: Case, suffices: Sufficiency, found: Collection[Units]) -> tuple[list[Units], Completeness] | None:
    """All minimal circuits up to the size of the greatest that was found, if there are few enough sets to try them all.

    Live losses depend on rows alone, so every set of rows is tried live, and by hand all sets of paths in those that
    pass, one of each row or more.
    """
    size, rows = max(map(len, found)), case.data.ground.rows
    if sum(math.comb(len(rows), n) for n in range(size + 1)) > PROOF:
        return None
    case.watch(f"trying every set of up to {size} rows")
    groups = [frozenset(chosen) for n in range(size + 1) for chosen in itertools.combinations(rows, n)]
    alive = [group for group, passed in zip(groups, suffices.whole(groups), strict=True) if passed]
    if sum(math.comb(len(units_in(case, group)), n) for group in alive for n in range(size + 1)) > 50 * PROOF:
        return None
    sets = [units for group in alive for units in in_rows(case, group, size)]
    passing = [units for units, passed in zip(sets, suffices.all_of(sets), strict=True) if passed]
    how = f"every set of up to {size} of the model's {len(rows)} rows was tried live, and all paths in those by hand"
    return smallest_first(case, [*passing, *found]), Completeness("proven", how, size)


def units_in(case: Case, rows: Iterable[Row]) -> list[Unit]:
    """All paths of some rows; of those without a role, the row itself."""
    found: list[Unit] = []
    for row in sorted(rows):
        found += case.data.ground.paths_in(row) or [row]
    return found


def in_rows(case: Case, rows: frozenset[Row], size: int) -> list[Units]:
    """All sets of up to so many units that have at least one in each of some rows, and none elsewhere."""
    every = units_in(case, rows)
    sets = (frozenset(chosen) for n in range(len(rows), size + 1) for chosen in itertools.combinations(every, n))
    return [chosen for chosen in sets if frozenset(map(row_of, chosen)) == rows]
