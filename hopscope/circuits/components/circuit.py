"""A circuit of components, as it is stored in `edges.json` or `nodes.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as Files
from typing import Any

from hopscope.circuits.components.curve import Curve
from hopscope.circuits.components.graph import Edge
from hopscope.circuits.losses import Judged
from hopscope.core.storage import to_json, write_listed

SIGNED = ", signed"  # ends the name of a ranking by signed scores


@dataclass(frozen=True)
class ComponentCircuit(Judged):
    """A circuit of edges or of nodes, with its measurements.

    Attributes:
        unit: `edges` or `nodes`.
        kept: the units of the circuit, most needed first.
        edges: all edges that are kept; for a circuit of nodes, the edges out of its nodes and out of `input`.
        effects: for every unit, the measured rise of the loss when it alone is cut.
        scores: for every method (`EAP`, `EAP-IG`) and unit, the estimate of this effect from gradients.
        removals: for every unit of the circuit, by how much the circuit's loss rises without it.
        losses: on report data: `model`, `circuit` (all else cut), `null` (all cut).
        curves: one for each ranking: `patching` (by `effects`), `EAP` and `EAP-IG`. Each ranks by absolute scores, as
            MIB does for CMD, and a second time by signed scores (`EAP, signed`), as MIB does for CPR.
        protocol: all that the numbers depend on.
    """

    unit: str
    kept: tuple[str, ...]
    edges: frozenset[Edge]
    effects: Mapping[str, float]
    scores: Mapping[str, Mapping[str, float]]
    removals: Mapping[str, float]
    curves: Mapping[str, Curve] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)

    def about(self, unit: str) -> dict[str, Any]:
        """The measurements of one unit."""
        numbers = {"effect": self.effects[unit], **{name: scores[unit] for name, scores in self.scores.items()}}
        removal = {"removal": round(self.removals[unit], 6)} if unit in self.removals else {}
        return {"in_circuit": unit in self.kept, **{n: round(x, 6) for n, x in numbers.items()}, **removal}

    def as_dict(self) -> dict[str, Any]:
        """The content of edges.json or nodes.json (docs/contracts.md)."""
        return {
            "unit": self.unit,
            "circuit": list(self.kept),
            **self.judged(),
            "units": {unit: self.about(unit) for unit in self.effects},
            "curves": {name: curve.as_dict() for name, curve in self.curves.items()},
            "protocol": dict(self.protocol),
        }

    def save(self, folder: Files) -> list[Files]:
        """Write edges.json or nodes.json. Raises CannotSave, Damaged (the manifest)."""
        return write_listed(folder, {f"{self.unit}.json": to_json(self.as_dict())})
