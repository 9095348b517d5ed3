"""Runs that begin with more than the paper's do: which prior they had, as a column of tables and in claims' words.

The prior is a learnt bias by distance (`hopscope.models.positions.relative`) that does not start at 0. A table whose
runs may have one says so in its column `prior`; `Evidence.claim` then says it in the sentence.
"""

from __future__ import annotations

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core import catalogue
from hopscope.models.positions.relative import Relative, entries, where_of

NONE = "none"  # as the paper's own runs have it
COLUMN = "prior"
WITH_PRIOR = " (With a prior: "  # after a claim's sentence


def prior_of(config: Config) -> str:
    """In words, what a run's heads attend to before training; `none` where that is left to chance."""
    code = catalogue.chosen("models.positions", getattr(config.model, "positions", None) or "input")
    parts = [
        f"{value:g} for distance {distance} in {where_of(layer, head).strip() or 'every layer'}"
        for layer, head, distance, value in entries(code.start if isinstance(code, Relative) else "")
    ]
    return f"attention's bias by distance starts at {' and '.join(parts)}" if parts else NONE


def under_prior(sentence: str, rows: DataFrame) -> str:
    """A claim's sentence, with the prior of the runs behind it, if they have one and the same."""
    found = set(rows[COLUMN]) - {NONE} if COLUMN in rows else set()
    if len(found) != 1 or not isinstance(prior := found.pop(), str):
        return sentence
    return f"{sentence.removesuffix('.')}.{WITH_PRIOR}{prior}.)"
