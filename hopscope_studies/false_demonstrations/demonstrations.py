"""Contexts with true and with false labels, for classes that a model knows (Halawi et al., 2023, section 2)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.tasks.base import Batch
from hopscope.tasks.item_labels import ItemLabels

Labels = Int[Tensor, "batch pair"]


def true(task: ItemLabels, labels: Labels, random: torch.Generator) -> Labels:
    """The classes' own labels."""
    return labels


def permuted(task: ItemLabels, labels: Labels, random: torch.Generator) -> Labels:
    """Every label is replaced by the next one: the same permutation in all sequences."""
    return (labels + 1) % task.n_labels


def half(task: ItemLabels, labels: Labels, random: torch.Generator) -> Labels:
    """Each label is permuted with probability one half, independently."""
    turned: Bool[Tensor, "batch pair"] = torch.rand(labels.shape, generator=random) < 0.5
    return torch.where(turned, permuted(task, labels, random), labels)


def unrelated(task: ItemLabels, labels: Labels, random: torch.Generator) -> Labels:
    """Every label is drawn uniformly."""
    return torch.randint(task.n_labels, labels.shape, generator=random)


#: What the context's labels become, by the paper's name.
KINDS: dict[str, Callable[[ItemLabels, Labels, torch.Generator], Labels]] = {
    "true": true,
    "permuted": permuted,
    "half": half,
    "random": unrelated,
}
FALSE = ("permuted", "half", "random")


def demonstrated(task: ItemLabels, kind: str, n: int, *, absent: bool = False) -> Batch:
    """The same n sequences for every kind of labels; the right answer is the true label of the query's class.

    With `absent` the context shows only other classes.
    """
    known = task.but(fresh=0.0, bursty=1.0, absent=absent)
    draw = known.draw(n, generator(0, "demonstrations"))
    labels = draw["labels"]
    context = KINDS[kind](known, labels[:, :-1], generator(0, kind))
    return Batch(known, {**draw, "labels": torch.cat([context, labels[:, -1:]], 1)})
