"""Families: circuits of the same rows, where heads divide their attention and there are too many circuits to list.

A head that spreads its attention over a dozen paths often needs only five of them, and any five will do. In one trained
model of `two_hop`, 1,600 minimisations in random order gave 1,407 different sets. Such a model is described by the rows
that it uses, and by the paths that the other paths of these rows cannot replace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hopscope.circuits.exam import LARGE, Exam, Units, names
from hopscope.circuits.search import minimal
from hopscope.circuits.speech import count
from hopscope.circuits.sufficiency import EXHAUSTIVE, Sufficiency
from hopscope.circuits.units import Row, Unit, paths_of, row_of
from hopscope.core.seeds import generator
from hopscope.problem.paths import Path

ORDERS = 8  # most random orders in which paths are removed, to see whether they give different circuits (ours)
OTHERS = 4  # further circuits that make a family (ours)


@dataclass(frozen=True)
class Family:
    """Circuits of the same rows.

    Attributes:
        rows: the rows that every circuit of the family has.
        core: paths that are in each of these circuits and cannot be replaced: without one of them, all other paths of
            the rows do not suffice live. Paths with a share of attention below `LEAST_SHARE` are not tested.
        found: how many different sufficient sets were found by removing paths in other orders.
        paths: number of paths of the rows: those that get attention, and those of the circuit.
    """

    rows: tuple[Row, ...]
    core: tuple[Path, ...]
    found: int
    paths: int

    def holds(self, units: Units) -> bool:
        """Whether a circuit has the family's rows and holds its core."""
        return {*map(row_of, units)} == {*self.rows} and units.issuperset(self.core)

    def words(self) -> list[str]:
        """Sentences on what the circuits of the family have in common."""
        others = f"{self.found} others of the same {count(len(self.rows), 'row')} by leaving out paths in other orders"
        many = f"Heads divide their attention, so there are too many circuits to list. The search found {others}."
        if not self.core:
            return [many]
        core = ", ".join(str(path).replace("->", "→") for path in self.core)
        return [many, f"All have these, which the other {self.paths - 1} paths of these rows cannot replace: {core}."]

    def as_dict(self) -> dict[str, Any]:
        """As in circuit.json."""
        core = [path.as_dict() for path in self.core]
        return {"rows": names(self.rows), "core": core, "found": self.found, "paths": self.paths}


def family_of(exam: Exam, suffices: Sufficiency, circuit: Units) -> Family | None:
    """The family of a large circuit, if removing paths in other orders always gives another circuit of the same rows.

    In each order, the paths that are not needed live are removed. A result that fails another test is not counted.

    Args:
        exam: the exam of the model.
        suffices: the joint test.
        circuit: an accepted circuit.

    Returns:
        None if the circuit has so few units that all subsets are tried (`EXHAUSTIVE`), or more than `LARGE`; if its
        rows have no further paths, or all of their paths do not suffice live; if some order gives a known circuit or
        one of fewer rows; or if fewer than `OTHERS` further circuits are found.
    """
    every = exam.widened(circuit)
    if not EXHAUSTIVE < len(circuit) <= LARGE or every == circuit:
        return None
    exam.watch("leaving out paths in other orders")
    live = lambda units: suffices.passes("live", [units])[0]  # noqa: E731
    if not live(every):
        return None
    rows, found = frozenset(map(row_of, circuit)), [circuit]
    for order in range(ORDERS):
        units = minimal(shuffled(exam, every, order), live)
        if units in found or frozenset(map(row_of, units)) != rows:
            return None
        found += [units] if suffices(units) else []
        if len(found) > OTHERS:
            return Family(tuple(sorted(rows)), core_of(suffices, every, found), OTHERS, len(paths_of(every)))
    return None


def shuffled(exam: Exam, units: Units, order: int) -> list[Unit]:
    """Units in a random order."""
    drawn = torch.randperm(len(units), generator=generator(exam.settings.seed, "order of paths", order))
    ordered = sorted(units, key=str)
    return [ordered[i] for i in drawn.tolist()]


def core_of(suffices: Sufficiency, every: Units, circuits: Sequence[Units]) -> tuple[Path, ...]:
    """Paths that every circuit shares, and without which all other paths of the rows clearly do not suffice live."""
    shared = paths_of(frozenset.intersection(*circuits))
    found = suffices.ask("live", [every - {path} for path in shared])
    return tuple(path for path, outcome in zip(shared, found, strict=True) if outcome.clearly_fails)
