"""The retrieval problem, minimal formulation (Musat, ICLR 2025, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hopscope.core.settings import setting
from hopscope.problem.factsheet import FactSheet
from hopscope.problem.roles import chain_letter
from hopscope.problem.shapes import chain_shape
from hopscope.tasks.base_sheets import SheetVectorTask


@dataclass(frozen=True)
class Retrieval(SheetVectorTask):
    """Follow each query through D facts. Two chains a and b, D = 2, deepest facts first:

    ```
    step 2           step 1           queries    targets (implicit curriculum)
    a1 a2  b1 b2     b0 b1  a0 a1     a0  b0     a1 a2,  b1 b2
    ```
    """

    n_hops: int = setting(2, "D, the number of retrieval steps per chain", low=1, high=256)

    @cached_property
    def sheet(self) -> FactSheet:
        """N plain chains of D facts."""
        return FactSheet(
            self.n_chains, chain_shape(self.n_hops), self.order, lambda k, chain: f"{chain_letter(int(chain))}{k}"
        )

    @property
    def hardest(self) -> int:
        return self.n_hops

    def at(self, difficulty: int) -> Retrieval:
        if difficulty == self.n_hops:
            return self
        return self.but(n_hops=difficulty, order=self.order_of(difficulty))
