"""False demonstrations shown to a real language model (Halawi et al., 2023, arXiv:2307.09476, sections 2 to 4).

SmolLM2-135M reads lines such as `otter: animal`, with labels that are true, permuted, half permuted or random. Its
answer is read out after every layer. Five heads that attend to the labels of similar words are silenced, and compared
with random sets of five. A hand-set model has one such head, with a score of 1, and an untrained one has none. The
numbers are compared with the committed table of the toy study of the same question.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.reports import table_of
from hopscope.experiments.work import Finished, Work
from hopscope_studies.overthinking.claims import claims as claims
from hopscope_studies.overthinking.figure import figure as figure
from hopscope_studies.overthinking.measured import Demonstrations, Toy

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 600, "paper": 7200}
SEEDS = {"quick": 2, "cpu": 2, "paper": 8}
COUNT = {"quick": 12, "cpu": 48, "paper": 252}
MODELS = {"quick": ("made_up",), "cpu": ("smollm2",), "paper": ("smollm2", "gemma3-270m")}
HAND = 12  # texts for the hand-set model, whose answers do not vary


def runs(scale: str) -> Iterator[Work]:
    """The work on SmolLM2; at `paper` also on Gemma."""
    yield from shown(MODELS[scale], scale)


def shown(models: tuple[str, ...], scale: str) -> Iterator[Work]:
    """The work on language models with several seeds and other words, the two controls, and the toy models."""
    quick, count = scale == "quick", COUNT[scale]
    for model in models:
        yield from (Demonstrations(model, count=count, seed=seed) for seed in range(SEEDS[scale]))
        yield Demonstrations(model, "household", count=count, brief=True)
    yield Demonstrations(models[0], trained=False, count=count, brief=True)
    yield Demonstrations("made_up_by_hand" if quick else "by_hand", count=HAND)
    yield Toy("made_up") if quick else Toy()


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, model, words, part, kind, name, other, step, value, low, high. `part` is the purpose of
    a run: language, other words, untrained, by hand, toy. `step` is a layer, from 1, or 0 before the first, or the
    number of a random draw.
    """
    return table_of(runs)
