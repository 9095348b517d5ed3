"""Conditional retrieval: a step may depend on several retrieved values (Musat, ICLR 2025, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hopscope.core.settings import setting
from hopscope.problem.factsheet import FactSheet
from hopscope.problem.shapes import parse_shape
from hopscope.tasks.base_sheets import SheetVectorTask


@dataclass(frozen=True)
class ConditionalRetrieval(SheetVectorTask):
    """Follow each query through a directed acyclic graph of facts, as in f(a) or "engineers live with their mothers".

    Two chains of the default shape, nearest facts first; the answers to query a of chain 0 are x0 y0 z0:

    ```
    a>x           a>y           xy>z                                                queries
    a1 x1  a0 x0  a0 y0  a1 y1  x0 y1 z0.1  x1 y1 z1  x0 y0 z0  x1 y0 z1.0          a0  a1
    ```

    Facts with two premises are listed for every pair of premises, each with a conclusion of its own: ignoring either
    premise leaves N possible conclusions.
    """

    shape: str = setting("a>x a>y xy>z", "steps of every chain; variables are single letters, the first is the query")

    @cached_property
    def sheet(self) -> FactSheet:
        """N chains of the shape, with all combinations of premises."""
        return FactSheet(self.n_chains, parse_shape(self.shape), self.order)
