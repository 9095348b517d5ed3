"""Changes of attention: the interventions on patterns by which circuits are tested.

A change maps each layer's computed pattern, which already reflects changes in earlier layers, to a new one. The kinds:

- `Kept`: the named units stay as computed, all else is a null pattern. A head that finds its target through what
  another head copied loses the target when that head is silenced, so the kept units must suffice by themselves.
- `Hard`: every head's pattern is set by hand: ideal rows for some paths and a null pattern elsewhere. This is the joint
  replacement of the paper's appendix E.
- `Silenced`: the named units get a null pattern, all else is as computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.units import Ground, Row, Unit, given_in, in_layer, row_of
from hopscope.interventions.engine import Intervention
from hopscope.interventions.patterns import prescribed
from hopscope.problem.paths import Path

NULLS = ("uniform", "identity", "resample")

Pattern = Float[Tensor, "batch head query key"]
#: A pattern of one head, of which only the rows of one role are used; or a function that makes it for given sequences.
RowPattern = Float[Tensor, "batch query key"] | Callable[[Ground], Float[Tensor, "batch query key"]]


class Change(Intervention, ABC):
    """A change of attention patterns.

    A change may have a method `output(layer, actual, ground)`: the new outputs of the heads, (batch, position, head,
    d_head).
    """

    def blind(self, layer: int) -> bool:
        """Whether the layer's new pattern does not depend on the computed one, which then need not be computed."""
        return False

    @abstractmethod
    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        """The layer's new pattern, given the computed one."""


def patterns_of(changes: Sequence[Change], layer: int, actual: Pattern, ground: Ground) -> Pattern:
    """A layer's patterns after the changes; the batch holds a copy of the sequences for each change."""
    copies = actual.unflatten(0, (len(changes), -1))
    made = [change.pattern(layer, copies[i], ground) for i, change in enumerate(changes)]
    return made[0] if len(made) == 1 else torch.cat(made)


def outputs_of(changes: Sequence[Change], layer: int, actual: Tensor, ground: Ground) -> Tensor:
    """As `patterns_of`, for the outputs of a layer's heads, (copy·batch, position, head, d_head)."""
    copies = actual.unflatten(0, (len(changes), -1))
    each = [(getattr(change, "output", None), copies[i]) for i, change in enumerate(changes)]
    return torch.cat([one if output is None else output(layer, one, ground) for output, one in each])


def idle(kind: str, actual: Pattern, ground: Ground) -> Pattern:
    """The null patterns of a kind (even, identity, or the next sequence's patterns); a view, not to be modified."""
    return actual.roll(1, 0) if kind == "resample" else ground.null(kind).expand_as(actual)


def restricted(pattern: Pattern, units: Iterable[Unit], nothing: Pattern, ground: Ground) -> Pattern:
    """A layer's pattern with only some units' entries; the rest of each row's attention is spread as in a null pattern.

    A row without kept entries equals the null pattern's row; a row kept entirely equals the given one.
    """
    units = list(units)
    if not units:
        return nothing
    mask = mask_of(units, pattern, ground)
    if all(isinstance(unit, Row) for unit in units):
        return torch.where(mask, pattern, nothing)
    kept = pattern * mask
    elsewhere = nothing * ~mask
    lacking, filled = 1 - kept.sum(-1, keepdim=True), elsewhere.sum(-1, keepdim=True)
    shared = torch.where(filled > 0, elsewhere * (lacking / filled.clamp(min=1e-30)), 0.0)
    return torch.where(mask.any(-1, keepdim=True), kept + shared, nothing)


def mask_of(units: Iterable[Unit], pattern: Pattern, ground: Ground) -> Bool[Tensor, "batch head query key"]:
    """The entries of a layer's pattern that belong to some units."""
    mask = torch.zeros(pattern.shape, dtype=torch.bool, device=pattern.device)
    for unit in units:
        mask[:, unit.head] |= ground.entries(unit)
    return mask


@dataclass(frozen=True)
class Kept(Change):
    """Units stay as computed; the rest of their rows' attention, and all other rows, follow the null pattern.

    The attention that a row loses falls on its entries that are not kept. So this change suits sets of few paths: if
    all paths of a row but one are kept, the lost attention falls on that one again. To remove single paths from the
    whole model, use `Silenced`.

    Attributes:
        units: the units that are kept.
        null: the null pattern of everything else, except for the rows in `identity`.
        identity: rows whose null is that each position attends to itself.
        rows: patterns for whole rows; they take precedence over units.
    """

    units: frozenset[Unit]
    null: str = "uniform"
    identity: frozenset[Row] = frozenset()
    rows: Mapping[Row, RowPattern] = field(default_factory=dict)

    def key(self, layer: int) -> Hashable:
        here = in_layer(layer, self.units), in_layer(layer, self.identity), given_in(layer, self.rows)
        return (type(self), self.null, *here) if any(here) else ("idle", self.null)

    def blind(self, layer: int) -> bool:
        return self.null != "resample" and not in_layer(layer, self.units)

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        nothing = nulls(self.null, self.identity, layer, actual, ground)
        here = [unit for unit in self.units if unit.layer == layer]
        return with_rows(restricted(actual, here, nothing, ground), self.rows, layer, ground)


@dataclass(frozen=True)
class Silenced(Change):
    """Some units get a null pattern, all else stays as computed: what removing the units from the full model costs."""

    units: frozenset[Unit]
    null: str = "uniform"

    def key(self, layer: int) -> Hashable:
        here = in_layer(layer, self.units)
        return (type(self), self.null, here) if here else None

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        here = [unit for unit in self.units if unit.layer == layer]
        if not here:
            return actual
        mask = mask_of(here, actual, ground)
        taken = (actual * mask).sum(-1, keepdim=True)
        nothing = idle(self.null, actual, ground)
        whole = mask.sum(-1, keepdim=True) == ground.sees.sum(-1)[:, None]
        elsewhere = torch.where(whole, nothing, nothing * ~mask)
        return actual * ~mask + elsewhere / elsewhere.sum(-1, keepdim=True).clamp(min=1e-30) * taken


@dataclass(frozen=True)
class Hard(Change):
    """Every pattern is set by hand: given rows, ideal rows for paths, and the null pattern everywhere else.

    Attributes:
        paths: paths whose rows are ideal, each with its weight in its row
            (`hopscope.interventions.patterns.prescribed`).
        where: the weights at positions where only some of a row's paths have a target, keyed by these paths: a head may
            attend to one role where that role exists, and to another role otherwise.
        null: the null pattern of all other rows, except for those in `identity`.
        identity: rows whose null is that each position attends to itself.
        rows: patterns for whole rows; they take precedence over those of paths.
    """

    paths: Mapping[Path, float] = field(default_factory=dict)
    null: str = "uniform"
    rows: Mapping[Row, RowPattern] = field(default_factory=dict)
    identity: frozenset[Row] = frozenset()
    where: Mapping[frozenset[Path], Mapping[Path, float]] = field(default_factory=dict)

    def key(self, layer: int) -> Hashable:
        weights = frozenset(item for item in self.paths.items() if item[0].layer == layer)
        here = weights, in_layer(layer, self.identity), given_in(layer, self.rows), in_layer(layer, chain(*self.where))
        return (type(self), self.null, *here) if any(here) else ("idle", self.null)

    def blind(self, layer: int) -> bool:
        return self.null != "resample"

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        nothing = nulls(self.null, self.identity, layer, actual, ground)
        over = ground.batch.task.ideal_over
        here = {path: weight for path, weight in self.paths.items() if path.layer == layer}
        result = prescribed(nothing, self.weights(here, ground), ground.roles, ground.sees, over)
        return with_rows(result, self.rows, layer, ground)

    def weights(self, here: Mapping[Path, float], ground: Ground) -> Mapping[Path, float | Tensor]:
        """Weights of a layer's paths; (batch, query) for a path whose weight depends on which paths have a target."""
        found: dict[Path, float | Tensor] = dict(here)
        for some, shares in self.where.items():
            row = [path for path in here if row_of(path) in {*map(row_of, some)}]
            if row:
                at = ground.targeted(row, some)
                found |= {path: torch.where(at, shares.get(path, 0.0), torch.as_tensor(found[path])) for path in row}
        return found


def nulls(kind: str, identity: frozenset[Row], layer: int, actual: Pattern, ground: Ground) -> Pattern:
    """A layer's null patterns, with identity for some rows; may be a view, not to be modified."""
    nothing = idle(kind, actual, ground)
    own = ground.null("identity").expand_as(nothing[:, 0])
    return with_rows(nothing, dict.fromkeys(identity, own), layer, ground)


def with_rows(pattern: Pattern, rows: Mapping[Row, RowPattern], layer: int, ground: Ground) -> Pattern:
    """A layer's pattern with the given rows put in."""
    here = {row: given for row, given in rows.items() if row.layer == layer}
    pattern = pattern.clone() if here else pattern
    for row, given in here.items():
        at = ground.holders(row.query)[..., None]
        made = given(ground) if callable(given) else given
        pattern[:, row.head] = torch.where(at, made, pattern[:, row.head])
    return pattern


@dataclass(frozen=True)
class AsIs(Silenced):
    """No change: nothing is silenced."""

    units: frozenset[Unit] = frozenset()


def separable(change: Change) -> bool:
    """Whether what a change does to a sequence is independent of the rest of the batch, so that parts can be run."""
    given = getattr(change, "rows", None)  # patterns for all sequences, in their order
    return isinstance(change, Kept | Silenced | Hard) and change.null != "resample" and not given
