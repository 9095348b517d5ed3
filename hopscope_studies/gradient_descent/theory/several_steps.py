"""Several steps of gradient descent, and of GD++, on linear regression (von Oswald et al., 2023, section 4, appendix).

GD++ also turns the inputs before each step: x ← (I − γ S) x, where S = Σ x_i x_i^T / N. All matrices are functions of
the S that the layer began with, so an error is p(S) w · x for a polynomial p, and half its expected square is

    s²/2 E Σ_k p(λ_k)²,   s² the variance of a component of x, λ_k the eigenvalues of S.

The expectation is over the spectra of many S; rates are found by minimising it (L-BFGS, float64).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope_studies.gradient_descent.theory.one_step import best_rate, variance

SPECTRA = 20_000  # matrices S that expectations are taken over


@dataclass(frozen=True)
class Rates:
    """A step of size `eta` per layer, and by how much its inputs are turned afterwards; all 0 for plain steps.

    Attributes:
        etas: η of each layer.
        gammas: γ of each layer; the last one's has no effect.
        loss: half the expected squared error.
    """

    etas: tuple[float, ...]
    gammas: tuple[float, ...]
    loss: float


def error(
    eigenvalues: Float[Tensor, "... d"], etas: Sequence[float | Tensor], gammas: Sequence[float | Tensor]
) -> Float[Tensor, "... d"]:
    """p at the eigenvalues of S: the share of each direction of w that is still unexplained after all layers."""
    left, turned = torch.ones_like(eigenvalues), torch.ones_like(eigenvalues)
    for eta, gamma in zip(etas, gammas, strict=True):
        seen = eigenvalues * turned**2  # the spectrum of S, of inputs as they are by now
        left, turned = left - eta * left * seen, turned - gamma * seen * turned
    return left


def expected_loss(
    eigenvalues: Float[Tensor, "matrix d"], etas: Sequence[float | Tensor], gammas: Sequence[float | Tensor], s2: float
) -> Float[Tensor, ""]:
    """Half the expected squared error."""
    return s2 / 2 * error(eigenvalues, etas, gammas).square().sum(-1).mean()


@cache
def spectra(d: int, n: int, input_range: float, count: int = SPECTRA) -> Float[Tensor, "matrix d"]:
    """Eigenvalues of S for many draws of n inputs, in float64."""
    random = generator(0, "spectra")
    x = input_range * (torch.rand(count, n, d, generator=random, dtype=torch.float64) - 0.5)
    return torch.linalg.eigvalsh(x.mT @ x / n)


@cache
def best_rates(
    d: int, n: int, layers: int, *, turning: bool, looped: bool, input_range: float = 1.0, count: int = SPECTRA
) -> Rates:
    """The rates at which that many steps leave the least loss.

    Args:
        d: components of x.
        n: examples.
        layers: steps.
        turning: whether inputs are turned between steps (GD++), or are not (gradient descent).
        looped: whether all steps have the same rates.
        input_range: width of the interval that components of x are drawn from.
        count: matrices S that the expectation is over.
    """
    eigenvalues, s2 = spectra(d, n, input_range, count), variance(input_range)
    own, start = 1 if looped else layers, best_rate(d, n, input_range)
    etas = torch.full((own,), start, dtype=torch.float64, requires_grad=True)
    gammas = torch.full((own,), start / 4 if turning else 0.0, dtype=torch.float64, requires_grad=turning)
    free = [etas, gammas] if turning else [etas]
    search = torch.optim.LBFGS(free, max_iter=300, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        return expected_loss(eigenvalues, list(etas.expand(layers)), list(gammas.expand(layers)), s2)

    def closure() -> float:
        search.zero_grad()
        (found := loss()).backward()  # type: ignore[no-untyped-call]
        return float(found.detach())

    search.step(closure)
    with torch.no_grad():
        return Rates(tuple(etas.expand(layers).tolist()), tuple(gammas.expand(layers).tolist()), float(loss()))
