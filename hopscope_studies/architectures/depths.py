"""The exact minimum depth of every hop, by task and rule of attention, where theory knows one (docs/theory.md)."""

from __future__ import annotations

import math

from hopscope.configuration.config import Config
from hopscope.models.transformer import Architecture
from hopscope.tasks.base import Task
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.two_hop import TwoHop
from hopscope.theory import depth, shifted


def least(config: Config, k: int) -> float:
    """The fewest layers with which a run's architecture can answer k hops; NaN where no exact number is known.

    A rule that does not set `shifted` counts as plain attention. A rule that reads tokens finds what follows a token,
    as shifted keys do. So where tokens repeat, its minimum depth counts as theirs.
    """
    order = order_of(config.task)
    if order is None or not isinstance(config.model, Architecture):
        return math.nan
    if k == 0:
        return 0
    rule, tokens = config.model.rule, config.task.d_vocab is not None
    if rule.shifted is None:
        return math.nan
    if rule.shifted or (rule.reads_tokens and tokens):
        return shifted.minimum_depth(k, "causal", "many", order)
    return depth.minimum_depth(k, "causal", "many", order).min_layers


def order_of(task: Task) -> str | None:
    """The order of a query's facts; None if they are not pairs of tokens under a causal mask."""
    if isinstance(task, Retrieval):
        return task.order
    if isinstance(task, HopK):
        return "deepest_first"  # every hop leads back
    return "nearest_first" if isinstance(task, TwoHop) else None
