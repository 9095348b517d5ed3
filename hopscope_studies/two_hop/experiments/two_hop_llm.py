"""Two hops asked of a language model, among chains that distract (Guo et al., 2025, arXiv:2502.13913, abstract).

The authors find that language models guess among the ends of chains if the context has distractors. Here
SmolLM2-135M-Instruct continues five templates with invented names and one to four chains, for one hop and for two in
the same text. Names are ranked by their log-probability. The same model at initial weights is the control.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Work
from hopscope_studies.two_hop.language.claims import claims as claims
from hopscope_studies.two_hop.language.figure import figure as figure
from hopscope_studies.two_hop.language.measured import Templates

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 420, "paper": 1800}
SEEDS = {"quick": 2, "cpu": 5, "paper": 10}
COUNT = {"quick": 4, "cpu": 8, "paper": 40}
MODEL = {"quick": "made_up", "cpu": "smollm2", "paper": "smollm2"}


def runs(scale: str) -> Iterator[Work]:
    """The language model over seeds, and one at initial weights."""
    for seed in range(SEEDS[scale]):
        yield Templates(MODEL[scale], count=COUNT[scale], seed=seed)
    yield Templates(MODEL[scale], trained=False, count=COUNT[scale])


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per seed, template, number of chains and of hops.

    Columns: run, version, seed, model, part (language, untrained), template, chains, hops, asked (texts), right (in
    which the right end is the likeliest end), ends (in which some end is likelier than all middles), own (in which the
    likeliest of all is the right chain's middle).
    """
    return rows_of(runs)
