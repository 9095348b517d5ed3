"""Advice where no circuit is found: a path leads to a role, so what no role names, or names too loosely, has none.

Told is what can be measured of the model as it is: how much attention of the rows that matter falls on no path, and
where that is, as a position or from where one attends (a role that could be given); and which path leads to several
positions at once, in how many sequences.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool
from torch import Tensor

from hopscope.circuits.exam import MOST, Exam
from hopscope.circuits.hypotheses import equal_symbols
from hopscope.circuits.units import NO_ROLE, Ground, Row
from hopscope.core.wording import listed
from hopscope.problem.paths import Path
from hopscope.tasks.base import NOT_ASKED, TokenTask

TOLD = 3  # most rows that are named
NAMED = 0.99  # share of the answers that are asked where a role is, below which that is the matter (ours)
UNNAMED = 0.5  # share of a row's attention on no path that is worth a word (ours)
SUGGESTED = 0.75  # of that, which must fall where a role is suggested (ours)
LOOSE = 0.1  # share of the sequences in which a path leads to several positions that is worth a word (ours)


def advice(exam: Exam) -> str:
    """What may be the matter, the first of these: answers, or attention, where no role is; roles that fit several."""
    return unasked(exam) or unnamed(exam) or loose(exam)


def unasked(exam: Exam) -> str:
    """Answers that are asked at positions without a role."""
    batch, task = exam.data.batch, exam.task
    held = batch.searched.held().any(1)[:, task.query_positions]
    asked = (batch.targets != NOT_ASKED).any(-1) if isinstance(task, TokenTask) else torch.ones_like(held)
    named = float((held & asked).sum() / asked.sum())
    if named > NAMED:
        return ""
    return f"only {named:.0%} of the answers are asked at positions with a role: try roles for the others"


def rows_that_matter(exam: Exam) -> list[Row]:
    """Rows with a role without any of which the model fails."""
    every = exam.data.ground.rows
    return [row for row in every if row.query != NO_ROLE and exam.effects.get(row, 0.0) >= exam.threshold]


def unnamed(exam: Exam) -> str:
    """Rows that matter and look at positions without a role, by how much and where; the most so first."""
    found = [(-share, row, where) for row in rows_that_matter(exam) for share, where in off_paths(exam, row)]
    if not found:
        return ""
    looks = "; ".join(f"{-share:.0%} of {row}{where}" for share, row, where in sorted(found)[:TOLD])
    return f"where heads look has no role ({looks}): try roles for these positions"


def off_paths(exam: Exam, row: Row) -> Iterator[tuple[float, str]]:
    """The share of a row's attention that falls on none of its paths, if that is much, and where it falls."""
    ground = exam.data.ground
    named = [ground.entries(path) for path in ground.paths_in(row)]
    no_path = ground.entries(row) & ~torch.stack([torch.zeros_like(ground.entries(row)), *named]).any(0)
    pattern, at = exam.data.patterns[row.layer][:, row.head], ground.holders(row.query)
    on = lambda mask: float((pattern * (no_path & mask)).sum(-1)[at].mean())  # noqa: E731
    share = on(torch.ones_like(no_path))
    if share > UNNAMED:
        best, where = max(((on(mask), where) for where, mask in places(ground)), key=lambda one: one[0])
        yield share, f", {best / share:.0%} of it {where}" if best >= SUGGESTED * share else ""


def places(ground: Ground) -> Iterator[tuple[str, Bool[Tensor, "batch query key"]]]:
    """Where a role could be: from simple to complex, in words and as entries of a pattern."""
    n, device = len(ground.sees), ground.sees.device
    keys = torch.arange(n, device=device)
    for position in range(n):
        yield f"at position {position}", (keys == position).expand(n, n)
    for by in range(1, n):
        yield f"{by} position{'s' * (by > 1)} back", keys[:, None] - keys == by
    same = equal_symbols(ground.batch)
    yield "where the own symbol stands again", same & (keys[:, None] != keys)
    yield "behind where the own symbol stands", same.roll(1, 2) & (keys > 0)


def loose(exam: Exam) -> str:
    """Paths that matter and lead to several positions at once; by hand these get equal parts of the attention."""
    found = sorted((-share, path) for row in rows_that_matter(exam) for share, path in ambiguous(exam, row))
    if not found:
        return ""
    fits = listed(f"{path} in {-share:.0%}" for share, path in found[:TOLD])
    return (
        f"a path leads to several positions at once in many of the sequences ({fits}): try roles that tell them apart"
    )


def ambiguous(exam: Exam, row: Row) -> Iterator[tuple[float, Path]]:
    """A row's main path, with the share of sequences in which it leads from one position to several."""
    ground, strengths = exam.data.ground, exam.data.strengths
    path = max(ground.paths_in(row), key=lambda path: strengths[path], default=None)
    if path is not None and path.chain == "same" and strengths[path] >= MOST:
        several = (ground.entries(path).sum(-1) > 1).any(-1)
        share = float(several.float().mean())
        if share > LOOSE:
            yield share, path
