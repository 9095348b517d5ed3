"""An MLP's output as a sum of interpretable vectors: regression over prompts with an intercept (Lv et al., 2024).

The paper explains the output of an MLP after the topic heads by their outputs, each with a coefficient, and an
intercept that is the same for all prompts of a task. A coefficient below 0 erases a head's output, and one above 0
amplifies it. The intercept is what the MLP adds whatever the subject is. Two further vectors here are the unembeddings
of the subject and of the answer; the latter shows the function that is applied to the subject. All coefficients are
fitted over facts and dimensions at once, by least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.language.lens.estimates import Number, over_needles

RIDGE = 1e-6  # ridge, relative to the mean diagonal; if two vectors are equal, each gets half


@dataclass(frozen=True)
class Design:
    """An MLP's output and the explaining vectors, prompt by prompt.

    Attributes:
        names: the names of the vectors.
        x: the vectors; shape (prompt, vector, d_model).
        y: the MLP's output; shape (prompt, d_model).
        batches: the index of each prompt's sentence; every sentence has its own intercept.
        fitted: whether a prompt is fitted; the others judge.
        groups: each prompt's group; intervals resample groups.
    """

    names: list[str]
    x: Tensor
    y: Tensor
    batches: Tensor
    fitted: Tensor
    groups: list[int]

    def only(self, names: Sequence[str]) -> Design:
        """The same with only some of the vectors."""
        return self.with_x(self.x[:, [self.names.index(name) for name in names]], list(names))

    def with_x(self, x: Tensor, names: list[str]) -> Design:
        return Design(names, x, self.y, self.batches, self.fitted, self.groups)

    def turned(self) -> Design:
        """The same fitted on the prompts that judge."""
        return Design(self.names, self.x, self.y, self.batches, ~self.fitted, self.groups)

    def mixed(self, seed: int, names: Sequence[str]) -> Design:
        """The same with some vectors from other prompts of the same sentence and half, a control."""
        rows = torch.arange(len(self.x))
        drawn = generator(seed, "mixed facts")
        for number in self.batches.unique().tolist():
            for half in (True, False):
                (some,) = ((self.batches == number) & (self.fitted == half)).nonzero(as_tuple=True)
                order = some[torch.randperm(len(some), generator=drawn)]
                rows[order] = order.roll(1)
        x, which = self.x.clone(), [self.names.index(name) for name in names]
        x[:, which] = self.x[rows][:, which]
        return self.with_x(x, self.names)

    def means(self, values: Tensor) -> Tensor:
        """The means over fitted prompts of the same sentence; shape (prompt, …)."""
        found = torch.zeros_like(values)
        for number in self.batches.unique().tolist():
            here = self.batches == number
            if (here & self.fitted).any():
                found[here] = values[here & self.fitted].mean(0)
        return found

    def products(self) -> Tensor:
        """Products of centred inputs with each other and with the output, and the output's square; prompt product."""
        x, y = self.x - self.means(self.x), self.y - self.means(self.y)
        parts = [torch.einsum("pkd,pjd->pkj", x, x).flatten(1), torch.einsum("pkd,pd->pk", x, y)]
        return torch.cat([*parts, y.square().sum(1, keepdim=True)], 1).double()

    def unpacked(self, means: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`products`, or means of them, as three tensors: (…, vector, vector), (…, vector) and (…)."""
        k = len(self.names)
        return means[..., : k * k].unflatten(-1, (k, k)), means[..., k * k : -1], means[..., -1]

    def solved(self, means: Tensor) -> Tensor:
        """The coefficients, by least squares; shape (…, vector)."""
        among, with_y, _ = self.unpacked(means)
        ridge = RIDGE * among.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None] + 1e-12
        eye = torch.eye(among.shape[-1], dtype=among.dtype)
        return torch.linalg.solve(among + ridge * eye, with_y[..., None])[..., 0]

    def left(self) -> Tensor:
        """For prompts that judge, the squares that the fit leaves unexplained, and all squares; shape (prompt, 2)."""
        products = self.products()
        numbers = self.solved(products[self.fitted].mean(0))
        among, with_y, square = self.unpacked(products[~self.fitted])
        error = square - 2 * with_y @ numbers + torch.einsum("pkj,k,j->p", among, numbers, numbers)
        return torch.stack([error, square], 1)

    @property
    def judges(self) -> list[int]:
        """The groups of the prompts that judge."""
        return [group for group, fitted in zip(self.groups, self.fitted.tolist(), strict=True) if not fitted]

    def explained(self) -> Number:
        """R² on prompts that were not fitted: 1 minus the unexplained share of the squares."""
        return over_needles(lambda means: 1 - means[:, 0] / means[:, 1], self.left(), self.judges)

    def gain(self, name: str) -> Number:
        """The gain in R² from one vector, on prompts that were not fitted."""
        without = self.only([one for one in self.names if one != name])
        rows = torch.cat([without.left()[:, :1], self.left()], 1)
        return over_needles(lambda means: (means[:, 0] - means[:, 1]) / means[:, 2], rows, self.judges)

    def number(self, name: str) -> Number:
        """A vector's coefficient, fitted on the prompts that judge, which chose nothing."""
        other = self.turned()

        def of(means: Tensor) -> Tensor:
            return self.solved(means)[..., self.names.index(name)]

        return over_needles(of, other.products()[other.fitted], self.judges)

    def intercepts(self) -> Tensor:
        """The intercept of every prompt's sentence; shape (prompt, d_model)."""
        numbers = self.solved(self.products()[self.fitted].mean(0)).to(self.y.dtype)
        return self.means(self.y) - torch.einsum("pkd,k->pd", self.means(self.x), numbers)


def each(design: Design, names: Sequence[str], of: Callable[[Design], Number], draws: int, seed: int) -> list[float]:
    """A statistic with some vectors shuffled, several times."""
    return [of(design.mixed(100 * seed + draw, names))["mean"] for draw in range(draws)]
