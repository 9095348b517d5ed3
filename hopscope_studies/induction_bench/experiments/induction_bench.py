"""InductionBench: an exact learner, scripted models, SmolLM2 (Hua et al., 2025, arXiv:2502.15823, sections 3 and 4).

The learner finds every function of the paper's sizes from all strings of up to k letters, and fewer from half of them.
A scripted model that knows the rules scores 1, and one that guesses scores as chance predicts. SmolLM2-135M is asked
for two rules on three letters and for three on five. The same functions with shuffled examples are its control.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.language.checkpoints import BASE
from hopscope_studies.induction_bench.claims import claims as claims
from hopscope_studies.induction_bench.figure import figure as figure
from hopscope_studies.induction_bench.measured import Asked, Learned

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 600, "paper": 7200}
#: (k, letters, rules): those of the paper's grid that are learned, and those that are asked.
GRID = {"quick": ((2, 5, 3),), "cpu": ((2, 5, 3), (3, 5, 4), (3, 8, 5), (4, 5, 5))}
GRID["paper"] = tuple((k, letters, rules) for k in (2, 3, 4) for letters in (5, 8) for rules in (3, 4, 5))
SMALL, LARGE = (2, 3, 2), (2, 5, 3)  # of the first there are 324 functions; (2, 2, 1) has but eight
LEARNED = {"quick": 5, "cpu": 60, "paper": 60}
SCRIPTED = {"quick": 5, "cpu": 400, "paper": 2000}
MODELS = {"quick": ("known:last_line",), "cpu": ("smollm2",), "paper": ("smollm2", "gemma3-270m")}
COUNTS = {"quick": (3, 2), "cpu": (30, 20), "paper": (500, 500)}  # functions of the small size, and of the large


def runs(scale: str) -> Iterator[Work]:
    """What SmolLM2 is asked; at `paper` Gemma, too."""
    yield from asked(MODELS[scale], scale)


def asked(models: tuple[str, ...], scale: str) -> Iterator[Work]:
    """The learner on every size; scripted models on both that are asked; language models on these."""
    yield from (Learned(*size, count=LEARNED[scale]) for size in GRID[scale])
    for model in ("known:oracle", "known:uniform"):
        yield from (Asked(*size, model=model, count=SCRIPTED[scale], choose=False) for size in (SMALL, LARGE))
    few, fewer = COUNTS[scale]
    for model in models:
        plain = "raw" if model in BASE else "chat"
        yield Asked(*SMALL, model=model, layout=plain, count=few, choose=scale != "cpu")
        yield Asked(*SMALL, model=model, layout="few_shot", count=few)
        yield Asked(*LARGE, model=model, layout=plain, count=fewer, choose=scale == "paper")


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, part, model, size, layout, labels, protocol, measure, n, value, low, high, chance.
    `part` says what a run is for: learner, scripted, language. With labels `true beyond shuffled`, low and high are the
    one-sided probabilities of a sign test.
    """
    return rows_of(runs).round({"value": 5, "low": 5, "high": 5, "chance": 8})
