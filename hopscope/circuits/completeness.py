"""Whether there are other circuits: proven, by trying every set of paths; searched, and how; or not claimed."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

from hopscope.circuits.circuit import Completeness, Minimality
from hopscope.circuits.exam import ASLEEP, LARGE, MOST, Exam, Rows, Units
from hopscope.circuits.sequential import FEW as FIRST
from hopscope.circuits.sufficiency import EXHAUSTIVE, REMOVALS, Sufficiency, smallest_first
from hopscope.circuits.units import Row, Unit, row_of

FEW = 600  # sets of rows that are tried, whatever that takes (ours)
SETS = 60_000  # sets of rows that a proof may try (ours)
PATHS = 10_000  # sets of so many paths that it may try (ours)
WORK = 2e10  # multiplications that it may take to see which sets of rows are not hopeless: about a second (ours)
CLOSER = 10  # times as many are spent on those that are not
OPEN = 8  # sets at the threshold, for which more sequences are drawn (ours)
Pool = Sequence[Sequence[Unit]]  # by row
Worth = Callable[[Rows], Pool]
SEARCHED = (
    "each row that a set clearly needs was forbidden in turn; then all subsets of each set that was found were tried, "
    f"or, of more than {EXHAUSTIVE} paths, all removals of up to {REMOVALS}"
)


def claim_without_proof(suffices: Sufficiency, circuits: Sequence[Units], ended: bool) -> Completeness:
    """What is claimed of other circuits where not every set was tried.

    Args:
        suffices: the joint test.
        circuits: that were found.
        ended: whether the search came to its end.
    """
    open_ = len(suffices.open_parts(circuits))
    near = (
        f"; they are minimal up to the threshold: {open_} of their parts are within their error of it" if open_ else ""
    )
    if ended:
        return Completeness("searched", SEARCHED + near)
    most = f"the search did not follow all that it found (at most {suffices.exam.most} sets, one part of each)"
    return Completeness("not claimed", most + near)


def minimality(suffices: Sufficiency, circuit: Units, claim: Completeness, all_needed: bool = True) -> Minimality:
    """Which of the field's four levels was tried, on samples (Hadad et al., 2026, arXiv 2602.16823).

    Of a large circuit no more than the least is claimed: not every removal of one unit was tried on the set itself.

    Args:
        suffices: the joint test.
        circuit: that was accepted.
        claim: what is claimed of others.
        all_needed: whether on the report's sequences, too, it fails without any one path.
    """
    open_ = suffices.open_parts([circuit])
    if not all_needed or len(circuit) > LARGE or any(len(part) == len(circuit) - 1 for part in open_):
        return "quasi"
    if claim.claim == "proven" and len(circuit) == claim.size:
        return "cardinal"
    return "subset" if len(circuit) <= EXHAUSTIVE and not open_ else "local"


def try_every_set(exam: Exam, suffices: Sufficiency, found: Sequence[Units]) -> tuple[list[Units], Completeness | None]:
    """All circuits of as few units as the smallest that was found, and the claim, if there are few enough sets to try.

    Else those that were found, with any that were met on the way, and no claim. Nothing is proven where a set is so
    near the threshold that its sequences do not decide.

    Live losses depend on rows alone, so every set of rows is tried live, and by hand all sets of paths in those that
    pass, one of each row or more.
    """
    size, rows = min(map(len, found)), [row for row in exam.data.ground.rows if row not in exam.left_out]
    worth: Worth = cache(partial(worth_trying, exam))
    if not few(exam, rows, size) or any(many_ways(worth, units) for units in found if len(units) == size):
        return list(found), None
    exam.watch(f"trying every set of up to {size} rows")
    most = suffices.sequences + FIRST * number_of_sets(rows, size) + CLOSER * WORK / per_sequence(exam)
    decided = False
    while not decided:
        size = min(map(len, found))
        passing: list[Units] = []
        pools: list[Pool] = []
        for n in range(size + 1):
            groups = map(frozenset, itertools.combinations(rows, n))
            new = [group for group in groups if not covered(worth, group, passing)]
            pools += map(worth, itertools.compress(new, suffices.passes("rows", new)))
            if sum(number_of(pool, n) for pool in pools) > PATHS or suffices.sequences > most:
                return smallest_first(exam, [*passing, *found]), None
            passing += suffices.new_among((units for pool in pools for units in of_each(pool, n)), passing)
        found = smallest_first(exam, [*passing, *found])
        open_ = [one for one in suffices.undecided if len(one) <= size and not any(known <= one for known in passing)]
        decided = not (0 < len(open_) <= OPEN and suffices.look_closer())
    how = (
        f"every set of up to {size} of the model's {len(rows)} rows was tried live, unless it must hold a known "
        f"circuit, and by hand all paths in those that get at least {ASLEEP:.0%} of their row's attention"
    )
    claim = Completeness("proven", how, min(map(len, found)))
    if open_:
        claim = Completeness("searched", f"{how}; {len(open_)} of these sets are within their error of the threshold")
    return list(found), claim


def few(exam: Exam, rows: Sequence[Row], size: int) -> bool:
    """Whether every set of up to so many rows can be tried in about a second."""
    shares_layers = bool(exam.model.starts_at_layers) and exam.settings.null != "resample"
    number = number_of_sets(rows, size)
    return number <= FEW or (shares_layers and number <= SETS and work(exam, rows, size) <= WORK)


def number_of_sets(rows: Sequence[Row], size: int) -> int:
    """How many sets of up to so many rows there are."""
    return sum(math.comb(len(rows), n) for n in range(size + 1))


def work(exam: Exam, rows: Sequence[Row], size: int) -> float:
    """Multiplications, about, by which every set is tried on the first sequences.

    Sets that keep the same rows of the layers below share these: each weight of a layer is used once for every position
    and every set that is apart there (`hopscope.interventions.branches`).
    """
    layers, number = exam.data.layers, Counter(row.layer for row in rows)
    below = itertools.accumulate(number[layer] for layer in layers)
    apart = sum(math.comb(n, k) for n in below for k in range(size + 1))
    return apart * per_sequence(exam) / len(layers) * FIRST


def per_sequence(exam: Exam) -> float:
    """Multiplications of a whole pass over one sequence, about."""
    weights = sum(weight.numel() for weight in exam.model.parameters())
    return max(1, weights) * exam.data.batch.inputs.shape[1]


def many_ways(worth: Worth, units: Units) -> bool:
    """Whether the rows of a circuit alone have too many sets of paths: its heads divide their attention."""
    return number_of(worth(frozenset(map(row_of, units))), len(units)) > PATHS


def worth_trying(exam: Exam, rows: Rows) -> Pool:
    """Of each row the paths that get some attention, in the model as it is or with all other rows null, or the row.

    The row, too, where none of its paths gets the most of its attention.
    """
    patterns = exam.selection.patterns_under(exam.rows(rows))
    pools: list[list[Unit]] = []
    for row in sorted(rows):
        shares = {
            path: max(exam.strengths[path], exam.selection.attention(path, patterns))
            for path in exam.data.ground.paths_in(row)
        }
        whole = max(shares.values(), default=0.0) < MOST
        pools.append([path for path in shares if shares[path] >= ASLEEP] + [row] * whole)
    return pools


def covered(worth: Worth, rows: Rows, known: Iterable[Units]) -> bool:
    """Whether every set of paths that is worth trying in some rows, one of each or more, holds a known circuit."""
    inside = [units for units in known if rows.issuperset(map(row_of, units))]
    if not inside:
        return False
    only = frozenset(part[0] for part in worth(rows) if len(part) == 1)
    return any(units <= only for units in inside)


def number_of(pool: Pool, size: int) -> int:
    """How many sets of so many units have at least one of each part."""
    if not pool:
        return int(size == 0)
    first, *rest = pool
    most = min(len(first), size - len(rest))
    return sum(math.comb(len(first), n) * number_of(rest, size - n) for n in range(1, most + 1))


def of_each(pool: Pool, size: int) -> Iterator[Units]:
    """All sets of so many units with at least one of each part."""
    if not pool:
        yield from [frozenset[Unit]()] if size == 0 else []
        return
    first, *rest = pool
    for n in range(1, size - len(rest) + 1):
        for here in itertools.combinations(first, n):
            yield from (others.union(here) for others in of_each(rest, size - n))
