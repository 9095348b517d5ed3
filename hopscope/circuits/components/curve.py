"""Faithfulness by circuit size, and MIB's two scores of a ranking of edges, CPR and CMD (Mueller et al., 2025)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

#: Shares of all edges at which MIB evaluates circuits.
MIB_GRID = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def normalised(circuit: float, model: float, null: float) -> float:
    """Faithfulness f(C) = (m(C) − m(∅)) / (m(N) − m(∅)) = (L∅ − L_C) / (L∅ − L_N); above 1 if C beats N; not clipped.

    NaN if the model is no better than null: there is then no performance to preserve.
    """
    gap = null - model
    return (null - circuit) / gap if gap > 0 else math.nan


def areas(shares: Sequence[float], faithfulness: Sequence[float]) -> tuple[float, float]:
    """CPR = ∫ f dk and CMD = ∫ |1 − f| dk by trapezoids over shares k of all units, from the first to the last.

    If f ≤ 1 they add up to the width of the range; on MIB's grid that is 0.999.
    """
    x, f = (torch.tensor(values, dtype=torch.float64) for values in (shares, faithfulness))
    return float(torch.trapezoid(f, x)), float(torch.trapezoid((1 - f).abs(), x))


@dataclass(frozen=True)
class Curve:
    """Faithfulness of the first k units of a ranking, for several k (MIB, Mueller et al., 2025); no unit is pruned.

    Attributes:
        losses: the loss with the first k units kept and all others null, for each k in `sizes`.
        model: L_N, the loss of the full model.
        null: L∅, the loss with every unit null.
        sizes: the numbers k, increasing from 0 to n.
    """

    losses: tuple[float, ...]
    model: float
    null: float
    sizes: tuple[int, ...]

    @property
    def n(self) -> int:
        """The total number of units."""
        return self.sizes[-1]

    @property
    def faithfulness(self) -> list[float]:
        """Faithfulness f at every size."""
        return [normalised(loss, self.model, self.null) for loss in self.losses]

    def on_grid(self) -> tuple[float, float]:
        """CPR and CMD on MIB's ten shares; NaN if null is no worse than the model."""
        known = dict(zip(self.sizes, self.faithfulness, strict=True))
        return areas(MIB_GRID, [known[size] for size in grid_sizes(self.n)])

    def as_dict(self) -> dict[str, Any]:
        """The curve's entry in edges.json and nodes.json."""
        cpr, cmd = (None if math.isnan(area) else round(area, 4) for area in self.on_grid())
        return {"sizes": list(self.sizes), "losses": [round(loss, 6) for loss in self.losses], "CPR": cpr, "CMD": cmd}


def grid_sizes(n: int) -> list[int]:
    """MIB's shares of n units as numbers of units, rounded down."""
    return [int(share * n + 1e-9) for share in MIB_GRID]
