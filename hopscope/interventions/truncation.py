"""LASER: feed-forward weights truncated to their largest singular values (Sharma et al., 2023, arXiv:2312.13558).

A layer's feed-forward matrices are replaced by their best approximation of low rank within a `with` block:

    laser = Laser(model)
    with laser(layers=[27], share=0.01):
        ...  # the model runs with 1 % of the rank of layer 27's feed-forward matrices

Matrices are recognised by their names, so the model may be ours or a causal language model of Hugging Face.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from math import floor

import torch
from torch import Tensor, nn

from hopscope.core.settings import BadInput

#: Ours and TransformerLens' `blocks.3.mlp.W_in`; `model.layers.3.mlp.up_proj.weight` of Llama, Gemma, Qwen;
#: `gpt_neox.layers.3.mlp.dense_h_to_4h.weight`; `transformer.h.3.mlp.c_fc.weight` of GPT-2.
FEED_FORWARD = re.compile(r"(?:^|\.)(?:blocks|layers|h)\.(\d+)\.(?:mlp|feed_forward)\.")


class Laser:
    """Truncates the feed-forward weights of one model. Decompositions are cached, so trying many ranks is cheap.

    Args:
        model: a stack of layers, each with a feed-forward part. Raises BadInput if it has none.
    """

    def __init__(self, model: nn.Module):
        self.weights: dict[int, dict[str, nn.Parameter]] = {}
        for name, parameter in model.named_parameters():
            if match := FEED_FORWARD.search(name):
                self.weights.setdefault(int(match[1]), {})[name] = parameter
        if not self.weights:
            raise BadInput("this model has no feed-forward weights to truncate; choose one with MLPs")
        self.decomposed: dict[str, tuple[Tensor, Tensor, Tensor]] = {}

    @property
    def layers(self) -> list[int]:
        """The layers that have feed-forward weights."""
        return sorted(self.weights)

    @contextmanager
    def __call__(self, layers: Collection[int], share: float, matrix: str | None = None) -> Iterator[None]:
        """Context in which these layers' matrices have a share (0–1) of their rank; at 0 the layers add nothing.

        Biases stay, as in LASER, except at 0, where they are removed too. With `matrix`, the last part of a name such
        as `W_in`, only that matrix is truncated. Raises BadInput for a share, layer or matrix that does not exist.
        """
        if not 0 <= share <= 1:
            raise BadInput(f"the share of the rank must be from 0 to 1; got {share}")
        for layer in layers:
            if layer not in self.weights:
                raise BadInput(f"layer {layer} has no feed-forward weights; choose from {self.layers}")
        chosen = {name: weight for layer in layers for name, weight in self.weights[layer].items()}
        if matrix is not None:
            chosen = {name: weight for name, weight in chosen.items() if matrix in name.split(".")}
            if layers and not chosen:
                raise BadInput(f"these layers have no feed-forward matrix {matrix!r}; their weights have other names")
        before = {name: weight.detach().clone() for name, weight in chosen.items()}
        try:
            with torch.no_grad():
                for name, weight in chosen.items():
                    weight.copy_(self.truncated(name, weight, share))
            yield
        finally:
            with torch.no_grad():
                for name, weight in chosen.items():
                    weight.copy_(before[name])

    def truncated(self, name: str, weight: Tensor, share: float) -> Tensor:
        """A weight with that share of its rank, rounded down; a bias is returned unchanged.

        It is the nearest matrix of that rank in the sum of squares (Eckart and Young, 1936).
        """
        if share == 0:
            return torch.zeros_like(weight)
        if weight.ndim < 2 or share == 1:
            return weight
        if name not in self.decomposed:
            self.decomposed[name] = torch.linalg.svd(weight.detach().float(), full_matrices=False)
        left, values, right = self.decomposed[name]  # singular values descend
        rank = floor(share * min(weight.shape) + 1e-9)
        return (left[:, :rank] * values[:rank]) @ right[:rank]
