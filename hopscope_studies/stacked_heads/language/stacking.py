"""What stacks on what: path patching between heads (Goldowsky-Dill et al., 2023).

An earlier head's output is replaced by its mean in the input of a later head's queries, keys or values alone; all else
of the model's sum stays as it was, so that the effect is that of the one connection. Every pair is screened by its
first-order effect, the strongest are computed exactly.
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
    """What the residual stream loses if one head's output is at its mean; batch position d_model."""
    layer, _ = sender
    return lens.written(layer, z) - lens.written(layer, Ablate([sender], means).output(layer, z))


def screen(lens: Lens, on: Base, heads: Sequence[Head], means: Tensor) -> list[Link]:
    """First-order effects of all connections among some heads, the most harmful to cut first."""
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
    """The exact effect on the metric of cutting one connection; prompt.

    Args:
        lens: the model.
        on: the prompts.
        link: which.
        means: of the heads' outputs; layer position head d_head.
        outputs: the sender's layer's, on these prompts; batch position head d_head.
    """
    with torch.no_grad():
        layer = link.receiver[0]
        changed = lens.inputs(layer, on.streams[layer] - without(lens, link.sender, outputs, means))
        return on.odds_with(lens, Unplug(link.receiver, link.part, changed)) - on.odds


def longest_stack(links: Sequence[Link]) -> list[Head]:
    """The longest chain of heads, each feeding the next, the lowest first.

    Among equally long ones it is that whose connections together do the most harm if cut.
    """
    best: dict[Head, tuple[int, float, list[Head]]] = {}
    for link in sorted(links, key=lambda link: link.receiver[0]):  # whoever sends has received all before
        length, harm, chain = best.get(link.sender, (1, 0.0, [link.sender]))
        found = (length + 1, harm - link.estimate, [*chain, link.receiver])
        best[link.receiver] = max(best.get(link.receiver, found), found)
    return max(best.values(), default=(0, 0.0, []))[2]
