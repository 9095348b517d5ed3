"""Connections between heads, by path patching (Goldowsky-Dill et al., 2023).

An earlier head's output is replaced by its mean in the input of a later head's queries, keys or values alone.
Everything else is unchanged, so the effect is that of this one connection. Every pair is screened by its first-order
effect, and the strongest effects are computed exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.language.lens.ablation import Ablate, Head
from hopscope.language.lens.attention import Edit, Lens
from hopscope_studies.stacked_heads.language.role_paths import BATCH, Base, gradient, trace

PARTS = ("query", "key", "value")
SCREENED = 32  # prompts behind the first-order effects
CUT = 16  # connections whose effect is computed exactly


@dataclass(frozen=True)
class Link:
    """A connection from an earlier head to one part of a later one, and its first-order effect on the metric (nats)."""

    sender: Head
    receiver: Head
    part: str
    estimate: float


class Unplug(Edit):
    """One part of one head computed from another residual stream."""

    def __init__(self, receiver: Head, part: str, instead: tuple[Tensor, Tensor, Tensor]):
        self.first, self.head = receiver
        self.number, self.instead = PARTS.index(part), instead

    def inputs(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = [q, k, v]
        if layer == self.first:
            changed = parts[self.number].clone()
            changed[:, self.head] = self.instead[self.number][:, self.head]
            parts[self.number] = changed
        return parts[0], parts[1], parts[2]


def without(lens: Lens, sender: Head, z: Tensor, means: Tensor) -> Tensor:
    """The change of the residual stream if one head's output is set to its mean; shape (batch, position, d_model)."""
    layer, _ = sender
    return lens.written(layer, z) - lens.written(layer, Ablate([sender], means).output(layer, z))


def screen(lens: Lens, on: Base, heads: Sequence[Head], means: Tensor) -> list[Link]:
    """The first-order effects of all connections among some heads, the most harmful cuts first."""
    total: dict[tuple[Head, Head, str], float] = {}
    n = min(SCREENED, len(on.prompts))
    for start in range(0, n, BATCH):
        rows = slice(start, min(start + BATCH, n))
        kept = trace(lens, on.prompts.part(rows.start, rows.stop)).kept
        with torch.no_grad():
            for sender in heads:
                lost = without(lens, sender, kept["z"][sender[0]].detach(), means)
                for layer in sorted({receiver[0] for receiver in heads if receiver[0] > sender[0]}):
                    changed = lens.inputs(layer, on.streams[layer][rows] - lost)
                    for part, letter, new in zip(PARTS, "qkv", changed, strict=True):
                        old = kept[letter][layer]
                        effects = ((new - old) * gradient(old)).sum((0, 2, 3))
                        for receiver in (head for head in heads if head[0] == layer):
                            link = (sender, receiver, part)
                            total[link] = total.get(link, 0.0) + float(effects[receiver[1]]) / n
    links = [Link(*link, effect) for link, effect in total.items()]
    return sorted(links, key=lambda link: link.estimate)


def cut(lens: Lens, on: Base, link: Link, means: Tensor, outputs: Tensor) -> Tensor:
    """The exact effect on the metric of cutting one connection; shape (prompt).

    Args:
        lens: the model.
        on: the prompts.
        link: the connection.
        means: the mean outputs of heads; shape (layer, position, head, d_head).
        outputs: the outputs of the sender's layer on these prompts; shape (batch, position, head, d_head).
    """
    with torch.no_grad():
        layer = link.receiver[0]
        changed = lens.inputs(layer, on.streams[layer] - without(lens, link.sender, outputs, means))
        return on.odds_with(lens, Unplug(link.receiver, link.part, changed)) - on.odds


def longest_stack(links: Sequence[Link]) -> list[Head]:
    """The longest chain of heads in which each feeds the next, from the lowest up.

    Among chains of equal length it is the one whose connections do the most harm together if cut.
    """
    best: dict[Head, tuple[int, float, list[Head]]] = {}
    for link in sorted(links, key=lambda link: link.receiver[0]):  # every sender has already received all its inputs
        length, harm, chain = best.get(link.sender, (1, 0.0, [link.sender]))
        found = (length + 1, harm - link.estimate, [*chain, link.receiver])
        best[link.receiver] = max(best.get(link.receiver, found), found)
    return max(best.values(), default=(0, 0.0, []))[2]
