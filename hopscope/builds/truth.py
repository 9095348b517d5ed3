"""The truth about a model made by hand: its minimal circuits, for each way of ablating what is not in them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from hopscope.builds.plan import Head, Plan, Slot
from hopscope.problem.paths import Path


def circuits(schedule: list[Path], twins: dict[Head, Head]) -> list[list[dict[str, Any]]]:
    """Every way to choose, for each path of a head with a twin, which of the two does it."""
    choices = [
        [path, replace(path, head=twins[path.layer, path.head][1])] if (path.layer, path.head) in twins else [path]
        for path in schedule
    ]
    return [[path.as_dict() for path in sorted(chosen)] for chosen in itertools.product(*choices)]


def carriers(plan: Plan, schedule: list[Path]) -> list[Path]:
    """The paths that carry an answer to the query; the others only tell heads where to attend."""
    by_row = {(path.layer, path.head, path.query): path for path in schedule}
    found: set[Path] = set()
    for answer in plan.answers.values():
        role = "query"
        for layer, head in answer.address:
            path = by_row[layer, head, role]
            found.add(path)
            role = path.key
    return sorted(found)


def resampled(plan: Plan, schedule: list[Path], twins: dict[Head, Head]) -> list[Path]:
    """The paths that matter when others get another sequence's pattern: those by position alone do not.

    Twins both matter: a pattern of another sequence attends to the right role, so its copy is taken for good.
    """
    own = [Slot("place", ()), Slot("place", ())]
    kept = []
    for path in schedule:
        head = (path.layer, path.head)
        match = plan.heads[head].matches[path.query]
        if [match.query, match.key] != own:
            kept += [path, replace(path, head=twins[head][1])] if head in twins else [path]
    return sorted(kept)
