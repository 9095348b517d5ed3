"""Prompts with every head at its mean pattern, and the faithfulness of a model with only some heads free.

Faithfulness is the share of the metric's gap, from all heads at their mean pattern to the model as it is, that a set
of heads keeps (after Wang et al., 2023).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.language.lens.ablation import Head, OfHeads
from hopscope.language.lens.attention import Lens
from hopscope_studies.stacked_heads.language.role_paths import Base

DRAWS = 1000  # bootstrap resamples of the prompts


class Steady(OfHeads):
    """Replaces the pattern of some heads by their mean pattern, independent of the prompt's content.

    Such a head still moves information, but where it attends no longer depends on the prompt. So previous-token heads
    still work, and heads that look something up do not.

    Args:
        heads: which.
        patterns: mean patterns; shape (layer, head, query, key).
    """

    def __init__(self, heads: Collection[Head], patterns: Tensor):
        super().__init__(heads)
        self.patterns = patterns

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        if layer not in self.by_layer:
            return pattern
        steady, pattern = self.by_layer[layer], pattern.clone()
        pattern[:, steady] = self.patterns[layer][steady]
        return pattern


@dataclass(frozen=True)
class Emptied:
    """Prompts with every head at its mean pattern; a set of heads is freed, and the model run from its lowest layer on.

    Attributes:
        full: the unchanged model.
        patterns: the mean patterns; shape (layer, head, query, key).
        streams: the residual stream before each layer with every head at its mean pattern.
        odds: the metric in this state; shape (prompt).
    """

    full: Base
    patterns: Tensor
    streams: list[Tensor]
    odds: Tensor

    def odds_keeping(self, lens: Lens, heads: Collection[Head]) -> Tensor:
        """The metric with all heads but these at their mean pattern; shape (prompt)."""
        if not heads:
            return self.odds
        kept, start = set(heads), min(layer for layer, _ in heads)
        edit = Steady([head for head in lens.heads if head not in kept], self.patterns)
        with torch.no_grad():
            return self.full.prompts.log_odds(lens.run(self.streams[start], edit, start=start))

    def faithfulness(self, odds: Tensor) -> float:
        """(m(set) − m(none)) / (m(all) − m(none)), of means over prompts."""
        return float((odds.mean() - self.odds.mean()) / (self.full.odds.mean() - self.odds.mean()))

    def interval(self, odds: Tensor, seed: int) -> tuple[float, float]:
        """The 95 % interval of the faithfulness under resampling of the prompts."""
        rows = torch.randint(len(odds), (DRAWS, len(odds)), generator=torch.Generator().manual_seed(seed))
        means = [values[rows].mean(1) for values in (odds, self.odds, self.full.odds)]
        ratios = (means[0] - means[1]) / (means[2] - means[1])
        low, high = ratios.quantile(torch.tensor([0.025, 0.975])).tolist()
        return low, high


def emptied(lens: Lens, full: Base, patterns: Tensor) -> Emptied:
    """Set every head to its mean pattern."""
    with torch.no_grad():
        streams, logits = lens.streams(full.prompts.ids, Steady(lens.heads, patterns))
    return Emptied(full, patterns, streams, full.prompts.log_odds(logits))
