"""Discovery finds a model's circuit and logs every step of the search. It automates the paper's appendix E.

1. *Effects* (appendix E, steps 1 and 2): each row is silenced by itself in the full model, and the rows are ranked by
   the loss that results.
2. *Rows*: the search finds minimal sets of rows that suffice as computed, with all other rows null.
3. *Paths* (step 5): for each of these sets, it looks for paths that suffice in place of the rows, both live and by
   hand. The minimal sets of such paths are circuits (`sufficiency`). If there are few enough sets of the same size, all
   of them are tried, too (`completeness`).
4. *Report*: every test is repeated on sequences that the search has not seen, which gives the verdict (`report`,
   `verdict`). Each row gets the simplest hypothesis that fits (`rules`; steps 3 and 4), and each path is left out in
   turn (step 6).

If nothing suffices, or if a circuit fails on the report's sequences, the search starts again with a stricter bound on
sets of rows. Rows are chosen on some sequences and paths on others. After a failure the next circuit is judged on fresh
sequences, as long as there are any.
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
from hopscope.circuits.use import asleep
from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.runs.demand import check_search
from hopscope.tasks.base import Task

PURE = 0.9  # least share of a row's attention on one path for this path to stand for the row in `of_many_rows` (ours)
STRICTNESS = (1.0, 0.6, 0.3)  # by round, how far from the model's loss to the threshold sets of rows may go (ours)


def discover(model: Model, task: Task, settings: Discovery | None = None, watch: Watch = lambda _: None) -> Circuit:
    """Find the circuit of a model.

    Args:
        model: a model with attention heads, trained on the task or not.
        task: a task whose positions have roles.
        settings: data sizes, null, seed; None stands for the defaults.
        watch: called with a description of each step.

    Returns:
        The circuit, with its verdict and the reason for it (`hopscope.circuits.verdict`).

    Raises:
        BadInput: the model has no attention, or the sequences do not fit into memory.
    """
    if not model.architecture.n_layers * model.architecture.n_heads:
        raise BadInput(f"{model.architecture.name()} has no attention, so there is no circuit of heads to search for")
    settings = settings or Discovery()
    check_search(model.architecture, task, settings.sizes, "--discovery, --selection or --report")
    return found_by(Exam(model, task, settings, watch))


def found_by(exam: Exam) -> Circuit:
    """The circuit of an exam's model.

    A set of paths can suffice although the full model does not use some of them (`use`). The search is then repeated
    without the rows of these dormant paths.
    """
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
    """The first accepted circuit of a model that has solved its task; else the best that there is to report.

    Each round bounds the loss of sets of rows more strictly (`STRICTNESS`). A stricter bound keeps more rows, whose
    paths are then more likely to pass the joint test and the report.
    """
    rejected, shown = None, None  # for the end: the first circuit that a report rejected, or paths of rows that work
    for strictness in STRICTNESS:
        # Stage 2: sets of rows. Each row that a set clearly needs is forbidden in turn, so that others take its place.
        exam.tighten(strictness)
        exam.watch("looking for the rows that do the work")
        row_sets, ended = rows_that_work(exam, suffices)
        # Stages 3 and 4: minimal sets of paths in these rows.
        circuits, complete = circuits_in(exam, suffices, row_sets)
        # If sets of many rows leave no margin for paths to pass, rows are left out of the whole model one by one.
        if not circuits and any(len(rows) > LARGE for rows in row_sets):
            circuits, complete = of_many_rows(exam, suffices), False
        # Perhaps nothing passes only because the sequences do not decide: more are drawn for the undecided sets.
        while not circuits and suffices.look_closer():
            circuits, complete = circuits_in(exam, suffices, row_sets)
        if not circuits:
            shown = shown or next(map(exam.shown, row_sets), None)  # reported if no round finds a circuit
            if any(len(rows) > LARGE for rows in row_sets):
                break  # a stricter bound would make these sets still larger
            continue
        # The proof: all other sets of as few units, if there are few enough of them.
        circuits, proven = try_every_set(exam, suffices, circuits)
        claim = proven or claim_without_proof(suffices, circuits, ended and complete)
        # The verdict, on sequences that the search has not seen.
        report = Report(exam, suffices)
        circuit = report.circuit(best_first(exam, circuits), claim)
        if circuit.accepted or not report.blames_paths:  # if other paths would not help, neither would another round
            return circuit
        # These circuits passed only on the search's sequences. The next ones must pass by a larger margin. They are
        # judged on fresh sequences, because this report's have now been used to choose between circuits.
        rejected = rejected or circuit
        if not exam.another_trial:
            return rejected
        exam.watch("it fails on fresh data; looking for others, more strictly")
        suffices.reject(circuits)
        exam.report_on_others()
    if rejected:
        return rejected
    # Nothing passed: paths of the rows that work are reported or, if these are many, paths that suffice by hand.
    if shown is None or len(shown) > LARGE:
        shown = enough_by_hand(exam, suffices) or shown
    return Report(exam, suffices).refused(shown or frozenset(), "nothing that was found suffices")


def rows_that_work(exam: Exam, suffices: Sufficiency) -> tuple[list[Rows], bool]:
    """Minimal sets of rows that work, and whether the search for them came to its end.

    A set can work by chance on discovery's few sequences, so it must pass the joint test of rows, too. Large sets need
    not, because this test takes long on them, and nor must any set if none passes both tests.
    """
    surely = lambda rows: exam.works(rows) and (len(rows) > LARGE or suffices.passes("rows", [rows])[0])  # noqa: E731
    found, ended = all_minimal(exam.by_effect(), surely, exam.most, of_few_heads, exam.needed_rows)
    if not found:
        found, ended = all_minimal(exam.by_effect(), exam.works, exam.most, of_few_heads, exam.needed_rows)
    return found, ended


def of_few_heads(rows: Sequence[Row], works: Callable[[Rows], bool], near: Rows) -> Rows:
    """A minimal set of rows that works, close to a known set and with its further rows in few heads.

    A minimal set of heads is found first whose rows work together with the known set. Single rows are then chosen
    among the rows of both.

    Args:
        rows: the rows to choose from, in order of preference.
        works: the test; all rows together must pass it.
        near: the rows of a known set; may be empty.
    """
    heads: dict[tuple[int, int], Rows] = defaultdict(frozenset)
    for row in rows:
        heads[row.layer, row.head] |= {row} - near
    useful = minimal(list(filter(None, heads.values())), lambda groups: works(near.union(*groups)))
    chosen = near.union(*useful)
    return nearest([row for row in rows if row in chosen], works, near)


def circuits_in(exam: Exam, suffices: Sufficiency, row_sets: Sequence[Rows]) -> tuple[list[Units], bool]:
    """The minimal circuits in some sets of rows, smallest first, and whether these sets are known to hold no others."""
    circuits: list[Units] = []
    complete = True
    for rows in row_sets:  # in a loop of its own: all strengths are updated before candidates are chosen by them
        exam.note_awakened(rows)
    for rows in row_sets:
        paths = next(filter(suffices, candidates(exam, rows)), None)
        complete &= len(rows) <= LARGE
        if paths is None or (circuits and len(paths) > LARGE):  # a large set takes long to minimise
            complete = False
            continue
        found, found_all = suffices.minimised(paths)
        circuits, complete = smallest_first(exam, [*circuits, *found]), complete and found_all
    return circuits[: exam.most], complete and len(circuits) <= exam.most


def candidates(exam: Exam, rows: Rows) -> Iterator[Units]:
    """Sets of units that may do the work of some rows, in the order in which they are tried:

    1. the strongest path of each row. A row without a path of at least `MOST` of its attention stays whole, because no
       single path describes what it is needed for.
    2. the strongest path of every row;
    3. all paths that get a share of attention;
    4. those of 3 that the live tests need: with patterns set by hand, a path that is not needed may do harm.
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
        needed = minimal(sorted(wide, key=exam.by_strength), exam.works)
        exam.write("3 paths", names(needed), "of these the ones that are needed live", None, "tried")
        yield needed


def of_many_rows(exam: Exam, suffices: Sufficiency) -> list[Units]:
    """A circuit of a model in which many rows each help a little, in a list; an empty list if none is found.

    A minimal set of many rows leaves no margin below the threshold. Many such sets pass on a few sequences only by
    chance, and fail on others. So this search starts from the whole model and keeps a margin:

    1. Rows are left out one after the other, each if the loss rises by less than half a hair (`HAIR`). Rows of the last
       layers come first, because the fewest later layers read what they write.
    2. A row with nearly all of its attention on one path (`PURE`) is replaced by this path.
    3. Units are left out one after the other, in the same order, while the joint test passes on half of its sequences.
    4. Of the sets that passed on the way, the smallest is taken that also passes on all sequences, and by a larger
       margin (`SURER`).
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
    last, suffices.last = suffices.last, suffices.last // 2  # so that step 4 judges on more than step 3 chose by
    for unit in sorted(sets[0], key=last_first):
        if suffices(fewer := sets[-1] - {unit}):
            sets.append(fewer)
    suffices.last, suffices.sure = last, SURER
    return [*itertools.islice(filter(suffices, reversed(sets)), 1)]


def enough_by_hand(exam: Exam, suffices: Sufficiency) -> Units:
    """A minimal set of paths that suffices by hand, which is all that appendix E asks; empty if there is none.

    The live tests are left out. So nothing shows how the heads of these paths find their targets, and it may be that no
    path describes it.
    """
    exam.watch("looking for the paths that are enough by hand")
    by_effect = (path for row in exam.by_effect() for path in exam.data.ground.paths_in(row))
    strong = [path for path in by_effect if exam.strengths[path] >= MOST]
    by_hand = lambda units: suffices.passes("circuit", [units])[0]  # noqa: E731
    return minimal(strong, by_hand) if by_hand(frozenset(strong)) else frozenset()


def best_first(exam: Exam, circuits: Sequence[Units]) -> list[Units]:
    """Circuits in order of preference: those that the full model uses, then the smaller, then the lower live loss.

    Losses are measured on the selection's sequences, and rounded down to multiples of a hair (`HAIR`), so that smaller
    differences do not decide.
    """
    if len(circuits) == 1:
        return list(circuits)
    every = paths_of({unit for units in circuits for unit in units})
    unused = {*asleep(exam.selection, every, exam.settings.null)}
    losses = exam.selection.losses(map(exam.kept, circuits))
    hairs = [loss.mean // (HAIR * abs(exam.threshold) + 1e-9) for loss in losses]
    least = dict(zip(circuits, hairs, strict=True))
    order = lambda units: (bool(units & unused), len(units), not math.isfinite(least[units]), least[units])  # noqa: E731
    return sorted(circuits, key=order)


def unsolved(exam: Exam) -> Circuit:
    """The report on a model that has not solved its task: the paths that its loss depends on, without a claim."""
    exam.write("0 model", "all heads", "as is", exam.whole, "rejected: above the threshold as it is")
    exam.bound = exam.own + 0.05 * abs(exam.own) + 1e-3  # so near that only rows that hardly matter are left out
    row_sets, _ = all_minimal(exam.by_effect(), exam.works, 1, of_few_heads)
    paths = next(map(exam.shown, row_sets), frozenset())
    return Report(exam, Sufficiency(exam)).refused(paths, "the model has not solved its task")
