"""Grids and commands: the other kinds of rules (Qiu et al., 2024, arXiv:2310.08559, section 3).

MiniARC and MiniSCAN have counterparts here that we generate: small coloured grids, and commands in nonce words. Both
are asked and judged as lists and lights are in `hypothesis_refinement`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.experiments.work import Work
from hopscope_studies.hypothesis_refinement.experiments import hypothesis_refinement as lists

claims, figure, table = lists.claims, lists.figure, lists.table

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 450, "paper": 10800}


def runs(scale: str) -> Iterator[Work]:
    """The work on SmolLM2; at `paper` also on Gemma."""
    yield from lists.asked(lists.MODELS[scale], scale, ("grids", "commands"))
