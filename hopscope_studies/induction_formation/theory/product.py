"""The toy model of the phase change: a product of three vectors, none of which is learnt before the others.

Singh et al. (ICML 2024, arXiv:2404.07129, section 5): ½ mean (a_i b_j c_k − a*_i b*_j c*_k)² is minimised by gradient
descent. Each vector's gradient is proportional to the overlaps of the other two with their targets, so all three wait
for each other. A vector that is clamped at its target stands for a clamped part of the circuit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.experiments.long_table import entry
from hopscope.experiments.reports import Report

#: What is clamped, in the order in which learning should get faster.
CLAMPED = ("", "c", "bc")


@dataclass(frozen=True)
class Product(Report):
    """Steps of gradient descent until the loss is half of the loss at 0, by which vectors are clamped."""

    label, file = "three-vectors", "steps.json"

    d: int = setting(20, "numbers of each vector", low=1)
    lr: float = setting(1.0, "learning rate", low=0)
    most: int = setting(4000, "steps at most", low=1)
    seed: int = setting(0, "of targets and starts, N(0, 1)", low=0)

    def report(self) -> dict[str, Any]:
        steps = {clamped or "none": self.half(clamped) for clamped in CLAMPED}
        return {**steps, "closed": self.closed()}

    def about(self) -> dict[str, Any]:
        return {"seed": self.seed, "condition": "toy"}

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        """A row for each set of clamped vectors."""
        for name, steps in report.items():
            yield entry({}, "closed", "bc", steps) if name == "closed" else entry({}, "toy", name, steps)

    def vectors(self) -> tuple[Tensor, Tensor]:
        """Targets and starting values; each is a matrix with rows for a, b and c, in float64."""
        random = generator(self.seed, "product")
        shape = (3, self.d)
        return tuple(torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(2))  # type: ignore[return-value]

    def half(self, clamped: Collection[str]) -> int | None:
        """The first step with a loss below half of the loss at 0; None if there is none within the allowed steps."""
        targets, now = self.vectors()
        free = torch.tensor([name not in clamped for name in "abc"])[:, None]
        now = torch.where(free, now, targets)
        enough = loss(torch.zeros_like(targets), targets) / 2
        for step in range(1, self.most + 1):
            now = now - self.lr * free * slopes(now, targets)
            if loss(now, targets) < enough:
                return step
        return None

    def closed(self) -> int:
        """As `half` with b and c clamped, in closed form: a's error shrinks by 1 − lr ‖b*‖² ‖c*‖² / d³ per step."""
        targets, now = self.vectors()
        rate = self.lr * float(targets[1:].square().sum(1).prod()) / self.d**3
        far = float((now[0] - targets[0]).square().sum() / targets[0].square().sum())
        return max(1, math.floor(math.log(0.5 / far) / (2 * math.log(abs(1 - rate)))) + 1)


def loss(now: Tensor, targets: Tensor) -> float:
    """The loss ½ mean (a b c − a* b* c*)², from inner products alone."""
    own, theirs, both = (float((x * y).sum(1).prod()) for x, y in ((now, now), (targets, targets), (now, targets)))
    return (own + theirs - 2 * both) / 2 / now.shape[1] ** 3


def slopes(now: Tensor, targets: Tensor) -> Tensor:
    """The loss's gradient: for a, (a ‖b‖² ‖c‖² − a* (b·b*) (c·c*)) / d³; the others by symmetry."""
    own, both = now.square().sum(1), (now * targets).sum(1)
    others = [[j for j in range(3) if j != i] for i in range(3)]
    rows = [now[i] * own[js].prod() - targets[i] * both[js].prod() for i, js in enumerate(others)]
    return torch.stack(rows) / now.shape[1] ** 3
