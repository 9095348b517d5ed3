"""The circuit of a real model's hop, and why two hops fail (ours; after Wang et al., 2023, and Biran et al., 2024).

Beyond Mușat, section 4, which asks models and does not open them, and section 8, which hopes that circuits of small
models tell something about large ones. SmolLM2-135M is asked for one hop of the equations about every chain of the same
facts. The circuit is searched on half of the facts and judged on the other, for three seeds and in four more wordings.
Then the model is asked for two hops.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.reports import table_of
from hopscope.experiments.work import Finished, Work
from hopscope_studies.real_hop.claims import claims as claims
from hopscope_studies.real_hop.figure import figure as figure
from hopscope_studies.real_hop.measured import OneHop, TwoHops

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 700, "paper": 3000}
SEEDS = {"quick": 2, "cpu": 3, "paper": 8}
FULL = {"quick": 1, "cpu": 2, "paper": 8}  # seeds with all measurements; others have only the circuit of nodes
COUNT = {"quick": 48, "cpu": 48, "paper": 128}
WORDINGS = (("lives_with", "code"), ("kingdoms", "code"), ("equations", "few_shot"), ("equations", "raw"))


def runs(scale: str) -> Iterator[Work]:
    """The runs of SmolLM2."""
    yield from asked("smollm2", scale)


def asked(model: str, scale: str) -> Iterator[Work]:
    """One hop over seeds and in other wordings, and two hops over two seeds or more; at `quick` stored reports."""
    model, count = "made_up" if scale == "quick" else model, COUNT[scale]
    fewer = 2 * count // 3  # only the circuit is measured
    for seed in range(SEEDS[scale]):
        whole = seed < FULL[scale]
        yield OneHop(model, count=count if whole else fewer, seed=seed, brief=not whole)
    for seed in range(SEEDS[scale] - 1):
        yield TwoHops(model, count=count, seed=seed)
    for formulation, layout in WORDINGS:
        yield OneHop(model, formulation, layout, fewer, brief=True)


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number, node, place or edge of a report.

    Columns: run, version, seed, model, formulation, layout, part, kind, name, other, step, value, low, high. `part` is
    the purpose of a run: one hop, two hops, or one hop in another wording.
    """
    return table_of(runs)
