"""The result of a search, `Circuit`, and its file, `circuit.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path as Files
from typing import Any, Literal

from hopscope.circuits.certificates import Supply
from hopscope.circuits.exam import names
from hopscope.circuits.families import Family
from hopscope.circuits.losses import Judged, Loss, rounded
from hopscope.circuits.takeovers import Takeover
from hopscope.circuits.units import Row, Unit
from hopscope.core.storage import to_json, write_listed
from hopscope.problem.paths import Path

#: The version of the search. Raise it whenever a search may find another circuit than before. Circuits that were kept
#: under another version are searched for again.
VERSION = 23


@dataclass(frozen=True)
class Found:
    """A path of a circuit.

    Attributes:
        path: layer, head and roles.
        strength: mean attention on it in the full model, 0–1.
        hypothesis: the simplest rule that can replace its row (docs/circuits.md, stage 5).
        bits: that rule's description length; None if no rule fits.
        removal_loss: live loss of the circuit without this path: the other paths as computed, all else null.
        silenced_loss: loss of the full model when this path alone is null.
        removals: losses of the circuit without it, by test (`Circuit.losses`). `live` is removal_loss. They are
            measured on 64 of the report's sequences, or on all if they are near the threshold.
        use: how far the model's outputs move when this path alone is null; 1 is as far as with every head null.
        removal_accuracies: shares of right answers of the circuit without it, by test, measured like `removals`.
        is_asleep: whether the full model does not use it (`hopscope.circuits.use`).
    """

    path: Path
    strength: float
    hypothesis: str
    bits: float | None
    removal_loss: float
    silenced_loss: float
    removals: dict[str, float] = field(default_factory=dict)
    use: float = 1.0
    removal_accuracies: dict[str, float] = field(default_factory=dict)
    is_asleep: bool = False

    def is_needed(self, loss: float, accuracy: float) -> bool:
        """Whether the circuit without it fails a test, which asks for a loss below `loss` and at least `accuracy`."""
        return self.worst_removal >= loss or min(self.removal_accuracies.values(), default=1.0) < accuracy

    @property
    def worst_removal(self) -> float:
        """The greatest loss of the circuit without it, over the tests."""
        return max([self.removal_loss, *self.removals.values()])

    def as_dict(self) -> dict[str, Any]:
        """As in circuit.json."""
        return {
            **self.path.as_dict(),
            "strength": round(self.strength, 6),
            "removal_loss": rounded(self.removal_loss),
            "silenced_loss": rounded(self.silenced_loss),
            "removals": {test: rounded(loss) for test, loss in self.removals.items()},
            "removal_accuracies": {test: round(share, 6) for test, share in self.removal_accuracies.items()},
            "use": round(self.use, 6),
            "asleep": self.is_asleep,
            "hypothesis": self.hypothesis,
            "bits": None if self.bits is None else round(self.bits, 2),
        }


#: What does not suffice: any set of fewer units (cardinal); any proper subset (subset); the circuit without any one
#: unit (local); or without some units, while other removals are undecided (quasi).
Minimality = Literal["cardinal", "subset", "local", "quasi"]


@dataclass(frozen=True)
class Completeness:
    """What is claimed about circuits that are not listed.

    Attributes:
        claim: `proven`, there are none of up to `size` units; `searched`, none were found; or `not claimed`.
        how: how the search was made, or why nothing is claimed.
        size: for a proof, the number of units of the smallest circuit: all sets of up to so many were tried.
    """

    claim: Literal["proven", "searched", "not claimed"]
    how: str = ""
    size: int | None = None


LOG = "hypotheses.jsonl"
#: The claim if no circuit was accepted.
UNCLAIMED = Completeness("not claimed", "no circuit was accepted")


@dataclass(frozen=True)
class Alternative:
    """A minimal circuit that passed every test.

    Attributes:
        paths: sorted.
        rows: the rows that it needs whole, sorted.
        losses: on the report's sequences, by test: `circuit` (by hand), `live`, `rows` and `average`.
    """

    paths: tuple[Path, ...]
    rows: tuple[Row, ...] = ()
    losses: dict[str, Loss] = field(default_factory=dict)

    @property
    def units(self) -> frozenset[Unit]:
        return frozenset[Unit](self.paths) | frozenset(self.rows)


@dataclass(frozen=True)
class Circuit(Judged):
    """The result of a search.

    Attributes:
        paths: of the chosen circuit.
        rows: rows that it needs whole, if any: those of positions without a role, and those of which no path has enough
            attention to stand for them (`hopscope.circuits.exam.MOST`).
        losses: on the report's sequences: `model`, the full model; `circuit`, every pattern by hand; `live`, the
            circuit as computed and all else null; `rows`, the same with its rows whole; `average`, the circuit as
            computed and all other heads mean-ablated, where the model allows it; `null`, every head null.
        listed: all minimal circuits found, the chosen one first. Each passed the same tests, and none contains another.
        completeness: what is claimed about circuits that are not listed.
        protocol: data sizes, seeds, null, numbers of forward passes: all that the numbers depend on.
        supplies: for each path the earlier ones that feed its query, key and value.
        takeovers: for paths that the model can spare, the paths that take over.
        family: the family of the circuit, where there are too many to list.
        spared: paths without whose rows the full model's loss stays below the threshold.
        spare: with the verdict `none`, the number of paths that were tried and are not in `paths`, because no loss is
            higher without them.
        missed: rows outside it whose mean ablation makes it fail, if it fails only for that reason.
        intact: rows outside it that the null leaves unchanged, though the model needs them.
        minimality: of an accepted circuit, its level, tested on samples (`hopscope.circuits.completeness.minimality`).
        log: every hypothesis tried.
    """

    paths: tuple[Found, ...]
    rows: tuple[Row, ...]
    protocol: dict[str, Any]
    listed: tuple[Alternative, ...] = ()
    completeness: Completeness = UNCLAIMED
    supplies: tuple[Supply, ...] = ()
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
        """Its paths that the full model does not use."""
        return [found.path for found in self.paths if found.is_asleep]

    @property
    def unit(self) -> float:
        """The scale of losses: the absolute loss with every head null, at most 1."""
        return min(1.0, abs(self.losses["null"].mean)) if "null" in self.losses else 1.0

    @property
    def alternatives(self) -> tuple[frozenset[Path], ...]:
        """The paths of each circuit that is listed."""
        return tuple(frozenset(one.paths) for one in self.listed)

    @property
    def backbone(self) -> list[Path]:
        """Paths that every listed circuit has."""
        return sorted(frozenset.intersection(*self.alternatives)) if self.listed else []

    @property
    def interchangeable(self) -> list[Path]:
        """Paths that some listed circuits have and others do not."""
        return sorted(frozenset[Path]().union(*self.alternatives) - {*self.backbone})

    def as_dict(self) -> dict[str, Any]:
        """The content of circuit.json (docs/contracts.md), without the log."""
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
                "completeness": asdict(self.completeness),
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
        """The contents of circuit.json, with `more` entries, and of the proof log, by file name."""
        log = "".join(json.dumps(line) + "\n" for line in self.log)
        return {"circuit.json": to_json(self.as_dict() | more), LOG: log.encode()}

    def save(self, folder: Files, **more: Any) -> list[Files]:
        """Write circuit.json, and the proof log as hypotheses.jsonl.

        Args:
            folder: the target folder; made if it does not exist.
            more: further entries of circuit.json.

        Raises:
            CannotSave: a file cannot be written.
            Damaged: the folder's manifest cannot be read.
        """
        return write_listed(folder, self.files(**more))


def as_dicts(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [path.as_dict() for path in paths]
