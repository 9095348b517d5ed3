"""Gradient descent as weights, and trained weights in the same terms (von Oswald et al., 2023, section 2, figure 2).

With W_K = W_Q = diag(I, 0), W_V = −diag(γ I, η) and P = I / N a layer turns inputs by I − γ S and subtracts from every
y what a step of rate η explains; γ = 0 is gradient descent (proposition 1). A layer uses its weights only in the two
products W_K^T W_Q and P W_V. These are determined up to a factor that can be moved from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope_studies.gradient_descent.models.linear_self_attention import (
    LinearSelfAttention,
    LinearSelfAttentionShape,
)
from hopscope_studies.gradient_descent.tasks.linear_regression import LinearRegression


def constructed(
    task: LinearRegression, etas: Sequence[float], gammas: Sequence[float] | None = None
) -> LinearSelfAttention:
    """The model that takes these steps of gradient descent, or of GD++ where inputs are turned."""
    d, eye = task.d_x, torch.eye(task.d_input)
    values = [
        torch.diag(torch.tensor([-gamma] * d + [-eta]))
        for eta, gamma in zip(etas, gammas or [0.0] * len(etas), strict=True)
    ]
    looking = torch.diag(torch.tensor([1.0] * d + [0.0]))
    return of_products(task, [looking] * len(etas), [eye / task.n_points @ value for value in values])


def of_products(
    task: LinearRegression, attend: Sequence[Float[Tensor, "d d"]], write: Sequence[Float[Tensor, "d d"]]
) -> LinearSelfAttention:
    """A model of given products W_K^T W_Q and P W_V, layer by layer."""
    model = LinearSelfAttention(LinearSelfAttentionShape(n_layers=len(attend)), task.d_input)
    eye = torch.eye(task.d_input).expand(len(attend), -1, -1)
    weights = {"W_K": eye, "W_Q": torch.stack(list(attend)), "W_V": torch.stack(list(write)), "P": eye}
    model.load_state_dict(weights)
    return model


def products(model: LinearSelfAttention) -> tuple[Float[Tensor, "layer d d"], Float[Tensor, "layer d d"]]:
    """W_K^T W_Q and P W_V, scaled so that the former has mean diagonal 1 in x; that leaves every output as it is."""
    attend, write = model.W_K.mT @ model.W_Q, model.P @ model.W_V
    scale = attend[:, :-1, :-1].diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    return (attend / scale).detach(), (write * scale).detach()


def halfway(task: LinearRegression, model: LinearSelfAttention, other: LinearSelfAttention) -> LinearSelfAttention:
    """The model whose products are the means of two models' products."""
    mine, theirs = products(model), products(other)
    return of_products(task, list((mine[0] + theirs[0]) / 2), list((mine[1] + theirs[1]) / 2))


@torch.no_grad()
def repeated(
    model: LinearSelfAttention,
    inputs: Float[Tensor, "batch position d_token"],
    times: int,
    damping: float,
    *,
    y_alone: bool = False,
) -> Float[Tensor, "time batch"]:
    """Answers after every application of a one-layer model to its own tokens, what it adds damped by a factor.

    With `y_alone` inputs stay as they are, as in gradient descent, whatever a trained layer would write there.
    """
    answers, e = [], inputs
    for _ in range(times):
        added = damping * (model.layer(e, 0, None) - e)
        if y_alone:
            added[..., :-1] = 0.0
        e = e + added
        answers.append(-e[:, -1, -1])
    return torch.stack(answers)
