"""The known minimal circuits of a hand-made model, for each way of ablating what is not in them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from hopscope.builds.plan import Head, Plan, Slot
from hopscope.problem.paths import Path


def circuits(schedule: list[Path], twins: dict[Head, Head]) -> list[list[dict[str, Any]]]:
    """All circuits in which each path of a head with a twin is done by one of the two."""
    choices = [
        [path, replace(path, head=twins[path.layer, path.head][1])] if (path.layer, path.head) in twins else [path]
        for path in schedule
    ]
    return [[path.as_dict() for path in sorted(chosen)] for chosen in itertools.product(*choices)]


def carriers(plan: Plan, schedule: list[Path]) -> list[Path]:
    """The paths that carry an answer to the query; the others only tell heads where to attend."""
    by_row = {(path.layer, path.head, path.query): path for path in schedule}
    carrying: set[Path] = set()
    for answer in plan.answers.values():
        role = "query"
        for layer, head in answer.address:
            path = by_row[layer, head, role]
            carrying.add(path)
            role = path.key
    return sorted(carrying)


def resampled(plan: Plan, schedule: list[Path], twins: dict[Head, Head]) -> list[Path]:
    """The paths that matter when all other patterns are taken from other sequences: those that depend on the content.

    If a head has a twin, both matter: a pattern from another sequence still attends to the right role, so what it
    copies is accepted.
    """
    own = [Slot("place", ()), Slot("place", ())]
    kept = []
    for path in schedule:
        head = (path.layer, path.head)
        match = plan.heads[head].matches[path.query]
        if [match.query, match.key] != own:
            kept += [path, replace(path, head=twins[head][1])] if head in twins else [path]
    return sorted(kept)
