"""Losses and shares of right answers, measured on some sequences, with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.core.intervals import Z_95, wilson


@dataclass(frozen=True)
class Estimate:
    """A mean and its confidence interval.

    Attributes:
        mean: the mean of the measurements.
        low: the lower end of its 95 % confidence interval.
        high: the upper end.
        n: the number of measurements.
    """

    mean: float
    low: float
    high: float
    n: int


class Loss(Estimate):
    """A loss over sequences, each of which is one measurement; the interval is a normal approximation."""

    @classmethod
    def of(cls, losses: Float[Tensor, "batch"]) -> Loss:
        mean, n = float(losses.mean()), len(losses)
        margin = 1.96 * float(losses.std()) / math.sqrt(n) if n > 1 else math.inf
        return cls(mean, mean - margin, mean + margin, n)


class Share(Estimate):
    """A share of answers, 0–1; the interval is Wilson's, with answers taken as independent."""

    @classmethod
    def of(cls, hits: Bool[Tensor, "..."], z: float = Z_95) -> Share:
        """The share of true entries, with an interval of z standard errors."""
        n, right = hits.numel(), int(hits.sum())
        return cls(right / n if n else math.nan, *wilson(right, n, z), n)


@dataclass(frozen=True)
class Account:
    """The measurements of one forward pass over sequences under a change.

    Attributes:
        losses: the loss of every sequence.
        hop_losses: the mean loss of each hop over all sequences.
        hits: for every answer, whether it is right.
    """

    losses: Float[Tensor, "batch"]
    hop_losses: dict[str, float]
    hits: Bool[Tensor, "answer"]


def pooled(one: Account, two: Account) -> Account:
    """One account for two accounts of different sequences."""
    n, m = len(one.losses), len(two.losses)
    either = {**two.hop_losses, **one.hop_losses}  # a hop may occur in only one of the two
    hops = {name: (n * loss + m * two.hop_losses.get(name, loss)) / (n + m) for name, loss in either.items()}
    return Account(torch.cat([one.losses, two.losses]), hops, torch.cat([one.hits, two.hits]))


def rounded(loss: float) -> float:
    """Round a loss to six decimals, or to four significant digits if it is small."""
    return round(loss, 6) if abs(loss) >= 1e-3 or not math.isfinite(loss) else float(f"{loss:.4g}")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The test results of a circuit, be it of paths or of components.

    Attributes:
        losses: on the report's sequences, by test.
        accuracies: shares of right answers, by the same names.
        hop_losses: partial losses, by the same names.
        verdict: `circuit`, `none` or, only for paths, `partial` (`hopscope.circuits.verdict`).
        reason: the reason for the verdict in words, and what to try.
        threshold: the loss below which a circuit is accepted.
    """

    losses: dict[str, Loss]
    accuracies: dict[str, Share]
    hop_losses: dict[str, dict[str, float]]
    verdict: str
    reason: str
    threshold: float

    @property
    def accepted(self) -> bool:
        return self.verdict == "circuit"

    def judged(self) -> dict[str, Any]:
        """The entries that circuit.json, edges.json and nodes.json have in common."""
        return {
            "loss": {name: rounded(loss.mean) for name, loss in self.losses.items()},
            "interval": {name: [rounded(loss.low), rounded(loss.high)] for name, loss in self.losses.items()},
            "accuracy": {name: round(share.mean, 6) for name, share in self.accuracies.items()},
            "hop_losses": self.hop_losses,
            "verdict": self.verdict,
            "reason": self.reason,
            "threshold": self.threshold,
        }
