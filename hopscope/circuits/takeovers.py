"""Which path takes over when another is silenced: a double is always active, a backup only then.

A path may do something although silencing it costs nothing (self-repair: McGrath et al., 2023; backup name movers: Wang
et al., 2022). So each such path is silenced together with each path of the other circuits. If silencing both is costly
and silencing either alone is not, the other path took over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hopscope.circuits.averages import has_averages
from hopscope.circuits.exam import WAKES, Exam, Units
from hopscope.circuits.speech import head_of
from hopscope.circuits.units import row_of
from hopscope.problem.paths import Path


@dataclass(frozen=True)
class Takeover:
    """One path does the work of another that is silenced.

    Attributes:
        silenced: the path of the circuit.
        by: which path takes over.
        kind: `backup` if it attends more than in the whole model, else `double`.
        before: its attention in the whole model, 0–1.
        after: its attention while the other path is silenced, 0–1.
    """

    silenced: Path
    by: Path
    kind: Literal["backup", "double"]
    before: float
    after: float

    def __str__(self) -> str:
        return f"{head_of(self.by)} takes over when {head_of(self.silenced)} is silenced"

    def as_dict(self) -> dict[str, Any]:
        """The entry in circuit.json."""
        numbers = {"before": round(self.before, 6), "after": round(self.after, 6)}
        return {**asdict(self), **numbers, "words": str(self)}


def spared_paths(exam: Exam, paths: Iterable[Path]) -> list[Path]:
    """The paths whose rows the model does not need, whether the rows are replaced by nulls or by their averages."""
    alone = exam.data.alone({path: exam.silenced([row_of(path)]) for path in sorted(paths)})
    spared = [path for path, loss in alone.items() if loss.mean < exam.threshold]
    if not has_averages(exam.model):
        return spared
    every = frozenset(exam.data.ground.rows)
    alone = exam.data.alone({path: exam.at_average(every - {row_of(path)}) for path in spared})
    return [path for path, loss in alone.items() if loss.mean < exam.threshold]


def find_takeovers(exam: Exam, spared: Sequence[Path], circuits: Sequence[Units]) -> list[Takeover]:
    """For every path that the model does not need, the paths of other circuits that then do its work."""
    exam.watch("looking for what takes over when a path is silenced")
    found = []
    for path in spared:
        others = {unit for units in circuits if path not in units for unit in units if isinstance(unit, Path)}
        found += those_for(exam, path, sorted(other for other in others if head_of(other) != head_of(path)))
    return found


def those_for(exam: Exam, path: Path, others: Sequence[Path]) -> list[Takeover]:
    """The paths that take over from one path."""
    alone = exam.data.losses([exam.silenced([row_of(other)]) for other in others])
    both = exam.data.losses([exam.silenced([row_of(path), row_of(other)]) for other in others])
    patterns = exam.data.patterns_under(exam.silenced([row_of(path)])) if others else []
    found = []
    for other, one, two in zip(others, alone, both, strict=True):
        takes = one.mean < exam.threshold <= two.mean
        words = "takes over" if takes else "does not"
        exam.write("7 takeover", str(other), f"silenced with {path}", two, words)
        if takes:
            before, after = exam.data.strengths[other], exam.data.attention(other, patterns)
            kind: Literal["backup", "double"] = "backup" if after - before > WAKES else "double"
            found.append(Takeover(path, other, kind, before, after))
    return found
