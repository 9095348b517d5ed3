"""Clamps of whole heads and layers, which Singh et al. call optogenetics (ICML 2024, arXiv:2404.07129, section 4).

A clamp of a path fixes some rows of a pattern; these fix all that a head or a layer does. Some take more than one
forward pass, because part of the computation must stay as it is without the clamp.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.models.base import Model, Replacements, Shape
from hopscope.tasks.base import Batch, Task, TokenTask

PartKind = Literal["previous", "silent", "preserved", "copied", "perfect"]
#: The units that each kind applies to.
PARTS: dict[PartKind, tuple[str, ...]] = {
    "previous": ("head",),
    "silent": ("head", "layer"),
    "preserved": ("head", "layer"),
    "copied": ("head",),
    "perfect": ("layer",),
}
ALL = -1  # stands for all heads of a layer
SHORT = re.compile(r"L([0-9]{1,9})(?:H([0-9]{1,9}))?")
LEAST = 1e-30  # smaller attention is raised to this before the logarithm


@dataclass(frozen=True, order=True)
class Part:
    """A head, `L1H0`, or all heads of a layer, `L0`; both count from 0."""

    layer: int
    head: int = ALL

    def __str__(self) -> str:
        return f"L{self.layer}" + ("" if self.head == ALL else f"H{self.head}")

    @property
    def word(self) -> str:
        """`layer` or `head`."""
        return "layer" if self.head == ALL else "head"

    @property
    def heads(self) -> slice:
        """The index of its heads within the layer."""
        return slice(None) if self.head == ALL else slice(self.head, self.head + 1)

    @classmethod
    def parse(cls, text: str) -> Part | None:
        """The part written `L1H0` or `L0`; None for any other text."""
        match = SHORT.fullmatch(text.strip())
        return match and cls(int(match[1]), ALL if match[2] is None else int(match[2]))


def check_part(part: Part, kind: str, task: Task, architecture: Shape) -> None:
    """Raise BadInput if a part cannot be clamped in this way."""
    if kind == "perfect" and part.layer == architecture.n_layers - 1:
        raise BadInput("the last layer cannot be perfect, for no later one reads it")
    if kind == "copied" and not (isinstance(task, TokenTask) and len(task.hop_names) == 1):
        raise BadInput("only a task with one answer, a token or a label, can have it copied from a head")


def previous(sees: Tensor) -> Float[Tensor, "query key"]:
    """The pattern in which every position attends to the one before it, and the first to itself."""
    n = len(sees)
    places = (torch.arange(n, device=sees.device) - 1).clamp(min=0)
    return torch.nn.functional.one_hot(places, n).float()


def silenced(parts: Iterable[Part]) -> Replacements:
    """Replacements under which these heads write nothing: their weighted values are 0."""

    def without(chosen: list[Part], z: Tensor) -> Tensor:
        kept = torch.ones(z.shape[2], 1, dtype=z.dtype, device=z.device)
        for part in chosen:
            kept[part.heads] = 0
        return z * kept

    layers: dict[int, list[Part]] = {}
    for part in parts:
        layers.setdefault(part.layer, []).append(part)
    return {f"blocks.{layer}.attn.hook_z": partial(without, chosen) for layer, chosen in layers.items()}


def patterns_of(model: Model, batch: Batch, replace: Replacements, start: int = 0) -> dict[str, Tensor]:
    """The attention patterns of all layers from `start` on, under replacements."""
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(start, model.architecture.n_layers)]
    cache = model(batch.inputs, replace=replace, cache=names)[1]
    return {name: cache[name] for name in names}


def preserved(model: Model, batch: Batch, parts: Iterable[Part], replace: Replacements) -> Replacements:
    """Replacements under which these heads write nothing, while every pattern stays as it is under `replace`."""
    return {**replace, **patterns_of(model, batch, replace), **silenced(parts)}


def perfect(model: Model, batch: Batch, layer: int, replace: Replacements) -> Replacements:
    """A perfect previous-token layer: later patterns are computed as if every position held the previous token alone.

    Later values are computed from the stream before the layer, so that what the layer writes does not interfere. First
    positions and queries keep their own token (Singh et al., `perfect_prev_token_input`).
    """
    before, after = f"blocks.{layer}.hook_resid_pre", f"blocks.{layer}.hook_resid_post"
    stream = model(batch.inputs, replace=replace, cache=[before])[1][before]
    asks = (batch.roles.chain[:, batch.roles.index("query")] >= 0)[..., None]
    moved = torch.where(asks, stream, torch.cat([stream[:, :1], stream[:, :-1]], 1))
    patterns = patterns_of(model, batch, {**replace, after: moved}, layer + 1)
    return {**replace, **patterns, after: stream}


def copied(model: Model, batch: Batch, part: Part, replace: Replacements) -> Float[Tensor, "batch query output"]:
    """Outputs read from a head's pattern: the logit of an answer is the log of the attention to where it is shown.

    Up to a constant, which the softmax over answers ignores, these are the head's scores before its softmax.
    """
    task = batch.task
    assert isinstance(task, TokenTask)
    name = f"blocks.{part.layer}.attn.hook_pattern"
    rows = model(batch.inputs, replace=replace, cache=[name])[1][name][:, part.head, task.query_positions]
    shown = task.shown(batch)
    holds = (shown[..., None] == torch.arange(task.n_logits, device=shown.device)).to(rows.dtype)
    return (rows @ holds).clamp(min=LEAST).log()
