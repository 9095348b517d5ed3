"""Ablation of heads: their output set to zero or to its mean by position.

Mean ablation (Wang et al., 2023) removes everything in which a head's output differs between prompts.
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
    """An edit of some heads only."""

    def __init__(self, heads: Collection[Head]):
        self.by_layer = by_layer(heads)
        self.first = min(self.by_layer, default=0)


class Ablate(OfHeads):
    """Replaces the output of some heads.

    Args:
        heads: which.
        means: the replacements, shape (layer, position, head, d_head); None for zero.
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


def by_layer(heads: Collection[Head]) -> dict[int, list[int]]:
    """The heads' numbers in each layer."""
    numbers: dict[int, list[int]] = {}
    for layer, head in sorted(heads):
        numbers.setdefault(layer, []).append(head)
    return numbers


def random_heads(among: Sequence[Head], count: int, seed: int) -> list[Head]:
    """`count` different heads, drawn uniformly."""
    order = torch.randperm(len(among), generator=torch.Generator().manual_seed(seed))
    return [among[i] for i in order[:count].tolist()]


def top_heads(scores: Tensor, count: int) -> list[Head]:
    """The heads with the highest scores, the highest first."""
    flat = scores.flatten()
    return [divmod(index, scores.shape[1]) for index in flat.topk(min(count, len(flat))).indices.tolist()]


def in_same_layers(heads: Sequence[Head], among: Sequence[Head], seed: int) -> list[Head]:
    """A control for `heads`: in each layer as many random other heads of `among`, or all if there are fewer."""
    control: list[Head] = []
    for layer in sorted({layer for layer, _ in heads}):
        others = [head for head in among if head[0] == layer and head not in heads]
        control += random_heads(others, sum(at == layer for at, _ in heads), 1000 * seed + layer)
    return control
