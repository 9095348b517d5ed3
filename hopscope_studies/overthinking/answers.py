"""A model's answers as read out after every layer, also with parts silenced, and the attention of its heads to labels.

The logit lens (nostalgebraist, 2020) with the model's own final norm, and the calibrated accuracy of Halawi et al.
(2023, arXiv:2307.09476, section 2 and their code): a label is right if its probability among the labels lies above its
own (n − 1) / n quantile over texts, at the same line and after the same layer. A value on the quantile counts 1 / n.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor

from hopscope.language.lens.ablation import Ablate, Head
from hopscope.language.lens.attention import Edit, Lens
from hopscope_studies.overthinking.prompts import N_LABELS, PLACES, Texts

BATCH = 8  # texts in a batch
DECIMALS = 6  # digits of probabilities, so that rounding errors do not separate equal ones


@dataclass(frozen=True)
class Silenced:
    """Parts whose output is set to zero.

    Attributes:
        heads: the silenced heads.
        mlps: the layers of the silenced MLPs.
    """

    heads: Collection[Head] = ()
    mlps: Collection[int] = ()

    @property
    def first(self) -> int:
        """The first layer with a silenced part."""
        return min([layer for layer, _ in self.heads] + list(self.mlps), default=0)

    @contextlib.contextmanager
    def quiet(self, lens: Lens) -> Iterator[Edit]:
        """Context manager that silences the MLPs, and yields the edit that silences the heads."""
        with contextlib.ExitStack() as stack:
            for layer in self.mlps:
                stack.enter_context(patch.object(lens.layers[layer].mlp, "forward", torch.zeros_like))
            yield Ablate(self.heads)


class LooksAtLabels(Edit):
    """Records attention from the token before each asked label to the labels of all lines."""

    def __init__(self, texts: Texts):
        self.texts = texts
        self.kept: list[Tensor] = []  # text head place line, per layer

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        rows = torch.arange(len(pattern))[:, None, None]
        queries, labels = self.texts.queries[:, :, None], self.texts.label_at[:, None, :]
        self.kept.append(pattern[rows, :, queries, labels].permute(0, 3, 1, 2))
        return pattern


@dataclass(frozen=True)
class Answers:
    """The answers and attention that are read from a model.

    Attributes:
        by_layer: probabilities of the labels before the first layer and after each; shape (layer, text, place, label).
        looks: attention to labels; shape (layer, text, head, place, line).
        without: final probabilities with each set silenced; shape (set, text, place, label).
    """

    by_layer: Tensor
    looks: Tensor
    without: Tensor


@torch.no_grad()
def answers(lens: Lens, texts: Texts, sets: Sequence[Silenced] = ()) -> Answers:
    """Read texts with the whole model, and once more for every set that is silenced."""
    starts = range(0, len(texts.ids), BATCH)
    parts = [answers_of_some(lens, texts.rows(slice(start, start + BATCH)), sets) for start in starts]
    return Answers(*(torch.cat([getattr(part, name) for part in parts], 1) for name in Answers.__annotations__))


def answers_of_some(lens: Lens, texts: Texts, sets: Sequence[Silenced]) -> Answers:
    """The answers on few enough texts that all their streams fit into memory."""
    looking = LooksAtLabels(texts)
    streams = run(lens, lens.embed(texts.ids), looking)
    without = [last(lens, texts, streams[one.first], one) for one in sets]
    return Answers(
        torch.stack([read_off(lens, texts, stream) for stream in streams]),
        torch.stack(looking.kept),
        torch.stack(without) if without else torch.zeros(0, len(texts.ids), PLACES, N_LABELS),
    )


def run(lens: Lens, stream: Tensor, edit: Edit | None, start: int = 0) -> list[Tensor]:
    """The residual stream before each layer from `start` on, and after the last; each text position d_model."""
    found: list[Tensor] = []
    seen = [*lens.layers[start:], lens.model.model.norm]
    hooks = [part.register_forward_pre_hook(lambda _, args: found.append(args[0])) for part in seen]
    try:
        lens.run(stream, edit, start)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def last(lens: Lens, texts: Texts, stream: Tensor, silenced: Silenced) -> Tensor:
    """Final probabilities of the labels with some parts silenced; shape (text, place, label).

    The pass starts from `stream`, the residual stream before the first layer with a silenced part.
    """
    with silenced.quiet(lens) as edit:
        return read_off(lens, texts, run(lens, stream, edit, silenced.first)[-1])


def read_off(lens: Lens, texts: Texts, stream: Tensor) -> Tensor:
    """Probabilities among the labels, as if the stream were the final one; shape (text, place, label)."""
    there = stream[torch.arange(len(stream))[:, None], texts.queries]
    logits = lens.model.model.norm(there) @ lens.model.lm_head.weight[texts.label_ids].T
    return logits.softmax(-1)


def calibrated(probabilities: Tensor, right: Tensor) -> Tensor:
    """Whether each answer is right, 0, 1 or 1 / n; shape (…, text, place).

    Args:
        probabilities: of the labels; shape (…, text, place, label).
        right: the index of the right label; shape (text, place).
    """
    known = probabilities.double().round(decimals=DECIMALS)
    n = known.shape[-1]
    level = known.quantile((n - 1) / n, dim=-3, keepdim=True)
    chosen = right[..., None].expand(*known.shape[:-1], 1)
    ours, bar = known.gather(-1, chosen)[..., 0], level.expand_as(known).gather(-1, chosen)[..., 0]
    return (ours > bar).double() + (ours == bar).double() / n


def plain(probabilities: Tensor, right: Tensor) -> Tensor:
    """Whether the most probable label is the right one; shape (…, text, place)."""
    return (probabilities.argmax(-1) == right).double()


def scores(looks: Tensor, lines: Tensor, asked: Tensor) -> Tensor:
    """Every head's attention to labels of lines of the query's class, minus the mean for other classes; layer head.

    See the paper's section 4. With permuted labels all lines of a class show the same false label.

    Args:
        looks: layer text head place line.
        lines: the classes of the lines; shape (text, line).
        asked: classes of the queries; shape (text, place).
    """
    number = torch.arange(lines.shape[1])
    before = number[None] < number[-PLACES:, None]  # place line
    same = lines[:, None, :] == asked[:, :, None]  # text place line
    weight = torch.where(same, 1.0, -1 / (N_LABELS - 1)) * before
    return torch.einsum("lthpi,tpi->lh", looks, weight.to(looks.dtype)) / asked.numel()


def mixed(lines: Tensor, seed: int) -> Tensor:
    """The classes shuffled within every text, the negative control of the scores; shape (text, line)."""
    order = torch.rand(lines.shape, generator=torch.Generator().manual_seed(seed)).argsort(1)
    return lines.gather(1, order)
