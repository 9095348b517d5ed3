"""Work without training: exact minimum depths with shifted keys and values, computed in three ways, and sheets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import setting
from hopscope.experiments.reports import Report
from hopscope.theory.depth import MASKS, chain_of
from hopscope.theory.shifted import closed_form, layers_needed, sheet_depth, solvable

ORDERS = ("nearest_first", "deepest_first")
CROWDS = (2, 4, 8)  # chains of a sheet


@dataclass(frozen=True)
class LeastDepths(Report):
    """A report on minimum depths: by formula, with attention from all positions to all, and by a complete search."""

    label, file = "kv_shift_depths", "numbers.json"

    deepest: int = setting(32, "most hops for which everyone attends to everyone", low=1, high=64)
    searched: int = setting(5, "most hops for which all schedules are searched; 2 fewer without a mask", low=1, high=6)
    sheets: int = setting(60, "whole sheets drawn for each number of chains and of hops, to 5", low=1)
    seed: int = setting(0, "of the sheets", low=0)

    def about(self) -> dict[str, Any]:
        return {"seed": 0, "part": "theory", "attention": "kv", "layers": 0}

    def report(self) -> Any:
        """Rows on chains, then on sheets."""
        return [*self.depths(), *self.on_sheets()]

    def depths(self) -> Iterator[dict[str, Any]]:
        """Rows by mask, order and hops; `search` is missing if schedules were not searched."""
        for mask, order, n in itertools.product(MASKS, ORDERS, range(1, self.deepest + 1)):
            chain = chain_of(n, mask, order)
            found = {"mask": mask, "order": order, "hops": n, "formula": closed_form(n, mask)}
            found |= {"everyone": layers_needed(chain)}
            if n <= self.searched - (2 if mask == "none" else 0):
                found |= {"search": next(t for t in range(n + 1) if solvable(chain, t))}
            yield {"kind": "theory", **found}

    def on_sheets(self) -> Iterator[dict[str, Any]]:
        """By order, hops and chains: the shares of chains, and of whole sheets, that need fewer layers."""
        draw = random.Random(self.seed)
        for order, n, n_chains in itertools.product(ORDERS, range(1, min(5, self.deepest) + 1), CROWDS):
            least, steps = closed_form(n), chain_of(n, "causal", order).order
            found = [sheet_depth(drawn(steps, n_chains, draw), n, n_chains) for _ in range(self.sheets)]
            about = {"mask": "causal", "order": order, "hops": n, "chains": n_chains, "formula": least}
            about |= {"luckier_chains": sum(d < least for sheet in found for d in sheet) / self.sheets / n_chains}
            yield {"kind": "sheets", **about, "luckier_sheets": sum(max(s) < least for s in found) / self.sheets}


def drawn(steps: tuple[int, ...], n_chains: int, draw: random.Random) -> list[tuple[int, int]]:
    """The facts of a sheet; within each step the chains come in random order."""
    return [(chain, step) for step in steps for chain in draw.sample(range(n_chains), n_chains)]
