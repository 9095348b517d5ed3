"""A circuit as it is found, told and stored: `circuit.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path as Files
from typing import Any, Literal

from hopscope.circuits.certificates import Supply
from hopscope.circuits.exam import names
from hopscope.circuits.families import Family
from hopscope.circuits.losses import Judged, Loss, Share, rounded
from hopscope.circuits.takeovers import Takeover
from hopscope.circuits.units import Row, Unit
from hopscope.circuits.use import sleeps
from hopscope.core.storage import to_json, write_listed
from hopscope.problem.paths import Path


@dataclass(frozen=True)
class Found:
    """A path of a circuit.

    Attributes:
        path: which.
        strength: mean attention on it in the model as it is, 0–1.
        hypothesis: the rule by which its row was replaced.
        bits: that rule's description length; None where no rule fits.
        removal_loss: loss of the circuit without it, heads live: all that is not in the circuit is null.
        silenced_loss: loss of the whole model when this path alone is null.
        removals: losses of the circuit without it, by test (`Circuit.losses`): `live` is removal_loss, the others
            are of few sequences.
        use: how far the model's outputs move when this path alone is null; 1: as far as with every head idle.
    """

    path: Path
    strength: float
    hypothesis: str
    bits: float | None
    removal_loss: float
    silenced_loss: float
    removals: dict[str, float] = field(default_factory=dict)
    use: float = 1.0

    @property
    def is_asleep(self) -> bool:
        """Whether the model as it is does not use it."""
        return sleeps(self.strength, self.use)

    def as_dict(self) -> dict[str, Any]:
        """As in circuit.json."""
        return {
            **self.path.as_dict(),
            "strength": round(self.strength, 6),
            "removal_loss": rounded(self.removal_loss),
            "silenced_loss": rounded(self.silenced_loss),
            "removals": {test: rounded(loss) for test, loss in self.removals.items()},
            "use": round(self.use, 6),
            "hypothesis": self.hypothesis,
            "bits": None if self.bits is None else round(self.bits, 2),
        }


#: Of a circuit: no set of fewer units suffices; no proper subset; not without any one unit; not without some unit.
Minimality = Literal["cardinal", "subset", "local", "quasi"]


@dataclass(frozen=True)
class Completeness:
    """What is claimed of circuits that are not listed.

    Attributes:
        claim: `proven`, there are none of up to `size` units; `searched`, none were found; or `not claimed`.
        how: it was searched, or why nothing is claimed.
        size: units of the smallest circuit, up to which all sets were tried, for a proof.
    """

    claim: Literal["proven", "searched", "not claimed"]
    how: str = ""
    size: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


LOG = "hypotheses.jsonl"
#: Where no circuit was accepted.
UNCLAIMED = Completeness("not claimed", "no circuit was accepted")


@dataclass(frozen=True)
class Alternative:
    """A minimal circuit that passed its trial.

    Attributes:
        paths: of it, in order.
        rows: that it needs whole, in order.
        losses: on report data: `circuit`, all by hand, `live`, `rows` and `average`.
    """

    paths: tuple[Path, ...]
    rows: tuple[Row, ...] = ()
    losses: dict[str, Loss] = field(default_factory=dict)

    @property
    def units(self) -> frozenset[Unit]:
        return frozenset[Unit](self.paths) | frozenset(self.rows)


@dataclass(frozen=True)
class Circuit(Judged):
    """What discovery found.

    Attributes:
        paths: of the chosen circuit.
        rows: rows that it needs whole, if any: of positions without a role, or where no path has most of the attention.
        losses: on report data: `model` as it is; `circuit`, all patterns by hand; `live`, the circuit as computed
            and all else null; `rows`, the same with its rows whole; `average`, the circuit as computed and all other
            heads at their average, where the model allows it; `null`, everything null.
        hop_losses: partial losses, of the same.
        verdict: `circuit`, `partial` or `none` (`hopscope.circuits.verdict`).
        reason: in words, why, and what to try.
        threshold: the loss below which a circuit is accepted.
        listed: all minimal circuits found, the chosen one first; each passed the same tests, none holds another.
        completeness: what is claimed of others.
        protocol: data sizes, seeds, null, numbers of forwards: all that the numbers depend on.
        supplies: for each path the earlier ones that feed its query, key and value.
        accuracies: of the same: the share of right answers.
        takeovers: what does a path's work when that is silenced.
        family: of which it is one, where there are too many circuits to list.
        spared: paths without whose rows the model does as well.
        spare: of a circuit with the verdict `none`, number of further paths without which the loss is the same.
        missed: rows beside it that are missed at their average, if it is refused for that.
        intact: rows beside it that the null leaves as they are, though the model needs them.
        minimality: of an accepted circuit, what was tried on samples (`hopscope.circuits.completeness.minimality`).
        log: every hypothesis tried.
    """

    paths: tuple[Found, ...]
    rows: tuple[Row, ...]
    losses: dict[str, Loss]
    hop_losses: dict[str, dict[str, float]]
    verdict: str
    reason: str
    threshold: float
    protocol: dict[str, Any]
    listed: tuple[Alternative, ...] = ()
    completeness: Completeness = UNCLAIMED
    supplies: tuple[Supply, ...] = ()
    accuracies: dict[str, Share] = field(default_factory=dict)
    takeovers: tuple[Takeover, ...] = ()
    family: Family | None = None
    spared: tuple[Path, ...] = ()
    spare: int = 0
    missed: tuple[str, ...] = ()
    intact: tuple[str, ...] = ()
    minimality: Minimality | None = None
    log: list[dict[str, Any]] = field(repr=False, default_factory=list)

    @property
    def units(self) -> frozenset[Unit]:
        """Its paths, and the rows that it needs whole."""
        return frozenset[Unit](found.path for found in self.paths) | frozenset(self.rows)

    @property
    def asleep(self) -> list[Path]:
        """Its paths that the model as it is does not use."""
        return [found.path for found in self.paths if found.is_asleep]

    @property
    def unit(self) -> float:
        """What losses are small beside: that with every head idle, where it is below 1."""
        return min(1.0, abs(self.losses["null"].mean)) if "null" in self.losses else 1.0

    @property
    def alternatives(self) -> tuple[frozenset[Path], ...]:
        """The paths of each circuit that is listed."""
        return tuple(frozenset(one.paths) for one in self.listed)

    @property
    def backbone(self) -> list[Path]:
        """Paths that every circuit found has."""
        return sorted(frozenset.intersection(*self.alternatives)) if self.listed else []

    @property
    def interchangeable(self) -> list[Path]:
        """Paths that some circuits found have, and others do without."""
        return sorted(frozenset[Path]().union(*self.alternatives) - {*self.backbone})

    @property
    def interchangeable_rows(self) -> list[Row]:
        """Whole rows that some circuits found have, and others do without."""
        every = {row for one in self.listed for row in one.rows}
        return sorted(row for row in every if any(row not in one.rows for one in self.listed))

    def as_dict(self) -> dict[str, Any]:
        """As in circuit.json (docs/contracts.md), without the log."""
        return {
            "paths": [found.as_dict() for found in self.paths],
            "unnamed_rows": [str(row) for row in self.rows],
            **self.judged(),
            "accuracy_interval": {n: [round(s.low, 6), round(s.high, 6)] for n, s in self.accuracies.items()},
            "minimality": self.minimality,
            "alternatives": {
                "circuits": [as_dicts(one.paths) for one in self.listed],
                "unnamed_rows": [names(one.rows) for one in self.listed],
                "loss": [{name: rounded(loss.mean) for name, loss in one.losses.items()} for one in self.listed],
                "completeness": self.completeness.as_dict(),
                "backbone": as_dicts(self.backbone),
                "interchangeable": as_dicts(self.interchangeable),
                "family": self.family and self.family.as_dict(),
            },
            "takeovers": [takeover.as_dict() for takeover in self.takeovers],
            "spared": as_dicts(self.spared),
            "spare": self.spare,
            "missed": list(self.missed),
            "intact": list(self.intact),
            "supplies": [supply.as_dict() for supply in self.supplies],
            "protocol": self.protocol,
        }

    def files(self, **more: Any) -> dict[str, bytes]:
        """By name circuit.json, with further entries, and the proof log."""
        log = "".join(json.dumps(line) + "\n" for line in self.log)
        return {"circuit.json": to_json(self.as_dict() | more), LOG: log.encode()}

    def save(self, folder: Files, **more: Any) -> list[Files]:
        """Write circuit.json, and the proof log as hypotheses.jsonl. Raises CannotSave, Damaged (the manifest).

        Args:
            folder: where to; made if it is not there.
            more: further entries of circuit.json.
        """
        return write_listed(folder, self.files(**more))


def as_dicts(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [path.as_dict() for path in paths]
