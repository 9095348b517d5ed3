"""Do the heads of a real language model recall? CMR distances with their floor, and answers on lists.

After Ji-An et al. (2024, arXiv:2405.14992; code corxyz/icl-cmr) and Mistry et al. (2025, arXiv:2502.06902; abstract
alone). All 270 heads of SmolLM2-135M are compared with models of human recall on repeated random tokens. Controls are
their own curves with shuffled lags, and curves from unrelated positions. Lists that are shown again in another order
show which answers need which heads. A hand-set model has one head that is like recall, an untrained model has none. The
committed table of the toy models is compared too.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.reports import table_of
from hopscope.experiments.work import Finished, Work
from hopscope_studies.episodic_memory.language.claims import claims as claims
from hopscope_studies.episodic_memory.language.figure import figure as figure
from hopscope_studies.episodic_memory.language.measured import Recall, ToyRecall

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 400, "paper": 7200}
SEEDS = {"quick": 2, "cpu": 2, "paper": 8}
COUNT = {"quick": 4, "cpu": 24, "paper": 100}
MODELS = {"quick": ("made_up",), "cpu": ("smollm2",), "paper": ("smollm2", "gemma3-270m")}


def runs(scale: str) -> Iterator[Work]:
    """The work on SmolLM2; at `paper` also on Gemma."""
    yield from recalled(MODELS[scale], scale)


def recalled(models: tuple[str, ...], scale: str) -> Iterator[Work]:
    """The work on language models with several seeds, the two controls, and the toy models."""
    quick, count = scale == "quick", COUNT[scale]
    for model in models:
        yield from (Recall(model, count=count, seed=seed) for seed in range(SEEDS[scale]))
    yield Recall(models[0], trained=False, count=count, brief=True)
    yield Recall("made_up_by_hand" if quick else "by_hand", count=8)
    yield ToyRecall("made_up") if quick else ToyRecall()


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, model, part, kind, name, other, step, value, low, high. `part` is the purpose of the
    run: language, untrained, by hand, toy. `step` is a lag, a draw, or the number of heads that a share is taken over.
    """
    return table_of(runs, digits=6)
