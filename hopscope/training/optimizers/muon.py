"""Muon: momentum, orthogonalised for matrices (Jordan et al., 2024; Liu et al., 2025, arXiv:2502.16982).

W_Q, W_K, W_V and W_O of every head, and the MLP's two matrices, are orthogonalised separately. Embeddings, biases and
norms use AdamW. PyTorch's Muon accepts only matrices, so it gets views of our stacked weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from hopscope.configuration.config import Training
from hopscope.core.settings import setting
from hopscope.training.optimizers.base import Optimizer, decaying

#: Parameters of a layer that are matrices, inputs by outputs, or stacks of them.
MATRICES = ("W_QKV", "W_O", "W_in", "W_out")


@dataclass(frozen=True)
class Muon(Optimizer):
    """Muon and AdamW with one learning rate: by default Muon's updates have AdamW's root mean square, 0.2."""

    momentum: float = setting(0.95, "of the matrices' gradients", low=0, high=0.9999999)
    nesterov: bool = setting(True, "whether to use Nesterov momentum: the gradient after the momentum's step")
    ns_steps: int = setting(5, "Newton–Schulz iterations", low=1, high=99)
    adjust: str = setting(
        "match_rms_adamw",
        "size of an update: as AdamW's, or as in the first publication",
        choices=("match_rms_adamw", "original"),
    )

    def make(self, parameters: Mapping[str, Tensor], training: Training) -> torch.optim.Optimizer:
        how = {"momentum": self.momentum, "nesterov": self.nesterov, "ns_steps": self.ns_steps}
        matrices = [p for name, p in parameters.items() if is_matrix(name)]
        rest = [p for name, p in parameters.items() if not is_matrix(name)]
        return MuonAndAdamW(matrices, rest, training, {**how, "adjust_lr_fn": self.adjust})


def is_matrix(name: str) -> bool:
    """Whether a parameter is one of a layer's matrices."""
    return name.startswith("blocks.") and name.rpartition(".")[2] in MATRICES


def single(stack: Tensor) -> Iterator[Tensor]:
    """Views of the matrices in a stack, outputs by inputs as in PyTorch's layers."""
    for index in product(*(range(n) for n in stack.shape[:-2])):
        yield stack[index].mT


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon on some parameters, AdamW on the rest, as one optimizer with one state per parameter."""

    def __init__(
        self,
        matrices: list[Tensor],
        rest: list[Tensor],
        training: Training,
        how: Mapping[str, Any],
    ):
        betas, decay = (training.beta1, training.beta2), training.weight_decay
        groups = decaying(rest, training)
        self.adamw = torch.optim.AdamW(groups, lr=training.lr, betas=betas, fused=True) if groups else None
        self.matrices = matrices
        self.views = [list(single(matrix.detach())) for matrix in matrices]
        views = [view for of_matrix in self.views for view in of_matrix]
        self.muon = torch.optim.Muon(views, lr=training.lr, weight_decay=decay, **how) if views else None
        ours = [{"params": matrices, "lr": training.lr}] if matrices else []
        super().__init__([*ours, *(self.adamw.param_groups if self.adamw else [])], {})
        if self.adamw:
            self.adamw.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        if self.muon is not None:
            self.muon.param_groups[0]["lr"] = self.param_groups[0]["lr"]
            for matrix, views in zip(self.matrices, self.views, strict=True):
                self.lend(matrix, views)
            self.muon.step()
        if self.adamw is not None:
            self.adamw.step()

    def lend(self, matrix: Tensor, views: list[Tensor]) -> None:
        """Give a weight's gradient and momentum to its views; the momentum is one tensor."""
        if matrix.grad is None:  # frozen in this update
            for view in views:
                view.grad = None
            return
        momentum = self.state[matrix].setdefault("momentum_buffer", torch.zeros_like(matrix))
        for view, gradient, buffer in zip(views, single(matrix.grad), single(momentum), strict=True):
            view.grad = gradient
            self.muon.state[view] = {"momentum_buffer": buffer}  # type: ignore[union-attr]
