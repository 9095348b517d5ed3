"""Hypothesis refinement: scripted proposers by closed form, noise, and SmolLM2 (Qiu et al., 2024, arXiv:2310.08559).

After sections 2 and 3: rules are proposed and tested on eight examples, and the best one is kept. Proposers are
scripted, so the loop's results have a closed form. SmolLM2-135M is asked for outputs alone (the paper's standard
prompting). The same exercises with shuffled examples are its control.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pandas import DataFrame

from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.language.checkpoints import BASE
from hopscope_studies.hypothesis_refinement.claims import claims as claims
from hopscope_studies.hypothesis_refinement.figure import figure as figure
from hopscope_studies.hypothesis_refinement.measured import Asked, Proposals

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 400, "paper": 7200}
DOMAINS = ("lists", "lights")
CHOOSE, CHAT = ("lights", "grids", "commands"), ("lists", "grids", "commands")  # in which a model is asked so, too
SCRIPTED = {"quick": 4, "cpu": 400, "paper": 2000}
MODELS = {"quick": ("known:last_line",), "cpu": ("smollm2",), "paper": ("smollm2", "gemma3-270m")}
COUNTS = {"quick": (2, 2), "cpu": (40, 20), "paper": (500, 500)}  # as text to be continued, and in chat


def runs(scale: str) -> Iterator[Work]:
    """The work on SmolLM2; at `paper` also on Gemma."""
    yield from asked(MODELS[scale], scale)


def asked(models: tuple[str, ...], scale: str, domains: tuple[str, ...] = DOMAINS) -> Iterator[Work]:
    """The work on proposers and scripted models in every domain, and on language models in code and in chat."""
    yield from (Proposals(domain, SCRIPTED[scale]) for domain in domains)
    for model in ("known:oracle", "known:uniform"):
        yield from (Asked(model, domain, count=SCRIPTED[scale], choose=True) for domain in domains)
    many, few = COUNTS[scale]
    for model, domain in product(models, domains):
        yield Asked(model, domain, "code", many, choose=domain in CHOOSE)
        if domain in CHAT:
            yield Asked(model, domain, "raw" if model in BASE else "chat", few)


def table(runs: list[Finished], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, part, model, domain, layout, labels, protocol, measure, n, value, low, high, chance.
    `part` is the purpose of the run: proposers, scripted, language. For proposers, labels names the proposer, and
    chance is the closed form. With labels `true beyond shuffled`, low and high are the one-sided probabilities of a
    sign test.
    """
    return rows_of(runs).round({"value": 5, "low": 5, "high": 5, "chance": 8})
