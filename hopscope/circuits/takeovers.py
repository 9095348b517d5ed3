"""Who takes over when a path is silenced: doubles, which are always at work, and backups, which wake up only then.

That silencing a path costs nothing does not say that it does nothing (self-repair: McGrath et al., 2023; backup name
movers: Wang et al., 2022). So each such path is silenced together with those of the other circuits: where two cost what
neither does alone, the other one took over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hopscope.circuits.case import Case, Units
from hopscope.circuits.units import row_of
from hopscope.problem.paths import Path

WAKES = 0.1  # rise of attention by which a backup is told from a double (ours)


@dataclass(frozen=True)
class Takeover:
    """One unit does another's work when that is silenced.

    Attributes:
        silenced: the path of the circuit.
        by: which path takes over.
        kind: `backup` if it attends otherwise than it does when all is well, else `double`.
        before: its attention as it is, 0–1.
        after: its attention while the other is silenced.
    """

    silenced: Path
    by: Path
    kind: Literal["backup", "double"]
    before: float
    after: float

    def __str__(self) -> str:
        by, path = (f"L{unit.layer}H{unit.head}" for unit in (self.by, self.silenced))
        return f"{by} takes over when {path} is silenced"

    def as_dict(self) -> dict[str, Any]:
        """As in circuit.json."""
        numbers = {"before": round(self.before, 6), "after": round(self.after, 6)}
        return {
            "silenced": self.silenced.as_dict(),
            "by": self.by.as_dict(),
            "kind": self.kind,
            **numbers,
            "words": str(self),
        }


def spared_paths(case: Case, paths: Iterable[Path]) -> list[Path]:
    """The paths without whose rows the model does as well."""
    paths = sorted(paths)
    losses = case.data.losses([case.silenced([row_of(path)]) for path in paths])
    return [path for path, loss in zip(paths, losses, strict=True) if loss.mean < case.threshold]


def find_takeovers(case: Case, spared: Sequence[Path], circuits: Sequence[Units]) -> list[Takeover]:
    """For every path without which the model does as well, the paths of other circuits that do its work then."""
    if spared:
        case.watch("looking for what takes over when a path is silenced")
    found = []
    for path in spared:
        others = {unit for units in circuits if path not in units for unit in units if isinstance(unit, Path)}
        found += those_for(case, path, sorted(other for other in others if head_of(other) != head_of(path)))
    return found


def those_for(case: Case, path: Path, others: Sequence[Path]) -> list[Takeover]:
    """The paths that take over from one path."""
    alone = case.data.losses([case.silenced([row_of(other)]) for other in others])
    both = case.data.losses([case.silenced([row_of(path), row_of(other)]) for other in others])
    patterns = case.data.patterns_under(case.silenced([row_of(path)])) if others else []
    found = []
    for other, one, two in zip(others, alone, both, strict=True):
        takes = one.mean < case.threshold <= two.mean
        words = "takes over" if takes else "does not"
        case.write("7 takeover", str(other), f"silenced with {path}", two, words)
        if takes:
            before, after = case.data.strengths[other], case.data.attention(other, patterns)
            kind: Literal["backup", "double"] = "backup" if after - before > WAKES else "double"
            found.append(Takeover(path, other, kind, before, after))
    return found


def head_of(path: Path) -> tuple[int, int]:
    return path.layer, path.head
