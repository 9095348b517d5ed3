"""The prior that runs were given, as a column of tables and in the words of claims.

The prior is a learnt bias by distance (`hopscope.models.positions.relative`) that does not start at 0. A table whose
runs may have one says so in its column `prior`, and `Evidence.claim` adds it to the sentence.
"""

from __future__ import annotations

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core import catalogue
from hopscope.models.positions.relative import Relative, entries, where_of

NONE = "none"  # the value for runs without a prior, as the paper's are
COLUMN = "prior"
WITH_PRIOR, SOME_WITH = " (With a prior: ", " (Some runs with a prior: "  # after a claim's sentence


def prior_of(config: Config) -> str:
    """What a run's heads are biased to attend to before training, in words; `none` if there is no bias."""
    code = catalogue.chosen("models.positions", getattr(config.model, "positions", None) or "input")
    parts = [
        f"{value:g} for distance {distance} in {where_of(layer, head) or 'every layer'}"
        for layer, head, distance, value in entries(code.start if isinstance(code, Relative) else "")
    ]
    return f"attention's bias by distance starts at {' and '.join(parts)}" if parts else NONE


def under_prior(sentence: str, rows: DataFrame) -> str:
    """A claim's sentence with the prior of the runs behind it, if all that have one have the same."""
    priors = set(rows[COLUMN]) - {NONE} if COLUMN in rows else set()
    if len(priors) != 1 or not isinstance(prior := priors.pop(), str):
        return sentence
    return f"{sentence.removesuffix('.')}.{SOME_WITH if NONE in set(rows[COLUMN]) else WITH_PRIOR}{prior}.)"
