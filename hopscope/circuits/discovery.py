"""Discovery finds a model's circuit and logs every step of the search. It automates the paper's appendix E.

1. *Effects* (appendix E, steps 1 and 2): each row of a head is made null alone. The loss that this costs ranks the
   rows.
2. *Rows*: minimal sets of rows that suffice as computed, with all other rows null.
3. *Paths* (step 5): in each of these sets, the paths that do the work, by hand and as computed. Minimal sets of them
   are circuits. All other sets of the same size are tried, too, if there are few (`sufficiency`, `completeness`).
4. *Report*: every test is repeated on sequences that the search has not seen, and gives the verdict (`report`,
   `verdict`). Each row gets the simplest hypothesis that fits (`rules`; steps 3 and 4), and each path is left out in
   turn (step 6).

If nothing suffices, or if a circuit fails on the report's sequences, the search begins anew with a stricter threshold.
Rows are chosen on some sequences and paths on others. After a failure the next circuit is judged on new sequences, as
long as there are any.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.completeness import claim_without_proof, try_every_set
from hopscope.circuits.exam import AVERAGES, HAIR, LARGE, MOST, Discovery as Discovery, Exam, Rows, Units, Watch, names
from hopscope.circuits.report import Report
from hopscope.circuits.search import all_minimal, minimal, nearest
from hopscope.circuits.sufficiency import SURER, Sufficiency, smallest_first
from hopscope.circuits.units import Row, paths_of, row_of
from hopscope.circuits.use import sleeps, use_of
from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.runs.demand import check_search
from hopscope.tasks.base import Task

PURE = 0.9  # share of a row's attention, of which so little is elsewhere that its path is all of it (ours)
STRICTNESS = (1.0, 0.6, 0.3)  # of the way from the model's loss to the threshold, allowed to sets of rows in turn


def discover(model: Model, task: Task, settings: Discovery | None = None, watch: Watch = lambda _: None) -> Circuit:
    """Find the circuit of a model.

    Args:
        model: attention-based, trained on the task or not.
        task: whose positions have roles.
        settings: data sizes, null, seed; by default all at their defaults.
        watch: told in words what is being done.

    Returns:
        The circuit, with its verdict and the reason for it (`hopscope.circuits.verdict`).

    Raises:
        BadInput: the model has no attention, or so many sequences do not fit into memory.
    """
    if not model.architecture.n_layers * model.architecture.n_heads:
        raise BadInput(f"{model.architecture.name()} has no attention, so there is no circuit of heads to search for")
    settings = settings or Discovery()
    check_search(model.architecture, task, settings.sizes, "--discovery, --selection or --report")
    return found_by(Exam(model, task, settings, watch))


def found_by(exam: Exam) -> Circuit:
    """The circuit of an exam's model. If the model does not use it, the search is repeated without the unused rows."""
    if not exam.solved:
        return unsolved(exam)
    exam.choose_nulls()
    suffices = Sufficiency(exam)
    found = search(exam, suffices)
    if found.verdict == "partial" and found.asleep:
        exam.watch("the model does not use what was found; looking for what it does use")
        exam.left_out |= set(map(row_of, found.asleep))
        if exam.another_trial:
            exam.report_on_others()
        other = search(exam, suffices)
        return other if other.accepted else found
    return found


def search(exam: Exam, suffices: Sufficiency) -> Circuit:
    """The first accepted circuit of a model that has solved its task. The threshold is tightened until there is one."""
    rejected, shown = None, None
    for strictness in STRICTNESS:
        exam.tighten(strictness)
        exam.watch("looking for the rows that do the work")
        # Rows that a set clearly needs (`needed_rows`) are forbidden in turn, so that others take their place.
        row_sets, ended = all_minimal(exam.by_effect(), exam.works, exam.most, of_few_heads, exam.needed_rows)
        circuits, all_ = circuits_in(exam, suffices, row_sets)
        if not circuits and any(len(rows) > LARGE for rows in row_sets):
            circuits, all_ = of_many_rows(exam, suffices), False
        while not circuits and suffices.look_closer():  # draws more sequences for sets that are undecided
            circuits, all_ = circuits_in(exam, suffices, row_sets)
        if not circuits:
            shown = shown or next(map(exam.shown, row_sets), None)  # to be reported if nothing is found
            if any(len(rows) > LARGE for rows in row_sets):
                break
            continue
        circuits, proven = try_every_set(exam, suffices, circuits)
        claim = proven or claim_without_proof(suffices, circuits, ended and all_)
        report = Report(exam, suffices)
        circuit = report.circuit(best_first(exam, circuits), claim)
        if circuit.accepted or not report.blames_paths:
            return circuit
        rejected = rejected or circuit
        if not exam.another_trial:
            return rejected
        exam.watch("it fails on fresh data; looking for others, more strictly")
        suffices.reject(circuits)
        exam.report_on_others()
    if rejected:
        return rejected
    if shown is None or len(shown) > LARGE:
        shown = enough_by_hand(exam, suffices) or shown
    return Report(exam, suffices).refused(shown or frozenset(), "nothing that was found suffices")


def of_few_heads(rows: Sequence[Row], works: Callable[[Rows], bool], near: Rows) -> Rows:
    """A minimal set of rows that works. Beside the rows of `near` it takes rows of few heads, the first ones first."""
    heads: dict[tuple[int, int], Rows] = defaultdict(frozenset)
    for row in rows:
        heads[row.layer, row.head] |= {row} - near
    useful = minimal(list(filter(None, heads.values())), lambda groups: works(near.union(*groups)))
    few = near.union(*useful)
    return nearest([row for row in rows if row in few], works, near)


def circuits_in(exam: Exam, suffices: Sufficiency, row_sets: Sequence[Rows]) -> tuple[list[Units], bool]:
    """The minimal circuits in some sets of rows, smallest first, and whether there are no others."""
    circuits: list[Units] = []
    all_ = True
    for rows in row_sets:  # all of them first, because candidates depend on the strengths that this updates
        exam.note_awakened(rows)
    for rows in row_sets:
        paths = next(filter(suffices, candidates(exam, rows)), None)
        all_ &= len(rows) <= LARGE
        if paths is None or (circuits and len(paths) > LARGE):
            all_ = False
            continue
        found, each = suffices.minimised(paths)
        circuits, all_ = smallest_first(exam, [*circuits, *found]), all_ and each
    return circuits[: exam.most], all_ and len(circuits) <= exam.most


def candidates(exam: Exam, rows: Rows) -> Iterator[Units]:
    """Sets of paths that may do the work of some rows, in the order in which they are tried.

    First comes the strongest path of each row. A row that spreads its attention stays whole there, because no path
    names what it is needed for. Next is the strongest path of every row, and then all paths that get attention. Last
    are those of them that are needed live, because by hand a path that is not needed may do harm.
    """
    exam.watch("looking for the paths that do it")
    wide = exam.widened(exam.named(rows))
    for words, units in (
        ("the strongest path of each row that has one", exam.named(rows, MOST)),
        ("the strongest path of each row", exam.named(rows)),
        ("all paths with a share", wide),
    ):
        exam.write("3 paths", names(units), words, None, "tried")
        yield units
    if len(rows) <= LARGE and exam.works(wide):
        few = minimal(sorted(wide, key=exam.by_strength), exam.works)
        exam.write("3 paths", names(few), "of these the ones that are needed live", None, "tried")
        yield few


def of_many_rows(exam: Exam, suffices: Sufficiency) -> list[Units]:
    """A circuit where many rows help a little each; none, if what is left of all rows does not suffice.

    A minimal set of many rows has used up the room below the threshold: of those the luckiest pass on a few sequences,
    and fail on others. So rows are left out of the whole model one after the other, while each costs less than half a
    hair. The last layers' come first: what they write is read by the fewest. A row that attends to next to nothing else
    becomes its path. Then whatever the joint test can spare is left out, in the same order, on half as many sequences.
    Of the sets on the way the last is taken that passes on all of them, too, and more surely.
    """
    exam.watch("leaving out rows one after the other")
    last_first = lambda unit: (-unit.layer, exam.effects[row_of(unit)], str(unit))  # noqa: E731
    live, on = frozenset(exam.by_effect()), exam.evaluator(AVERAGES, exam.settings.discovery + exam.settings.selection)
    lost = on.loss(exam.rows(live)).mean
    for row in sorted(live, key=last_first):
        loss = on.loss(exam.rows(live - {row})).mean
        if loss < lost + HAIR / 2 * abs(exam.threshold):
            live, lost = live - {row}, loss
    sets = [exam.named(live, PURE)]
    most, suffices.last = suffices.last, suffices.last // 2
    for unit in sorted(sets[0], key=last_first):
        if suffices(fewer := sets[-1] - {unit}):
            sets.append(fewer)
    suffices.last, suffices.sure = most, SURER
    return [*itertools.islice(filter(suffices, reversed(sets)), 1)]


def enough_by_hand(exam: Exam, suffices: Sufficiency) -> Units:
    """A minimal set of paths that suffices by hand, which is all that appendix E asks; empty if there is none.

    How these heads find their targets is not tested: no path may name the way.
    """
    exam.watch("looking for the paths that are enough by hand")
    by_effect = (path for row in exam.by_effect() for path in exam.data.ground.paths_in(row))
    strong = [path for path in by_effect if exam.strengths[path] >= MOST]
    by_hand = lambda units: suffices.passes("circuit", [units])[0]  # noqa: E731
    return minimal(strong, by_hand) if by_hand(frozenset(strong)) else frozenset()


def best_first(exam: Exam, circuits: Sequence[Units]) -> list[Units]:
    """Circuits in order of preference: used by the model, then small, then of low live loss on the selection.

    Losses are compared in steps of a hair.
    """
    if len(circuits) == 1:
        return list(circuits)
    every = paths_of({unit for units in circuits for unit in units})
    use = use_of(exam.selection, every, exam.settings.null)
    asleep = {path for path in every if sleeps(exam.selection.strength(path), use[path].moves)}
    losses = exam.selection.losses(map(exam.kept, circuits))
    hairs = [loss.mean // (HAIR * abs(exam.threshold) + 1e-9) for loss in losses]
    least = dict(zip(circuits, hairs, strict=True))
    order = lambda units: (bool(units & asleep), len(units), not math.isfinite(least[units]), least[units])  # noqa: E731
    return sorted(circuits, key=order)


def unsolved(exam: Exam) -> Circuit:
    """The circuit of a model that has not solved its task: what the model uses, without a claim."""
    exam.write("0 model", "all heads", "as is", exam.whole, "rejected: above the threshold as it is")
    exam.bound = exam.own + 0.05 * abs(exam.own) + 1e-3  # rows that cost next to nothing are not told
    row_sets, _ = all_minimal(exam.by_effect(), exam.works, 1, of_few_heads)
    paths = next(map(exam.shown, row_sets), frozenset())
    return Report(exam, Sufficiency(exam)).refused(paths, "the model has not solved its task")
