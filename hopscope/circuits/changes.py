"""What becomes of attention: the kinds of change that circuits are asked by.

A change says what each layer's pattern becomes, given what the heads computed from the stream as it then is. The kinds:

- `Kept`: the named units stay as computed, all else is a null pattern. So a head that found its target by what another
  copied does not find it any more when the other is silenced: what is kept must suffice by itself.
- `Hard`: every head's pattern is set by hand, to the ideal rows of some paths and a null pattern elsewhere; this is the
  joint replacement of the paper's appendix E.
- `Silenced`: the named units are null, all else is as computed.
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
#: Of one head; only the rows of one role are looked at. Or a rule that makes it of given sequences.
RowPattern = Float[Tensor, "batch query key"] | Callable[[Ground], Float[Tensor, "batch query key"]]


class Change(Intervention, ABC):
    """What becomes of attention.

    A change may have a method `output(layer, actual, ground)`: what becomes of what heads say, (batch, position, head,
    d_head).
    """

    def blind(self, layer: int) -> bool:
        """Whether the layer's pattern becomes the same whatever it was; it then need not be computed."""
        return False

    @abstractmethod
    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        """The layer's pattern, given the one that was computed."""


def patterns_of(changes: Sequence[Change], layer: int, actual: Pattern, ground: Ground) -> Pattern:
    """A layer's patterns of copies of the sequences, one after the other, each as its change leaves it."""
    copies = actual.unflatten(0, (len(changes), -1))
    made = [change.pattern(layer, copies[i], ground) for i, change in enumerate(changes)]
    return made[0] if len(made) == 1 else torch.cat(made)


def outputs_of(changes: Sequence[Change], layer: int, actual: Tensor, ground: Ground) -> Tensor:
    """The same of what a layer's heads say, (copy·batch, position, head, d_head)."""
    copies = actual.unflatten(0, (len(changes), -1))
    each = [(getattr(change, "output", None), copies[i]) for i, change in enumerate(changes)]
    return torch.cat([one if output is None else output(layer, one, ground) for output, one in each])


def idle(kind: str, actual: Pattern, ground: Ground) -> Pattern:
    """Patterns of heads that do nothing: even, on oneself, or those of the next sequence of the batch; to be read."""
    return actual.roll(1, 0) if kind == "resample" else ground.null(kind).expand_as(actual)


def restricted(pattern: Pattern, units: Iterable[Unit], nothing: Pattern, ground: Ground) -> Pattern:
    """A layer's pattern on some units' entries; the rest of each row's attention falls where a null pattern has it.

    A row of which nothing is kept is the null pattern; of which all is kept, the given one.
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
    """The entries of a layer's pattern that some units are."""
    mask = torch.zeros(pattern.shape, dtype=torch.bool, device=pattern.device)
    for unit in units:
        mask[:, unit.head] |= ground.entries(unit)
    return mask


@dataclass(frozen=True)
class Kept(Change):
    """Units stay as computed; the rest of their rows' attention, and all other rows, are null.

    What a row lacks falls on its entries that are not kept. So it is for sets that name few paths: where all paths of a
    row but one are kept, that one gets its attention back; to take single paths out of the whole model use `Silenced`.

    Attributes:
        units: what is kept.
        null: of all else, but for the rows that are
        identity: of these it is oneself.
        rows: patterns for whole rows, which go before units.
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
    """Some units become null, all else stays as computed: what removing them from the model as it is costs."""

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
    """Every pattern by hand: rows that are given, ideal rows of paths, and null everywhere else.

    Attributes:
        paths: whose rows are ideal, each with its weight in its row (`hopscope.interventions.patterns.prescribed`).
        where: weights of a row's paths where just some of these have a target, by which: a head may look for one role
            where that is, and else for another.
        null: of all other rows, but for those that are
        identity: of these it is oneself.
        rows: patterns for whole rows, which go before those of paths.
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
        """Of some paths of a layer; position by position, (batch, query), where they depend on what has a target."""
        found: dict[Path, float | Tensor] = dict(here)
        for some, shares in self.where.items():
            row = [path for path in here if row_of(path) in {*map(row_of, some)}]
            if row:
                at = ground.targeted(row, some)
                found |= {path: torch.where(at, shares.get(path, 0.0), torch.as_tensor(found[path])) for path in row}
        return found


def nulls(kind: str, identity: frozenset[Row], layer: int, actual: Pattern, ground: Ground) -> Pattern:
    """A layer's null patterns, where some rows have another than the rest; to be read."""
    nothing = idle(kind, actual, ground)
    own = ground.null("identity").expand_as(nothing[:, 0])
    return with_rows(nothing, dict.fromkeys(identity, own), layer, ground)


def with_rows(pattern: Pattern, rows: Mapping[Row, RowPattern], layer: int, ground: Ground) -> Pattern:
    """A layer's pattern with some rows as given."""
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
    """Whether a change does the same to every sequence, whatever others there are, so that they can be run in parts."""
    given = getattr(change, "rows", None)  # for these sequences, in this order
    return isinstance(change, Kept | Silenced | Hard) and change.null != "resample" and not given
