"""Clamps: during training, paths held at their ideal pattern or removed, from some step on.

Clamping answers what observation cannot: whether other paths would form sooner, or at all, if this one existed already
or never formed (after Singh et al., ICML 2024, arXiv:2404.07129, in our unit, the path). A clamp changes a
pattern between softmax and values; gradients flow through everything else. Singh et al.'s own units, heads and layers,
can be clamped too (`hopscope.interventions.parts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.interventions.parts import (
    PARTS,
    Part,
    PartKind,
    check_part,
    copied,
    perfect,
    preserved,
    previous,
    silenced,
)
from hopscope.interventions.patterns import null, prescribed, visible
from hopscope.models.base import Model, Replacements, Shape
from hopscope.problem.paths import Path, Relation
from hopscope.problem.roles import Roles
from hopscope.tasks.base import Batch, Task

PathKind = Literal["ideal", "off"]
Kind = PathKind | PartKind
KINDS: tuple[PathKind, ...] = ("ideal", "off")
EXAMPLE = "L1H0 value[1]->key[1] ideal@200"

#: A row with less attention than this after removal is not rescaled (our choice).
LEFT = 1e-6
DRAWS = 64  # sequences in which a path must occur at least once to be clamped


@dataclass(frozen=True)
class Clamp:
    """An intervention on a path, a head or a layer, from one step of training until another.

    Attributes:
        path: the path; or the head or layer, for the kinds of `hopscope.interventions.parts`.
        kind: `ideal`: every row of the query role that has a target is the path's ideal row. `off`: the path's entries
            are 0, and the rest of each such row is rescaled to sum to 1. For a head, `previous`: it attends to the
            previous token; `copied`: the model answers with the head's attention. For a head or layer, `silent`: it
            writes nothing; `preserved`: it writes nothing, but all patterns stay as they are with it. For a layer,
            `perfect`: it writes exactly what an induction head needs.
        step: the number of updates after which it begins; 0 is from the start.
        until: the number of updates after which it ends; None: never.
    """

    path: Path | Part
    kind: Kind
    step: int
    until: int | None = None

    def __str__(self) -> str:
        return f"{self.path} {self.kind}@{self.step}" + ("" if self.until is None else f"-{self.until}")

    @classmethod
    def parse(cls, text: str) -> Clamp:
        """The clamp written `L1H0 value[1]->key[1] ideal@200`. Raises BadInput."""
        match = re.fullmatch(r"(.*\S)\s+(\S+)@(\S*)", text.strip())
        if not match:
            raise BadInput(f"a clamp must be written such as '{EXAMPLE}'; got {text!r}")
        written, kind, step = match.groups()
        part = Part.parse(written)
        fitting: list[Kind] = [name for name, of in PARTS.items() if part is not None and part.word in of]
        allowed = {name: name for name in (fitting if part else KINDS)}
        if kind not in allowed:
            of = f" of a {part.word}" if part else ""
            example = f"{part} {fitting[0]}@200" if part else EXAMPLE
            raise BadInput(f"a clamp{of} must be {' or '.join(allowed)}, such as '{example}'; got {kind!r} in {text!r}")
        steps = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", step)
        if not steps:
            raise BadInput(
                f"a clamp's step, behind @, must be a whole number of at least 0, or two such as 0-200; "
                f"got {step!r} in {text!r}"
            )
        begin, end = int(steps[1]), None if steps[2] is None else int(steps[2])
        if end is not None and end <= begin:
            raise BadInput(f"a clamp must end after it begins; got {step!r} in {text!r}")
        return cls(Path.parse(written) if part is None else part, allowed[kind], begin, end)


def parse_clamps(text: str) -> tuple[Clamp, ...]:
    """Clamps separated by semicolons, ordered by step.

    Raises BadInput, also for two clamps of one path and step, and for two `copied` ones at the same time.
    """
    clamps = [Clamp.parse(part) for part in text.split(";") if part.strip()]
    clamps.sort(key=lambda clamp: (clamp.step, isinstance(clamp.path, Part), clamp.path))
    for one, other in pairwise(clamps):
        if (one.path, one.step) == (other.path, other.step):
            raise BadInput(f"a path can be clamped once per step; got '{one}' and '{other}'")
    for one, other in pairwise(clamp for clamp in clamps if clamp.kind == "copied"):
        if one.path != other.path and (one.until is None or other.step < one.until):
            raise BadInput(f"answers can be copied from one head at a time; got '{one}' and '{other}'")
    return tuple(clamps)


def in_force(clamps: Iterable[Clamp], step: int) -> tuple[Clamp, ...]:
    """The clamps in force after `step` updates. Of two clamps of one path, the later replaces the earlier for good."""
    newest = {clamp.path: clamp for clamp in sorted(clamps, key=lambda clamp: clamp.step) if clamp.step <= step}
    return tuple(clamp for clamp in newest.values() if clamp.until is None or step < clamp.until)


def check_clamps(clamps: Iterable[Clamp], task: Task, architecture: Shape) -> None:
    """Raise BadInput for a clamp whose head or role does not exist, or whose path occurs in no sequence of the task."""
    for clamp in clamps:
        path = clamp.path
        architecture.check_head(path.layer, path.head, f"clamp '{clamp}'")
        if isinstance(path, Part):
            check_part(path, clamp.kind, task, architecture)
            continue
        try:
            seen = occurs(task, path.query, path.key, path.chain, architecture.causal)
        except BadInput as error:
            raise BadInput(f"clamp '{clamp}': {error}") from None
        if not seen:
            raise BadInput(f"clamp '{clamp}': no {path.query} sees a {path.key} of {path.chain} chain in this task")


@lru_cache(maxsize=1024)  # an experiment checks each of its configurations
def occurs(task: Task, query: str, key: str, chain: Relation, causal: bool) -> bool:
    """Whether in `DRAWS` sequences a query position sees such a key position. Raises BadInput for unknown roles."""
    sees = visible(task.n_positions, causal)
    return any(bool((task.sample(1, n).roles.pairs(query, key, chain) & sees).any()) for n in range(DRAWS))


@dataclass(frozen=True)
class Clamped:
    """One layer's pattern under clamps, as a function of the actual pattern.

    It holds only tensors, made before the forward pass, so that a compiled block is not recompiled for every batch.

    Attributes:
        ideal: the prescribed rows, 0 elsewhere; None if no path is held ideal.
        off: the entries to remove; None if there are none.
        otherwise: what replaces a row that has no other entries: the null pattern without the removed entries,
            rescaled to sum to 1; if that has none either, zeros, so that the head writes nothing there.
        normalised: whether rows sum to 1. If not, entries are removed without rescaling.
    """

    ideal: Float[Tensor, "batch head query key"] | None
    off: Bool[Tensor, "batch head query key"] | None
    otherwise: Float[Tensor, "batch head query key"] | None
    normalised: bool

    def __call__(self, actual: Tensor) -> Tensor:
        """The clamped pattern; rows without a clamp are bit-identical to the actual ones."""
        pattern = actual
        if self.ideal is not None:
            pattern = torch.where(self.ideal.any(-1, keepdim=True), self.ideal.to(actual.dtype), pattern)
        if self.off is None:
            return pattern
        kept = pattern.masked_fill(self.off, 0.0)
        if self.otherwise is None or not self.normalised:
            return kept
        left = kept.sum(-1, keepdim=True)
        scaled = torch.where(left > LEFT, kept / left.clamp(min=LEFT), self.otherwise.to(actual.dtype))
        return torch.where(self.off.any(-1, keepdim=True), scaled, pattern)


def clamped(
    clamps: Sequence[Clamp],
    roles: Roles,
    sees: Bool[Tensor, "query key"],
    n_heads: int,
    *,
    null_pattern: str = "uniform",
    ideal_over: str = "even",
    normalised: bool = True,
) -> Clamped:
    """One layer's pattern as its clamps change it.

    Where a head has paths of both kinds, ideal rows are written first, then entries are removed.

    Args:
        clamps: clamps of that layer, all of whose roles occur in these sequences.
        roles: the roles of the sequences.
        sees: what the mask allows.
        n_heads: the number of heads of the layer.
        null_pattern: the task's, one of `hopscope.interventions.patterns.NULLS`.
        ideal_over: the task's: where several positions hold a key role, `even` or `latest`.
        normalised: whether the pattern's rows sum to 1, as those of softmax do and those of linear attention do not.
    """
    shape = (len(roles.chain), n_heads, *sees.shape)
    held = paths(clamps, "ideal")
    removed = paths(clamps, "off")
    backward = [clamp.path for clamp in clamps if clamp.kind == "previous"]
    ideal = off = otherwise = None
    if held or backward:
        rows = torch.zeros(shape, device=sees.device)
        for head in backward:
            rows[:, head.head] = previous(sees)
        ideal = prescribed(rows, held, roles, sees, ideal_over)
    if removed:
        off = torch.zeros(shape, dtype=torch.bool, device=sees.device)
        for path in removed:
            off[:, path.head] |= roles.pairs(path.query, path.key, path.chain) & sees
        rest = null(null_pattern, sees).masked_fill(off, 0.0)
        otherwise = rest / rest.sum(-1, keepdim=True).clamp(min=LEFT)
    return Clamped(ideal, off, otherwise, normalised)


def paths(clamps: Iterable[Clamp], kind: PathKind) -> list[Path]:
    """The paths with clamps of this kind."""
    return [clamp.path for clamp in clamps if clamp.kind == kind and isinstance(clamp.path, Path)]


def parts(clamps: Iterable[Clamp], kind: PartKind) -> list[Part]:
    """The heads and layers with clamps of this kind."""
    return [clamp.path for clamp in clamps if clamp.kind == kind and isinstance(clamp.path, Part)]


def replacements(clamps: Iterable[Clamp], batch: Batch, architecture: Shape) -> Replacements:
    """The `replace` argument of a forward pass on this batch under these clamps; the clamps' steps are ignored.

    Clamps that need more than one pass (`held`, `answers`) are left out. A clamp whose roles the batch lacks, because a
    curriculum asked for fewer hops, has no effect there.

    >>> model(batch.inputs, replace=replacements(clamps, batch, model.architecture))  # doctest: +SKIP
    """
    chosen = list(clamps)
    if not chosen:
        return {}
    roles, task = batch.roles, batch.task
    quiet = silenced(parts(chosen, "silent"))
    chosen = [c for c in chosen if c.kind == "previous" or there_are(c.path, roles)]
    sees = visible(roles.chain.shape[-1], architecture.causal, roles.chain.device)
    patterns = {
        f"blocks.{layer}.attn.hook_pattern": clamped(
            [clamp for clamp in chosen if clamp.path.layer == layer],
            roles,
            sees,
            architecture.n_heads,
            null_pattern=architecture.null_pattern(task),
            ideal_over=task.ideal_over,
            normalised=architecture.normalised,
        )
        for layer in sorted({clamp.path.layer for clamp in chosen})
    }
    return {**quiet, **patterns}


def there_are(path: Path | Part, roles: Roles) -> bool:
    """Whether this is a path whose roles occur."""
    return isinstance(path, Path) and {path.query, path.key} <= {*roles.names, *roles.attended}


def held(clamps: Iterable[Clamp], model: Model, batch: Batch) -> Replacements:
    """As `replacements`, with `perfect` and `preserved` clamps, which take further forward passes."""
    chosen = list(clamps)
    replace = replacements(chosen, batch, model.architecture)
    for part in sorted(parts(chosen, "perfect")):  # in whatever order they began
        replace = perfect(model, batch, part.layer, replace)
    unheard = parts(chosen, "preserved")
    return preserved(model, batch, [*parts(chosen, "silent"), *unheard], replace) if unheard else replace


def answers(clamps: Iterable[Clamp], model: Model, batch: Batch) -> Tensor:
    """The model's outputs on this batch under the clamps, `copied` included: (batch, query, output)."""
    chosen = list(clamps)
    replace = held(chosen, model, batch)
    for part in parts(chosen, "copied"):
        return copied(model, batch, part, replace)
    return model(batch.inputs, at=batch.task.query_positions, replace=replace)
