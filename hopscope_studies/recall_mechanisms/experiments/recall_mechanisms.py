"""How a real language model recalls facts (Lv et al., 2024, arXiv:2403.19521, sections 3 to 6).

SmolLM2-135M is asked for capitals, countries, languages and opposites. The contribution of each head and MLP to the
answer is measured by direct logit attribution. Topic heads, the MLP that applies the function, and the last layer's
suppression are judged on groups of facts that did not choose them, against random heads and shuffled facts. A hand-set
model has all three planted, and an untrained one has none. The numbers are compared with the committed table of the toy
study of facts.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.reports import table_of
from hopscope.experiments.work import Finished, Work
from hopscope_studies.recall_mechanisms.claims import claims as claims
from hopscope_studies.recall_mechanisms.figure import figure as figure
from hopscope_studies.recall_mechanisms.measured import Recalled, Toy

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 180, "paper": 900}
SEEDS = {"quick": 2, "cpu": 2, "paper": 8}


def runs(scale: str) -> Iterator[Work]:
    """A language model with several seeds, the two controls, and the toy models."""
    quick = scale == "quick"
    model = "made_up" if quick else "smollm2"
    yield from (Recalled(model, seed=seed) for seed in range(SEEDS[scale]))
    yield Recalled(model, trained=False)
    yield Recalled("made_up_by_hand" if quick else "by_hand")
    yield Toy("made_up") if quick else Toy()


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, model, part, kind, name, other, step, value, low, high. `part` is the purpose of a run:
    language, untrained, by hand, toy. `step` is a layer, or the number of a random draw.
    """
    return table_of(runs)
