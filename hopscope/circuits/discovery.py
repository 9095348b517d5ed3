"""Discovery: the paper's appendix E as an algorithm, from a model to a validated circuit with its proof log.

1. Heads, then rows of useful heads, are made null, each alone, to see what it costs (appendix E, steps 1 and 2).
2. *Carriers*: minimal sets of paths that carry the answers by hand while all else is null (`carriers`).
3. *Supports*: minimal sets of further rows with which the carriers work live (`supports`).
4. *Joint minimisation*: of all that was found together, the minimal sets that suffice by hand and live (`sufficiency`).
5. For every row the simplest hypothesis under which the circuit still works (`rules`; appendix E, steps 3 and 4).
6. Every path of the result is left out once (appendix E, step 6), and asked for what feeds it (`certificates`).
7. Where the model does without a path: what takes over (`takeovers`).

Where the patterns by hand fail, or nothing stands the joint test, the search begins anew with a tighter bound, which
leaves more rows in. The search uses some sequences, the joint minimisation others, and the verdict (`verdict`) and all
reported numbers further ones. Where these reject a good model's paths, a more demanding joint test looks for others,
which are judged on sequences that nothing was chosen by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hopscope.circuits.carriers import find_carriers
from hopscope.circuits.case import Case, Units, Watch
from hopscope.circuits.case import Discovery as Discovery
from hopscope.circuits.circuit import Circuit, Completeness
from hopscope.circuits.completeness import EACH_TRIED, TOGETHER_TRIED, proof
from hopscope.circuits.families import widened
from hopscope.circuits.report import Report
from hopscope.circuits.search import minimal
from hopscope.circuits.sufficiency import TOGETHER, Sufficiency, smallest_first
from hopscope.circuits.supports import find_supports
from hopscope.circuits.units import NO_ROLE, Row, row_of
from hopscope.circuits.use import sleeps, use_of
from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.runs.demand import check_search
from hopscope.tasks.base import Task

LARGE = 20  # paths; sets of more are taken apart only where there is no smaller circuit (ours)
HAIR = 0.02  # of the threshold, by which losses of circuits are told apart (ours)
TIGHTER = (1.0, 0.6, 0.3)  # shares of the threshold, tried in turn as bounds of the search


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
    return Detective(model, task, settings, watch).solve()


class Detective(Case):
    """One search, stage by stage."""

    def solve(self) -> Circuit:
        """All stages; on a model that has not solved its task the search runs too, and is not accepted."""
        self.suffices = Sufficiency(self)
        if not self.solved:
            return self.unsolved()
        found = self.search()
        if found.verdict == "partial" and found.asleep:
            self.watch("the model does not use what was found; looking for what it does use")
            self.left_out |= set(map(row_of, found.asleep))
            other = self.search()
            return other if other.accepted else found
        return found

    def search(self) -> Circuit:
        """The stages, on a model that has solved its task."""
        shown: Units | None = None
        rows: Sequence[frozenset[Row]] = []
        rejected: Circuit | None = None
        for share in TIGHTER:
            bound = self.tighten(share)
            carriers = find_carriers(self, bound)
            rows = rows or carriers.rows
            if not carriers.by_hand:
                continue
            live = self.bound if shown is None else bound  # by hand alone a first time may have failed
            candidates, complete = self.under_both_nulls(carriers.by_hand, live)
            while stood := self.standing(candidates, bound):
                passing, all_ = stood
                circuits, claim = self.minimal_circuits(passing, carriers.complete and complete and all_)
                circuits = self.best_first(circuits)
                report = Report(self, self.suffices)
                found = report.circuit(circuits[0], circuits, claim)
                if found.accepted or not report.blames_paths:
                    return found
                rejected = rejected or found
                if not self.another_trial:
                    return rejected
                self.watch("it fails on fresh data; looking for others, more strictly")
                self.suffices.doubt(circuits)
                self.report_on_others()
            shown = candidates[0] if shown is None else shown
        if rejected:
            return rejected
        if shown is None:
            return self.report_on(self.whole_rows(rows), [], Completeness("not claimed", "nothing was found"))
        return self.report_on(shown, [], Completeness("not claimed", "nothing that was found suffices"))

    def unsolved(self) -> Circuit:
        """What a model that has not solved its task does use."""
        self.write("0 model", "all heads", "as is", self.whole, "rejected: above the threshold as it is")
        bound = self.own * 1.05 + 1e-3
        carriers = find_carriers(self, bound)
        if not carriers.by_hand:
            return self.report_on(self.whole_rows(carriers.rows), [], Completeness("not claimed", "nothing was found"))
        candidates, _ = self.candidates(carriers.by_hand, max(bound, self.bound))
        return self.report_on(candidates[0], [], Completeness("not claimed", "the model has not solved its task"))

    def under_both_nulls(self, carriers: Sequence[Units], bound: float) -> tuple[list[Units], bool]:
        """Candidates; where none suffices, once more with rows that harm by attending evenly looking at themselves.

        Identity is the second choice: a head that unsays the own token does its work by attending to itself.
        """
        before = self.identity
        found = self.candidates(carriers, bound)
        if self.identity != before:  # other nulls, other losses
            self.suffices = Sufficiency(self)
        if self.settings.null != "uniform" or self.passing(found[0]):
            return found
        self.one_null = False
        others = self.candidates(carriers, bound)
        self.suffices = Sufficiency(self)
        if self.passing(others[0]):
            return others
        self.one_null, self.identity = True, frozenset()
        self.suffices = Sufficiency(self)
        return found

    def whole_rows(self, found: Sequence[frozenset[Row]]) -> Units:
        """What is shown where no paths suffice by hand: the rows that carry, by all their paths if these work live."""
        strongest = self.named(found[0]) if found else frozenset[Row | Path]()
        wider = widened(self, strongest)
        return wider if self.test(lambda _: self.kept(wider), self.bound).passed else strongest

    def named(self, rows: Iterable[Row]) -> Units:
        """Rows by their strongest paths; those without a role as they are."""
        rows = list(rows)
        return frozenset[Row | Path](self.name(rows)) | {row for row in rows if row.query == NO_ROLE}

    def candidates(self, carriers: Sequence[Units], bound: float) -> tuple[list[Units], bool]:
        """All carriers with the supports of the first; where none of these works live, with supports of their own."""
        supports, complete = find_supports(self, carriers[0], bound)
        found = [units | self.named(rows) for units in carriers for rows in supports]
        for units in carriers[1:] if self.solved else ():
            if not any(self.suffices.all_of([units | self.named(rows) for rows in supports])):
                own, all_ = find_supports(self, units, bound)
                found += [units | self.named(rows) for rows in own]
                complete = complete and all_
        return list(dict.fromkeys(found)) or [carriers[0]], complete

    def standing(self, candidates: Sequence[Units], bound: float) -> tuple[list[Units], bool] | None:
        """Those that suffice, perhaps widened; if there are none, at a closer look; and whether these are all.

        They are not where only parts of them suffice, such as are needed live: of many, one each is tried.
        """
        wider = [widened(self, units) for units in candidates]
        found = self.passing(candidates) or self.passing(wider)
        if not found:
            self.suffices.look_closer()
            found = self.passing(candidates) or self.passing(wider)
        if found:
            return found, True
        parts = self.passing(self.narrowed(wider, bound))
        return (parts, False) if parts else None

    def narrowed(self, sets: Sequence[Units], bound: float) -> list[Units]:
        """Of sets that work live, a minimal part each that does; by hand a path that is not needed may do harm."""
        live = lambda chosen: self.test(lambda _: self.kept(chosen), bound).passed  # noqa: E731
        strength = lambda unit: (-self.strengths.get(unit, 0.0), str(unit))  # noqa: E731
        some = list(dict.fromkeys(sets))[: self.settings.alternatives]
        return [minimal(sorted(units, key=strength), live) for units in some if live(units)]

    def passing(self, candidates: Sequence[Units]) -> list[Units]:
        """Those that suffice."""
        return [units for units, passed in zip(candidates, self.suffices.all_of(candidates), strict=True) if passed]

    def minimal_circuits(self, passing: Sequence[Units], complete: bool) -> tuple[list[Units], Completeness]:
        """All minimal circuits among what was found, and what is claimed of others."""
        self.watch("leaving out whatever can be spared")
        together: Units = frozenset().union(*passing)
        most, how, short = self.settings.alternatives, TOGETHER_TRIED, ""
        if len(together) <= TOGETHER:
            circuits = smallest_first(self, self.suffices.minimal_sets(together))
        else:
            taken, short = self.minimised_in_turn(passing[:most])
            circuits, how = smallest_first(self, taken), EACH_TRIED
        proven = proof(self, self.suffices, circuits)
        if proven:
            return proven
        if not complete or len(circuits) >= most or len(passing) > most:
            short = short or f"the search did not follow all that it found (at most {most} sets, one part of each)"
        return circuits[:most], Completeness("not claimed", short) if short else Completeness("searched", how)

    def best_first(self, circuits: Sequence[Units]) -> list[Units]:
        """Those that the model uses first, then those of few units; of as many, those of less loss live, in steps of a
        hair, on the selection."""
        if len(circuits) == 1:
            return list(circuits)
        every = sorted({unit for units in circuits for unit in units if isinstance(unit, Path)})
        use = use_of(self.selection, every, self.settings.null)
        asleep = {path for path in every if sleeps(self.selection.strengths.get(path, 0.0), use[path])}
        dormant = {units for units in circuits if units & asleep}
        losses = self.selection.losses(map(self.kept, circuits))
        hairs = [loss.mean // (HAIR * abs(self.threshold) + 1e-9) for loss in losses]
        least = dict(zip(circuits, hairs, strict=True))
        order = lambda units: (units in dormant, len(units), not math.isfinite(least[units]), least[units])  # noqa: E731
        return sorted(circuits, key=order)

    def minimised_in_turn(self, passing: Sequence[Units]) -> tuple[list[Units], str]:
        """What nothing can be left out of, from the smallest set on; and what was not tried, in words.

        A large set is left whole where a circuit is known by then: it has thousands of removals to be tried.
        """
        found: list[Units] = []
        left = once = 0
        for units in sorted(passing, key=len):
            if len(units) > LARGE and found:
                left += 1
                continue
            parts, all_ = self.suffices.minimised(units)
            found += parts
            once += not all_
        if left:
            return found, f"sets of more than {LARGE} paths were not taken apart: {left}"
        return found, f"sets in which one of several smaller circuits was looked for: {once}" if once else ""

    def report_on(self, units: Units, circuits: Sequence[Units], claim: Completeness) -> Circuit:
        """Validate, measure and tell what was found."""
        return Report(self, self.suffices).circuit(units, circuits, claim)
