"""The retrieval problem, minimal formulation (Musat, ICLR 2025, section 6)."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.tasks.base_sheets import ChainTask, SheetVectorTask


@dataclass(frozen=True)
class Retrieval(ChainTask, SheetVectorTask):
    """Follow each query through D facts. Two chains a and b, D = 2, deepest facts first:

    ```
    step 2           step 1           queries    targets (implicit curriculum)
    a1 a2  b1 b2     b0 b1  a0 a1     a0  b0     a1 a2,  b1 b2
    ```
    """
