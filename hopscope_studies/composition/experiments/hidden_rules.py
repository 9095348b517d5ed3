"""Prompts with hidden rules: does a language model need its induction heads for them?

After Song, Xu and Zhong (2024, arXiv:2408.09503), who ask language models for rules with familiar answers replaced by
symbols. SmolLM2-135M completes prompts of four kinds in both forms, without its induction heads and without random
heads. Its controls are shuffled examples, and a script that knows the rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished
from hopscope_studies.composition.hidden.claims import claims as claims
from hopscope_studies.composition.hidden.figure import figure as figure
from hopscope_studies.composition.hidden.measured import SCRIPT, HiddenRules

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 250, "paper": 2000}
SEEDS = {"quick": 2, "cpu": 5, "paper": 10}
COUNT = {"quick": 4, "cpu": 24, "paper": 100}
SCRIPTED = {"quick": 20, "cpu": 400, "paper": 400}


def runs(scale: str) -> Iterator[HiddenRules]:
    """The language model and the script, each with several seeds."""
    for seed in range(SEEDS[scale]):
        yield HiddenRules("made_up" if scale == "quick" else "smollm2", COUNT[scale], seed)
        yield HiddenRules(SCRIPT, SCRIPTED[scale], seed)


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, model, part, kind, form, cut, chance, n, right. `part` is language or scripted, and
    `cut` says which heads are cut: nothing, induction, and random sets such as `random 0` and `same layers 0`.
    """
    return rows_of(runs)
