"""What is claimed about other circuits: that there are none (proven), that none were found (searched), or nothing.

A proof tries every set of up to as many units as the smallest circuit has, if there are few enough of these sets.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

from hopscope.circuits.circuit import Completeness, Minimality
from hopscope.circuits.exam import ASLEEP, LARGE, MOST, Exam, Rows, Units
from hopscope.circuits.sequential import FIRST
from hopscope.circuits.sufficiency import EXHAUSTIVE, REMOVALS, Sufficiency, smallest_first
from hopscope.circuits.units import Row, Unit, row_of

CHEAP = 600  # sets of rows that a proof tries in any model, however long it takes (ours)
SETS = 60_000  # most sets of rows that it tries where sets share the layers in which they do not differ (ours)
PATHS = 10_000  # most sets of paths that it tries at each size (ours)
WORK = 2e10  # most multiplications for running all sets of rows on the first two sequences: about a second (ours)
FURTHER = 10  # times WORK: what may be spent on the sets that these do not reject, before the proof is given up
OPEN = 8  # most undecided sets for which more sequences are drawn (ours)
Pool = Sequence[Sequence[Unit]]  # for each row of a set, the units that may stand for it
Worth = Callable[[Rows], Pool]  # `worth_trying` in one exam
SEARCHED = (
    "each row that a set clearly needs was forbidden in turn; then all subsets of each set that was found were tried, "
    f"or, of more than {EXHAUSTIVE} paths, all removals of up to {REMOVALS}"
)


def claim_without_proof(suffices: Sufficiency, circuits: Sequence[Units], ended: bool) -> Completeness:
    """What is claimed about other circuits if not every set was tried.

    Args:
        suffices: the joint test.
        circuits: the circuits that were found.
        ended: whether the search ran to its end.
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
    """The level of minimality that was tested, on samples: one of four (Hadad et al., 2026, arXiv 2602.16823).

    For a circuit of more than `LARGE` units only the weakest, `quasi`, is claimed, because not every removal of one
    unit was tried on the set itself.

    Args:
        suffices: the joint test.
        circuit: the accepted circuit.
        claim: the claim about other circuits.
        all_needed: whether it fails without any one of its paths on the report's sequences, too.
    """
    open_ = suffices.open_parts([circuit])
    if not all_needed or len(circuit) > LARGE or any(len(part) == len(circuit) - 1 for part in open_):
        return "quasi"
    if claim.claim == "proven" and len(circuit) == claim.size:
        return "cardinal"
    return "subset" if len(circuit) <= EXHAUSTIVE and not open_ else "local"


def try_every_set(exam: Exam, suffices: Sufficiency, found: Sequence[Units]) -> tuple[list[Units], Completeness | None]:
    """An attempt at a proof: every set of up to as many units as the smallest circuit is tried.

    The live test with whole rows depends only on which rows are kept. So every set of rows of up to this size is put to
    this test first. In the sets of rows that pass, every set of units with at least one unit of each row is put to all
    tests.

    Returns:
        The circuits that were found before, with those that the attempt finds. Then the claim: None if there are too
        many sets to try; `searched` in place of `proven` if a set is too near the threshold to be decided.
    """
    size, rows = min(map(len, found)), [row for row in exam.data.ground.rows if row not in exam.left_out]
    worth: Worth = cache(partial(worth_trying, exam))
    if not affordable(exam, rows, size) or any(many_ways(worth, units) for units in found if len(units) == size):
        return list(found), None
    exam.watch(f"trying every set of up to {size} rows")
    most = suffices.sequences + FIRST * number_of_sets(rows, size) + FURTHER * WORK / per_sequence(exam)
    decided = False
    while not decided:  # again from the start after more sequences were drawn; sets that were decided are not run again
        size = min(map(len, found))
        passing: list[Units] = []
        pools: list[Pool] = []
        for n in range(size + 1):
            groups = map(frozenset, itertools.combinations(rows, n))
            new = [group for group in groups if not covered(worth, group, passing)]  # others hold no minimal circuit
            pools += map(worth, itertools.compress(new, suffices.passes("rows", new)))
            if sum(number_of(pool, n) for pool in pools) > PATHS or suffices.sequences > most:
                return smallest_first(exam, [*passing, *found]), None  # it takes too long: no claim
            passing += suffices.new_among((units for pool in pools for units in of_each(pool, n)), passing)
        found = smallest_first(exam, [*passing, *found])
        open_ = [one for one in suffices.undecided if len(one) <= size and not any(known <= one for known in passing)]
        decided = not (0 < len(open_) <= OPEN and suffices.look_closer())
    how = (
        f"every set of up to {size} of the model's {len(rows)} rows was tried live, unless it must hold a known "
        f"circuit; in those that passed, all paths with at least {ASLEEP:.0%} of the attention took every test"
    )
    claim = Completeness("proven", how, min(map(len, found)))
    if open_:
        claim = Completeness("searched", f"{how}; {len(open_)} of these sets are within their error of the threshold")
    return list(found), claim


def affordable(exam: Exam, rows: Sequence[Row], size: int) -> bool:
    """Whether there are few enough sets of up to `size` rows for a proof to try all of them."""
    shares_layers = bool(exam.model.starts_at_layers) and exam.settings.null != "resample"
    number = number_of_sets(rows, size)
    return number <= CHEAP or (shares_layers and number <= SETS and work(exam, rows, size) <= WORK)


def number_of_sets(rows: Sequence[Row], size: int) -> int:
    """The number of sets of up to `size` rows."""
    return sum(math.comb(len(rows), n) for n in range(size + 1))


def work(exam: Exam, rows: Sequence[Row], size: int) -> float:
    """The approximate number of multiplications for running every set of up to `size` rows on the first sequences.

    A layer is run once for all sets that keep the same rows up to and including it (`hopscope.interventions.branches`).
    Each run uses each weight of the layer once for every position.
    """
    layers, number = exam.data.layers, Counter(row.layer for row in rows)
    below = itertools.accumulate(number[layer] for layer in layers)
    runs = sum(math.comb(n, k) for n in below for k in range(size + 1))
    return runs * per_sequence(exam) / len(layers) * FIRST


def per_sequence(exam: Exam) -> float:
    """The approximate number of multiplications of a whole pass over one sequence."""
    weights = sum(weight.numel() for weight in exam.model.parameters())
    return max(1, weights) * exam.data.batch.inputs.shape[1]


def many_ways(worth: Worth, units: Units) -> bool:
    """Whether a circuit's own rows have too many sets of paths to try, because its heads divide their attention."""
    return number_of(worth(frozenset(map(row_of, units))), len(units)) > PATHS


def worth_trying(exam: Exam, rows: Rows) -> Pool:
    """For each of some rows, the units that a proof tries in its place.

    These are its paths with at least `ASLEEP` of its attention, in the full model or with all other rows null. If none
    of them has `MOST` of it, the whole row is one of the units, too.
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
    """Whether a set of rows need not be tried: every choice of units with at least one per row has a known circuit."""
    inside = [units for units in known if rows.issuperset(map(row_of, units))]
    return any(units <= {part[0] for part in worth(rows) if len(part) == 1} for units in inside)


def number_of(pool: Pool, size: int) -> int:
    """The number of sets of `size` units with at least one unit of each row."""
    if not pool:
        return int(size == 0)
    first, *rest = pool
    most = min(len(first), size - len(rest))
    return sum(math.comb(len(first), n) * number_of(rest, size - n) for n in range(1, most + 1))


def of_each(pool: Pool, size: int) -> Iterator[Units]:
    """All sets of `size` units with at least one unit of each row."""
    if not pool:
        yield from [frozenset[Unit]()] if size == 0 else []
        return
    first, *rest = pool
    for n in range(1, size - len(rest) + 1):
        for here in itertools.combinations(first, n):
            yield from (others.union(here) for others in of_each(rest, size - n))
