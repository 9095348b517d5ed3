"""Heads taken out: their output set to zero or to its mean, or their attention to its mean, place by place.

A head at its mean pattern still moves what stands at a place, but where it looks no longer depends on what a prompt
says: previous-token heads stay as they are, heads that look something up do nothing. Of a head whose output is at its
mean (Wang et al., 2023) nothing is left that differs between prompts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from hopscope.language.lens.attention import Edit

Head = tuple[int, int]


def short(head: Head) -> str:
    """`L18H6`."""
    return f"L{head[0]}H{head[1]}"


class OfHeads(Edit):
    """Changes some heads, given by their numbers in each layer."""

    def __init__(self, heads: Collection[Head]):
        self.by_layer = by_layer(heads)
        self.first = min(self.by_layer, default=0)


class Ablate(OfHeads):
    """Some heads' output replaced.

    Args:
        heads: which.
        means: what takes their output's place: layer position head d_head; zero if there is none.
    """

    def __init__(self, heads: Collection[Head], means: Tensor | None = None):
        super().__init__(heads)
        self.means = means

    def output(self, layer: int, z: Tensor) -> Tensor:
        if layer not in self.by_layer:
            return z
        gone, z = self.by_layer[layer], z.clone()
        z[:, :, gone] = 0 if self.means is None else self.means[layer][:, gone]
        return z


class Steady(OfHeads):
    """Some heads attending by their mean pattern, whatever the prompt says.

    Args:
        heads: which.
        patterns: mean patterns; layer head query key.
    """

    def __init__(self, heads: Collection[Head], patterns: Tensor):
        super().__init__(heads)
        self.patterns = patterns

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        if layer not in self.by_layer:
            return pattern
        held, pattern = self.by_layer[layer], pattern.clone()
        pattern[:, held] = self.patterns[layer][held]
        return pattern


def by_layer(heads: Collection[Head]) -> dict[int, list[int]]:
    """The heads' numbers in each layer."""
    found: dict[int, list[int]] = {}
    for layer, head in sorted(heads):
        found.setdefault(layer, []).append(head)
    return found


def random_heads(among: Sequence[Head], count: int, seed: int) -> list[Head]:
    """`count` different heads, drawn evenly."""
    order = torch.randperm(len(among), generator=torch.Generator().manual_seed(seed))
    return [among[i] for i in order[:count].tolist()]


def top_heads(scores: Tensor, count: int) -> list[Head]:
    """The heads with the highest scores, the highest first."""
    flat = scores.flatten()
    return [divmod(index, scores.shape[1]) for index in flat.topk(min(count, len(flat))).indices.tolist()]


def in_same_layers(heads: Sequence[Head], among: Sequence[Head], seed: int) -> list[Head]:
    """As many other heads in each layer as these are there, or all there are."""
    found: list[Head] = []
    for layer in sorted({layer for layer, _ in heads}):
        others = [head for head in among if head[0] == layer and head not in heads]
        found += random_heads(others, sum(at == layer for at, _ in heads), 1000 * seed + layer)
    return found
