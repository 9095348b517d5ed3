"""Clamps of whole heads and layers: what Singh et al. call optogenetics (ICML 2024, arXiv:2404.07129, section 4).

Where a clamp of a path holds some rows of a pattern, these hold all that a head or a layer does. Some cost more than
one forward pass, for they let a model answer with one part of what it computes and leave another as it was.
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
#: What each kind can be said of.
PARTS: dict[PartKind, tuple[str, ...]] = {
    "previous": ("head",),
    "silent": ("head", "layer"),
    "preserved": ("head", "layer"),
    "copied": ("head",),
    "perfect": ("layer",),
}
ALL = -1  # of the heads of a layer
SHORT = re.compile(r"L([0-9]{1,9})(?:H([0-9]{1,9}))?")
LEAST = 1e-30  # attention whose logarithm is taken for that of none


@dataclass(frozen=True, order=True)
class Part:
    """A head, `L1H0`, or all heads of a layer, `L0`; both count from 0."""

    layer: int
    head: int = ALL

    def __str__(self) -> str:
        return f"L{self.layer}" + ("" if self.head == ALL else f"H{self.head}")

    @property
    def word(self) -> str:
        """Which of the two it is."""
        return "layer" if self.head == ALL else "head"

    @property
    def heads(self) -> slice:
        """The heads it is, among those of its layer."""
        return slice(None) if self.head == ALL else slice(self.head, self.head + 1)

    @classmethod
    def parse(cls, text: str) -> Part | None:
        """The part written `L1H0` or `L0`; None if it is none."""
        found = SHORT.fullmatch(text.strip())
        return found and cls(int(found[1]), ALL if found[2] is None else int(found[2]))


def check_part(part: Part, kind: str, task: Task, architecture: Shape) -> None:
    """Raise BadInput where a part cannot be clamped so."""
    if kind == "perfect" and part.layer == architecture.n_layers - 1:
        raise BadInput("the last layer cannot be perfect, for no later one reads it")
    if kind == "copied" and not (isinstance(task, TokenTask) and len(task.hop_names) == 1):
        raise BadInput("only a task with one answer, a token or a label, can have it copied from a head")


def previous(sees: Tensor) -> Float[Tensor, "query key"]:
    """Every position attends to the one before it, the first to itself."""
    n = len(sees)
    places = (torch.arange(n, device=sees.device) - 1).clamp(min=0)
    return torch.nn.functional.one_hot(places, n).float()


def silenced(parts: Iterable[Part]) -> Replacements:
    """Heads that write nothing: what they mix of their values is 0."""

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
    """The patterns of all layers from `start` on, under replacements."""
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(start, model.architecture.n_layers)]
    cache = model(batch.inputs, replace=replace, cache=names)[1]
    return {name: cache[name] for name in names}


def preserved(model: Model, batch: Batch, parts: Iterable[Part], replace: Replacements) -> Replacements:
    """Heads that write nothing, while every pattern stays as it is with what they write."""
    return {**replace, **patterns_of(model, batch, replace), **silenced(parts)}


def perfect(model: Model, batch: Batch, layer: int, replace: Replacements) -> Replacements:
    """A first layer without fault: later patterns find at every position the token before it, and nothing else.

    Later values are of the stream as it was before the layer, so that nothing of what it writes interferes. First
    positions and queries keep their own token (Singh et al., `perfect_prev_token_input`).
    """
    before, after = f"blocks.{layer}.hook_resid_pre", f"blocks.{layer}.hook_resid_post"
    stream = model(batch.inputs, replace=replace, cache=[before])[1][before]
    asks = (batch.roles.chain[:, batch.roles.index("query")] >= 0)[..., None]
    moved = torch.where(asks, stream, torch.cat([stream[:, :1], stream[:, :-1]], 1))
    patterns = patterns_of(model, batch, {**replace, after: moved}, layer + 1)
    return {**replace, **patterns, after: stream}


def copied(model: Model, batch: Batch, part: Part, replace: Replacements) -> Float[Tensor, "batch query output"]:
    """Answers read off a head's pattern: an answer's logit is the logarithm of the attention on where it is shown.

    Up to what a softmax over them ignores, these are the head's scores before its softmax.
    """
    task = batch.task
    assert isinstance(task, TokenTask)
    name = f"blocks.{part.layer}.attn.hook_pattern"
    rows = model(batch.inputs, replace=replace, cache=[name])[1][name][:, part.head, task.query_positions]
    shown = task.shown(batch)
    holds = (shown[..., None] == torch.arange(task.n_logits, device=shown.device)).to(rows.dtype)
    return (rows @ holds).clamp(min=LEAST).log()
