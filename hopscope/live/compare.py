"""`hopscope.load_circuit` loads a saved circuit, and `hopscope.compare` compares two circuits."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path as Files
from typing import TYPE_CHECKING, Any

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.units import row_of
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged, read_file, read_json
from hopscope.emergence.order import event_names
from hopscope.emergence.record import stored_paths
from hopscope.live.find import FoundCircuit
from hopscope.problem.paths import Path

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class SavedCircuit:
    """A circuit as `FoundCircuit.save`, `Circuit.save` or `hopscope circuit` wrote it.

    Attributes:
        folder: the folder that it was loaded from.
        paths: in the order in which they were stored.
        verdict: `circuit`, `partial` or `none`.
        reason: the reason for the verdict.
        values: the content of circuit.json (docs/contracts.md).
        words: the content of words.txt; empty if there is none.
    """

    folder: Files
    paths: tuple[Path, ...]
    verdict: str
    reason: str
    values: dict[str, Any]
    words: str = ""

    def __str__(self) -> str:
        return self.words.strip() or f"verdict: {self.verdict} ({self.reason})\n" + "\n".join(map(str, self.paths))

    def _repr_html_(self) -> str:
        pictures = (self.folder / where / "circuit.png" for where in (".", "pictures"))
        stored = next((file.read_bytes() for file in pictures if file.is_file()), b"")
        shown = f'<img src="data:image/png;base64,{base64.b64encode(stored).decode()}">' if stored else ""
        return f"<p>{html.escape(str(self))}</p>{shown}{self.table().to_html(index=False)}"

    def table(self) -> DataFrame:
        """One row per path, with its strength, its removal loss and its rule."""
        from pandas import DataFrame

        known = ("layer", "head", "query", "key", "chain", "strength", "removal_loss", "hypothesis")
        rows = [{name: one.get(name) for name in known} for one in self.values["paths"]]
        return DataFrame(rows, columns=list(known))


def load_circuit(folder: Files | str) -> SavedCircuit:
    """Load a saved circuit. Raises BadInput if there is none, and Damaged if the file was altered."""
    folder = Files(folder)
    file, words = folder / "circuit.json", folder / "words.txt"
    if not file.is_file():
        raise BadInput(f"{folder} has no circuit.json; save a circuit there first, by found.save or hopscope circuit")
    values = read_json(file)
    said = read_file(words).decode(errors="replace") if words.is_file() else ""
    paths = tuple(stored_paths(values, str(file)))
    if not all(isinstance(values.get(name), str) for name in ("verdict", "reason")):
        raise Damaged(f"{file} is altered: it holds no verdict")
    return SavedCircuit(folder, paths, values["verdict"], values["reason"], values, said)


AnyCircuit = SavedCircuit | FoundCircuit | Circuit


@dataclass(frozen=True)
class Comparison:
    """What two circuits have in common.

    Layers and heads of different models do not correspond, so paths are also compared by kind: the roles at their ends
    and, among several of one kind, the rank in layer order.

    Attributes:
        both: paths that are in both, with the same layer and head.
        only: paths of the first alone, and of the second alone.
        kinds_both: kinds that both have, with their ranks.
        kinds_only: kinds of the first alone, and of the second alone.
        rows: numbers of rows (a head at a role) in both, and in either.
        verdicts: of the first and the second.
    """

    both: tuple[Path, ...]
    only: tuple[tuple[Path, ...], tuple[Path, ...]]
    kinds_both: tuple[str, ...]
    kinds_only: tuple[tuple[str, ...], tuple[str, ...]]
    rows: tuple[int, int]
    verdicts: tuple[str, str]

    @property
    def same_algorithm(self) -> bool:
        """Whether both have the same kinds of paths, and equally many of each kind, in any heads."""
        return not any(self.kinds_only)

    def __str__(self) -> str:
        lines = [f"verdicts: {self.verdicts[0]} and {self.verdicts[1]}"]
        groups: list[tuple[str, Sequence[Any]]] = [("in both", self.both)]
        groups += [("in the first alone", self.only[0]), ("in the second alone", self.only[1])]
        lines += [f"paths {name}: {', '.join(map(str, some)) or 'none'}" for name, some in groups]
        lines.append(f"heads at a role in both: {self.rows[0]} of {self.rows[1]}")
        if self.same_algorithm:
            return "\n".join([*lines, "kinds of paths, the same in both: " + ", ".join(self.kinds_both)])
        apart = " and ".join(", ".join(some) or "none" for some in self.kinds_only)
        return "\n".join([*lines, f"kinds of paths in one alone: {apart}"])


def compare(a: AnyCircuit, b: AnyCircuit) -> Comparison:
    """Compare two circuits, such as those of two seeds, of two models, or of two steps of one run.

    Args:
        a: a circuit that was found, or loaded by `load_circuit`.
        b: another, with the same roles.

    Raises:
        BadInput: one of them is no circuit.
    """
    (first, one), (second, other) = map(paths_and_verdict, (a, b))
    kinds = [{*event_names(paths).values()} for paths in (first, second)]
    rows = [{*map(row_of, paths)} for paths in (first, second)]
    return Comparison(
        tuple(sorted({*first} & {*second})),
        (tuple(sorted({*first} - {*second})), tuple(sorted({*second} - {*first}))),
        tuple(sorted(kinds[0] & kinds[1])),
        (tuple(sorted(kinds[0] - kinds[1])), tuple(sorted(kinds[1] - kinds[0]))),
        (len(rows[0] & rows[1]), len(rows[0] | rows[1])),
        (one, other),
    )


def paths_and_verdict(circuit: AnyCircuit) -> tuple[list[Path], str]:
    """A circuit's paths and verdict. Raises BadInput for anything else."""
    if isinstance(circuit, SavedCircuit):
        return list(circuit.paths), circuit.verdict
    found = circuit.circuit if isinstance(circuit, FoundCircuit) else circuit
    if not isinstance(found, Circuit):
        raise BadInput(f"only circuits can be compared, found or loaded; got a {type(circuit).__name__}")
    return [part.path for part in found.paths], found.verdict
