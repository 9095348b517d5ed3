"""What a row may be doing, from simple to complex: each hypothesis is a rule that gives the row's pattern.

The simplicity of a rule is its description length: the number of binary choices that name the rule among those of its
kind, plus one bit for each simpler kind. Rules are tried in the order of length, and the first that fits is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.units import Ground, Row
from hopscope.interventions.patterns import ideal, null
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch, VectorTask

WEIGHT_BITS = 4  # bits for each weight of a mixture, a multiple of 1/16
LEAST_SHARE = 1 / 16  # least share of its row's attention for a path to be part of a mixture


@dataclass(frozen=True)
class Hypothesis:
    """A rule for a row.

    Attributes:
        name: its name, such as `previous position` or `role → value[2]`.
        bits: its description length.
        pattern: the function that gives the pattern it predicts, (batch, query, key).
    """

    name: str
    bits: float
    pattern: Callable[[Ground], Float[Tensor, "batch query key"]]


def hypotheses(row: Row, ground: Ground, strengths: Mapping[Path, float]) -> list[Hypothesis]:
    """All rules for a row, simplest first; rules about a role are proposed for the roles that the row attends to.

    Args:
        row: the row.
        ground: the sequences with the roles of their positions.
        strengths: mean attention on the row's paths, by which roles and mixtures are proposed.
    """
    paths = sorted(ground.paths_in(row), key=lambda path: -strengths.get(path, 0.0))
    found = [*POSITIONAL, *CONTENT, *role_rules(paths, strengths), *mixtures(paths, strengths)]
    return sorted(found, key=lambda hypothesis: hypothesis.bits)


def even(mask: Bool[Tensor, "batch query key"], ground: Ground) -> Float[Tensor, "batch query key"]:
    """Even attention over a mask; in rows where the mask is empty, over all visible positions."""
    mask = mask & ground.sees
    mask = torch.where(mask.any(-1, keepdim=True), mask, ground.sees)
    return mask / mask.sum(-1, keepdim=True)


def itself(ground: Ground) -> Bool[Tensor, "query key"]:
    """The mask that leads from each position to itself, (query, key)."""
    return torch.eye(len(ground.sees), dtype=torch.bool, device=ground.sees.device)


def previous(ground: Ground) -> Float[Tensor, "batch query key"]:
    """Attend one position back."""
    return even(itself(ground).roll(-1, 1).tril().expand(len(ground.batch), -1, -1), ground)


def first_of_fact(ground: Ground) -> Float[Tensor, "batch query key"]:
    """Attend to the first token of the own fact: from `value[k]` and from `key[k]` to `key[k]` of the same chain."""
    total = ground.sees.new_zeros(len(ground.batch), *ground.sees.shape)
    for name in ground.roles.names:
        kind, _, number = name.partition("[")
        if kind in ("key", "value") and f"key[{number}" in ground.roles.names:
            total |= ground.roles.pairs(name, f"key[{number}", "same")
    return even(total, ground)


def symbols(batch: Batch) -> Tensor:
    """The symbol at each position, without the position code: token numbers, or symbol vectors."""
    task, inputs = batch.task, batch.inputs
    held = inputs[..., : task.d_symbol] if isinstance(task, VectorTask) else inputs
    return held.reshape(*inputs.shape[:2], -1)


def equal_symbols(batch: Batch) -> Bool[Tensor, "batch query key"]:
    """Which positions hold the same symbol."""
    held = symbols(batch)
    return (held[:, :, None] == held[:, None]).all(-1)


def same_symbol(ground: Ground) -> Float[Tensor, "batch query key"]:
    """Attend to other positions that hold the same symbol."""
    return even(equal_symbols(ground.batch) & ~itself(ground), ground)


def after_same_symbol(ground: Ground) -> Float[Tensor, "batch query key"]:
    """Attend to positions whose predecessor holds the same symbol as the attending position: an induction head."""
    before = equal_symbols(ground.batch).roll(1, 2)
    before[:, :, 0] = False
    return even(before & ~itself(ground), ground)


def nothing(kind: str, ground: Ground) -> Float[Tensor, "batch query key"]:
    return null(kind, ground.sees).expand(len(ground.batch), -1, -1)


#: Rules by position alone. The first two are also the nulls of idle heads, but a row that is needed may follow them.
POSITIONAL = [
    Hypothesis("uniform", 0.0, partial(nothing, "uniform")),
    Hypothesis("identity", 1.0, partial(nothing, "identity")),
    Hypothesis("previous position", 2.0, previous),
    Hypothesis("first of fact", 3.0, first_of_fact),
]
#: Rules by the symbols at positions.
CONTENT = [
    Hypothesis("same symbol", 4.0, same_symbol),
    Hypothesis("after the same symbol", 5.0, after_same_symbol),
]


def role_rules(paths: list[Path], strengths: Mapping[Path, float]) -> Iterator[Hypothesis]:
    """Attend to a role: the two strongest paths of the row, each named among all of them."""
    bits = 6 + math.log2(max(1, len(paths)))
    for path in paths[:2]:
        if strengths.get(path, 0.0) > 0:
            yield Hypothesis(role_name(path), bits, partial(mixture, {path: 1.0}))


def role_name(path: Path) -> str:
    return f"role → {path.key}" + (" of other chains" if path.chain == "other" else "")


def mixtures(paths: list[Path], strengths: Mapping[Path, float]) -> Iterator[Hypothesis]:
    """Attend to several roles with their measured shares of attention; the rest is spread evenly."""
    parts = [path for path in paths if strengths.get(path, 0.0) >= LEAST_SHARE]
    for size in range(2, len(parts) + 1):
        shares = {path: round(strengths[path] * 2**WEIGHT_BITS) / 2**WEIGHT_BITS for path in parts[:size]}
        bits = 7 + size * (math.log2(max(1, len(paths))) + WEIGHT_BITS)
        name = "mixture: " + ", ".join(f"{share:.2f} {role_name(p)[7:]}" for p, share in shares.items())
        yield Hypothesis(name, bits, partial(mixture, shares))


def mixture(shares: Mapping[Path, float], ground: Ground) -> Float[Tensor, "batch query key"]:
    total = torch.zeros(len(ground.batch), *ground.sees.shape)
    for path, share in shares.items():
        rows, _ = ideal(path, ground.roles, ground.sees, ground.batch.task.ideal_over)
        total += share * rows
    total = total / total.sum(-1, keepdim=True).clamp(min=1.0)
    return total + (1 - total.sum(-1, keepdim=True)) * null("uniform", ground.sees)
