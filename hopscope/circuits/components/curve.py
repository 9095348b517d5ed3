"""Faithfulness over sizes: CPR and CMD, by which MIB ranks orders of all edges (Mueller et al., 2025)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

#: Shares of all edges at which MIB evaluates circuits.
MIB_GRID = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def normalised(circuit: float, model: float, null: float) -> float:
    """f(C) = (m(C) − m(∅)) / (m(N) − m(∅)) = (L∅ − L_C) / (L∅ − L_N); over 1 where C beats N; never clipped.

    NaN where the model is no better than null, so that there is nothing to be faithful to.
    """
    gap = null - model
    return (null - circuit) / gap if gap > 0 else math.nan


def areas(shares: Sequence[float], faithfulness: Sequence[float]) -> tuple[float, float]:
    """CPR = ∫ f dk and CMD = ∫ |1 − f| dk by trapezoids over shares k of all paths, from the first to the last.

    If f ≤ 1 they add up to the width of the range; on MIB's grid that is 0.999.
    """
    x, f = (torch.tensor(values, dtype=torch.float64) for values in (shares, faithfulness))
    return float(torch.trapezoid(f, x)), float(torch.trapezoid((1 - f).abs(), x))


@dataclass(frozen=True)
class Curve:
    """Faithfulness of the first k units of an order (Mueller et al., MIB, 2025); no unit is pruned.

    Attributes:
        losses: of the first so many units, all others null.
        model: L_N.
        null: L∅.
        sizes: how many, for each loss, increasing from 0 to n.
    """

    losses: tuple[float, ...]
    model: float
    null: float
    sizes: tuple[int, ...]

    @property
    def n(self) -> int:
        """Number of units."""
        return self.sizes[-1]

    @property
    def faithfulness(self) -> list[float]:
        """f of every size."""
        return [normalised(loss, self.model, self.null) for loss in self.losses]

    def on_grid(self) -> tuple[float, float]:
        """CPR and CMD on MIB's ten shares; NaN where null is no worse than the model."""
        known = dict(zip(self.sizes, self.faithfulness, strict=True))
        return areas(MIB_GRID, [known[size] for size in grid_sizes(self.n)])

    def as_dict(self) -> dict[str, Any]:
        """As in edges.json and nodes.json."""
        cpr, cmd = (None if math.isnan(area) else round(area, 4) for area in self.on_grid())
        return {"sizes": list(self.sizes), "losses": [round(loss, 6) for loss in self.losses], "CPR": cpr, "CMD": cmd}


def grid_sizes(n: int) -> list[int]:
    """How many of n units MIB's shares are, rounded down."""
    return [int(share * n + 1e-9) for share in MIB_GRID]
