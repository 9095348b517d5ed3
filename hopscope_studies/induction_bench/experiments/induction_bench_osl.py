"""InductionBench's other classes, L-OSL and R-OSL (Hua et al., 2025, arXiv:2502.15823, sections 3 and 4).

A learner of output strictly local functions, scripted models and SmolLM2-135M, as in `induction_bench`. SmolLM2 is
asked after two solved functions of the same class, since in chat it states no rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.experiments.work import Work
from hopscope_studies.induction_bench.experiments import induction_bench as isl
from hopscope_studies.induction_bench.measured import Asked, Learned

claims, figure, table = isl.claims, isl.figure, isl.table

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 400, "paper": 10800}
LARGER = (3, 3, 2)  # the smallest k with which examples of L-OSL functions differ from those of ISL functions
COUNTS = {"quick": (3, 2), "cpu": (25, 16), "paper": (500, 500)}  # functions of the small size, and of the larger


def runs(scale: str) -> Iterator[Work]:
    """The learner on L-OSL functions, of which R-OSL functions are mirror images; models on both."""
    yield from (Learned(*size, count=isl.LEARNED[scale], side="left") for size in isl.GRID[scale])
    few, fewer = COUNTS[scale]
    for model in ("known:oracle", "known:uniform", *isl.MODELS[scale]):
        for size, side, count in ((isl.SMALL, "left", few), (isl.SMALL, "right", few), (LARGER, "left", fewer)):
            n = count if model in isl.MODELS[scale] else isl.SCRIPTED[scale]
            yield Asked(*size, model=model, layout="few_shot", count=n, choose=False, side=side)
