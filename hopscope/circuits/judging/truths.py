"""A test of the known circuits of hand-made models: do the circuits in truth.json suffice, and are they minimal?

The plan of a hand-made model says which paths it uses. Whether each of them is needed depends on what still gets
through the others when it is removed, so this is tested as in the search (`sufficiency`). If all circuits together have
few paths, every subset of these paths is tried. Otherwise each circuit is tested by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopscope.circuits.circuit import as_dicts
from hopscope.circuits.exam import Discovery, Exam, Units
from hopscope.circuits.sufficiency import REMOVALS, Sufficiency
from hopscope.circuits.units import paths_of
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task

TOGETHER = 8  # most paths of all circuits together for every subset of these paths to be tried
SETTINGS = Discovery(discovery=32, selection=8, report=8)  # the joint test draws its own sequences


def verified(model: Model, task: Task, truth: Mapping[str, Any]) -> dict[str, Any]:
    """The content of truth.json, with its circuits for uniform nulls replaced by those that the tests find.

    Returns:
        The same content with an entry `verified`: `suffices`, whether a planned circuit suffices; `how`, which sets
        were tried; and `spare`, the planned paths that no minimal circuit needs.
    """
    exam = Exam(model, task, SETTINGS, lambda _: None)
    planned: list[Units] = [frozenset(map(Path.from_dict, paths)) for paths in truth["circuits"]["uniform"]]
    suffices = Sufficiency(exam)
    together: Units = frozenset().union(*planned)
    if len(together) <= TOGETHER:
        found, how = suffices.minimal_sets(together), f"all subsets of the {len(together)} paths were tried"
    else:
        working = [units for units, passed in zip(planned, suffices.all_of(planned), strict=True) if passed]
        found = list(dict.fromkeys(suffices.minimised(units)[0][0] for units in working))
        how = f"of each circuit all removals of up to {REMOVALS} paths were tried, or all subsets"
    circuits = [as_dicts(paths_of(units)) for units in found]
    spare = sorted(map(str, together - frozenset().union(*found)))
    about = {"suffices": bool(found), "how": how, "spare": spare}
    return {**truth, "circuits": {**truth["circuits"], "uniform": circuits}, "verified": about}
