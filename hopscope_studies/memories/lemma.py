"""A check of the lemma of `memories`: gradients are sums of outer products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.experiments.reports import Report
from hopscope.theory import memories


@dataclass(frozen=True)
class Lemma(Report):
    """The gradient as a sum of outer products against autograd's, in float64, for a matrix alone and between layers."""

    label = "lemma"
    file = "errors.json"

    n: int = setting(24, "inputs")
    n_classes: int = setting(10, "outputs")
    d: int = setting(12, "width")
    seed: int = setting(0, "of embeddings, weights and distribution")

    def report(self) -> dict[str, Any]:
        return {"one matrix": self.shallow(), "among layers": self.deep()}

    def rows(self, report: Any) -> list[dict[str, Any]]:
        return [{"memory": what, "error": error} for what, error in report.items()]

    def drawn(self) -> tuple[Tensor, Tensor, Tensor, torch.Generator]:
        """Draw inputs, outputs, and a joint distribution with noisy answers and inputs of unequal frequency."""
        random = generator(self.seed, "lemma")
        inputs = memories.random_rows(self.n, self.d, random).double()
        outputs = memories.random_rows(self.n_classes, self.d, random).double()
        joint = torch.randn(self.n, self.n_classes, generator=random, dtype=torch.float64)
        return inputs, outputs, joint.flatten().softmax(0).view_as(joint), random

    def shallow(self) -> float:
        """The largest difference of any entry of the gradient, for one random matrix."""
        inputs, outputs, joint, random = self.drawn()
        memory = torch.randn(self.d, self.d, generator=random, dtype=torch.float64, requires_grad=True)
        loss = memories.population_loss(memories.scores(memory, outputs, inputs), joint)
        (found,) = torch.autograd.grad(loss, memory)
        return float((found - memories.gradient(memory.detach(), outputs, inputs, joint)).abs().max())

    def deep(self) -> float:
        """As `shallow`, for the middle matrix of three, with tanh and softplus between them."""
        inputs, outputs, joint, random = self.drawn()
        first, middle, last = torch.randn(3, self.d, self.d, generator=random, dtype=torch.float64)
        read = torch.tanh(inputs @ first.T)
        middle.requires_grad_()

        def above(hidden: Tensor) -> Tensor:
            return outputs @ (last @ torch.nn.functional.softplus(hidden))

        scores = torch.stack([above(middle @ x) for x in read])
        (found,) = torch.autograd.grad(memories.population_loss(scores, joint), middle)
        return float((found - memories.deep_gradient(middle.detach(), above, read, joint)).abs().max())
