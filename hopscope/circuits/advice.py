"""Which roles to add or refine where no circuit is found: a path can only lead to positions that a role names.

Everything is measured on the full model. For the rows that matter, this is the share of attention that falls on no
path, with the positions that get it, absolute or relative (a role that could be added). For the main paths of these
rows, it is the share of sequences in which the path leads to several positions at once.
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

LISTED = 3  # most rows or paths in a piece of advice
NAMED = 0.99  # if no more than this share of targets is at positions with a role, the advice is about targets (ours)
UNNAMED = 0.5  # a row is listed if more than this share of its attention is on no path (ours)
SUGGESTED = 0.75  # least share of that attention on some positions for the advice to suggest a role for them (ours)
LOOSE = 0.1  # a path is listed if it leads to several positions in more than this share of sequences (ours)


def advice(exam: Exam) -> str:
    """All that applies: targets without a role, attention to positions without a role, ambiguous roles."""
    return "; ".join(filter(None, (unasked(exam), unnamed(exam), loose(exam))))


def unasked(exam: Exam) -> str:
    """Advice if targets are at positions without a role; else empty."""
    batch, task = exam.data.batch, exam.task
    held = batch.searched.held().any(1)[:, task.query_positions]
    asked = (batch.targets != NOT_ASKED).any(-1) if isinstance(task, TokenTask) else torch.ones_like(held)
    named = float((held & asked).sum() / asked.sum())
    if named > NAMED:
        return ""
    return f"only {named:.0%} of the targets are at positions with a role: try roles for the others"


def rows_that_matter(exam: Exam) -> list[Row]:
    """Rows of a role that the model needs: silencing the row alone takes its loss to the threshold or above."""
    every = exam.data.ground.rows
    return [row for row in every if row.query != NO_ROLE and exam.effects.get(row, 0.0) >= exam.threshold]


def unnamed(exam: Exam) -> str:
    """Advice if rows that matter attend to positions without a role, the largest shares first; else empty."""
    rows = [(-share, row, where) for row in rows_that_matter(exam) for share, where in off_paths(exam, row)]
    if not rows:
        return ""
    shares = "; ".join(f"{-share:.0%} of {row}{where}" for share, row, where in sorted(rows)[:LISTED])
    return f"heads attend to positions without a role ({shares}): try roles for these positions"


def off_paths(exam: Exam, row: Row) -> Iterator[tuple[float, str]]:
    """The share of a row's attention that falls on none of its paths, and on which positions; nothing if small."""
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
    """Positions for which a role could be added, in words and as entries of a pattern; simple ones first."""
    n, device = len(ground.sees), ground.sees.device
    keys = torch.arange(n, device=device)
    for position in range(n):
        yield f"at position {position}", (keys == position).expand(n, n)
    for by in range(1, n):
        yield f"{by} position{'s' * (by > 1)} back", keys[:, None] - keys == by
    same = equal_symbols(ground.batch)
    yield "at other positions with the same symbol", same & (keys[:, None] != keys)
    yield "right after positions with the same symbol", same.roll(1, 2) & (keys > 0)


def loose(exam: Exam) -> str:
    """Advice if main paths lead to several positions at once, which patterns set by hand weight equally; else empty."""
    paths = sorted((-share, path) for row in rows_that_matter(exam) for share, path in ambiguous(exam, row))
    if not paths:
        return ""
    shares = listed(f"{path} in {-share:.0%}" for share, path in paths[:LISTED])
    return f"a path leads to several positions at once in many sequences ({shares}): try roles that tell them apart"


def ambiguous(exam: Exam, row: Row) -> Iterator[tuple[float, Path]]:
    """A row's main path and the share of sequences in which it leads from one position to several, if that is large."""
    ground, strengths = exam.data.ground, exam.data.strengths
    path = max(ground.paths_in(row), key=lambda path: strengths[path], default=None)
    if path is not None and path.chain == "same" and strengths[path] >= MOST:
        share = float((ground.entries(path).sum(-1) > 1).any(-1).float().mean())
        if share > LOOSE:
            yield share, path
