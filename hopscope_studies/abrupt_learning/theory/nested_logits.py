"""The model of three nested logits: why the change is abrupt, and what starts it (after Reddy, 2024, section 4).

For N pairs and L labels three numbers are learnt: β, how sharply a label looks back at its item; α, how sharply the
query matches; ξ, how strongly attended labels are answered.

    p = e^β / (e^β + 2N − 1)                        attention of a label to its item
    A = e^(αp) / (e^(αp) + N − 1)                   attention of the query to the right label
    q = e^(ξA) / (e^(ξA) + (N − 1) e^(ξ(1 − A)/(N − 1)) + L − N)        probability of the right answer

The form is ours, because the paper's appendix leaves it open. At the start, where α = 0, the slope of −ln q in ξ is 1/L
− 1/N. If there are labels outside the context, answering with any label of the context lowers the loss. As ξ grows, the
other two numbers get a gradient as well. With L = N all slopes are 0, so the start is a saddle. The paper calls this
first step, which is then missing, the intrinsic curriculum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import setting
from hopscope.experiments.long_table import entry
from hopscope.experiments.reports import Report

KEPT = 10  # the loss of every tenth step is kept


@dataclass(frozen=True)
class NestedLogits(Report):
    """Gradient descent on −ln q from three equal small numbers, in float64."""

    label, file = "nested-logits", "course.json"

    n_pairs: int = setting(8, "N", low=2)
    n_labels: int = setting(32, "L", low=2)
    start: float = setting(0.01, "of β, α and ξ", low=0)
    lr: float = setting(0.5, "learning rate", low=0)
    steps: int = setting(2500, "of gradient descent", low=1)

    def report(self) -> Any:
        """Rows of step, loss, β, α and ξ."""
        now, course = torch.full((3,), self.start, dtype=torch.float64), []
        for step in range(self.steps + 1):
            value, slope = self.loss_and_slope(now)
            course.append([step, value, *now.tolist()])
            now = now - self.lr * slope
        return course[::KEPT]

    def about(self) -> dict[str, Any]:
        return {"seed": 0, "condition": "nested"}

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        """The loss over training as rows of the table; their `name` is L."""
        for step, loss, *_ in report:
            yield entry({}, "loss", str(self.n_labels), loss, int(step))

    def loss(self, numbers: Tensor) -> Tensor:
        """−ln q of (β, α, ξ)."""
        beta, alpha, xi = numbers
        n, others = self.n_pairs, self.n_labels - self.n_pairs
        p = beta.exp() / (beta.exp() + 2 * n - 1)
        a = (alpha * p).exp() / ((alpha * p).exp() + n - 1)
        right, wrong = (xi * a).exp(), (n - 1) * (xi * (1 - a) / (n - 1)).exp()
        return (right + wrong + others).log() - xi * a

    def loss_and_slope(self, numbers: Tensor) -> tuple[float, Tensor]:
        """The loss and its gradient."""
        at = numbers.clone().requires_grad_()
        value = self.loss(at)
        (slope,) = torch.autograd.grad(value, at)
        return float(value.detach()), slope
