"""Predictions without training: trivial ones, least squares and ridge on windows, one step of descent, Bayes' rule.

All are float64 and computed from the inputs that a model sees; shapes are (sequence, place, component), and the first
place is the second x. The posterior mean follows every set of labels that may be genuine (`bayes`).
"""

from __future__ import annotations

from functools import cache

import numpy
import torch
from jaxtyping import Float
from numpy import ndarray

from hopscope.core.seeds import generator
from hopscope.tasks.base import Batch
from hopscope.theory.least_squares import least_squares, ridge
from hopscope_studies.sequential_functions.tasks.self_generated import SelfGenerated

Predictions = Float[ndarray, "sequence place component"]
Tokens = Float[ndarray, "sequence position d_input"]


def predictions(task: SelfGenerated, batch: Batch) -> dict[str, Predictions]:
    """Every prediction by name."""
    tokens = batch.inputs.double().numpy()
    labels = tokens[:, 1:, task.d_x :]  # the label before each place asked
    earlier = numpy.concatenate([numpy.zeros_like(labels[:, :1]), labels[:, :-1]], 1)
    return {
        "zero": numpy.zeros_like(labels),
        "the last label": labels,
        "minus the last label": -labels,
        "the label before the last": earlier,
        "least squares": by_place(task, tokens, 0.0),
        "ridge": by_place(task, tokens, penalty(task)),
        "one step of descent": one_step(task, tokens, best_rate(task)),
        "posterior mean": numpy.array([task.brute_force(one.tolist()) for one in tokens], dtype=float),
    }


def errors(task: SelfGenerated, batch: Batch) -> dict[str, list[float]]:
    """The mean squared error of every prediction, by place."""
    targets = batch.targets.double().numpy()
    return {name: ((said - targets) ** 2).mean((0, 2)).tolist() for name, said in predictions(task, batch).items()}


def penalty(task: SelfGenerated) -> float:
    """The variance of the noise over that of the weights."""
    return task.noise**2 * 2 * task.d_x


def windows(task: SelfGenerated, tokens: Tokens) -> Float[ndarray, "sequence place feature"]:
    """x and the x before it, at every place asked."""
    x = tokens[:, :, : task.d_x]
    return numpy.concatenate([x[:, 1:], x[:, :-1]], -1)


def by_place(task: SelfGenerated, tokens: Tokens, penalised: float) -> Predictions:
    """Minimum-norm least squares on the windows and labels so far, or ridge regression with a penalty."""
    seen, labels = windows(task, tokens), tokens[:, 2:, task.d_x :]
    found = numpy.zeros((*seen.shape[:2], task.d_x))
    for one, (z, y) in enumerate(zip(seen, labels, strict=True)):
        for place in range(1, len(z)):
            told = (z[:place], y[:place], z[place])
            found[one, place] = ridge(*told, penalised) if penalised else least_squares(*told)
    return found


def one_step(task: SelfGenerated, tokens: Tokens, rate: float) -> Predictions:
    """One step of gradient descent from 0 on the sum of squared errors so far: rate Σ y_i (z_i·z)."""
    seen, labels = windows(task, tokens), tokens[:, 2:, task.d_x :]
    alike = numpy.tril(seen @ seen.transpose(0, 2, 1), -1)[:, :, :-1]  # sequence place earlier
    found: ndarray = rate * alike @ labels
    return found


@cache
def best_rate(task: SelfGenerated, size: int = 2000) -> float:
    """The rate with the least error of one step, over all places with genuine labels: a fit on fixed sequences."""
    batch = task.but(replaced=0.0).sample(size, generator(0, "rate"))
    said = one_step(task, batch.inputs.double().numpy(), 1.0)
    return float((said * batch.targets.double().numpy()).sum() / (said**2).sum())


# The source's own sequences --------------------------------------------------------------------------------------

#: Squared error by place of the model released by Campbell et al., on `seq_rec_linear` (their `eval.ipynb`).
RELEASED = (1.00, 0.82, 0.44, 0.25, 0.14, 0.11, 0.09, 0.08, 0.08, 0.07, 0.07)


def source_sequences(size: int, seed: int, n: int = 20, length: int = 11) -> Float[ndarray, "sequence x component"]:
    """Unit vectors x_(t+1) = W x_t / |W x_t|, drawn as by their `seq_rec_linear`, with a W for every sequence.

    W is V diag(λ) V^T of a normal matrix's real eigenvalues and vectors (of a complex pair, real and imaginary part),
    λ clipped to ±1 and entries to ±½. There is one x more than places asked.
    """
    random = generator(seed, "source")
    found = []
    for drawn in torch.randn(size, n, n, generator=random, dtype=torch.float64).numpy():
        values, vectors = numpy.linalg.eig(drawn)
        real = numpy.where(values.imag < 0, -vectors.imag, vectors.real)
        matrix = (real @ numpy.diag(numpy.clip(values.real, -1, 1)) @ real.T).clip(-0.5, 0.5)
        x = [torch.randn(n, generator=random, dtype=torch.float64).numpy()]
        for _ in range(length):
            made = matrix @ x[-1]
            x.append(made / numpy.linalg.norm(made))
        found.append(x)
    return numpy.array(found)


def source_errors(size: int, seed: int) -> dict[str, list[float]]:
    """Squared error by place, where predicting 0 costs 1: of the value two places before, and of least squares."""
    x = source_sequences(size, seed)
    asked, before = x[:, 1:], numpy.concatenate([numpy.zeros_like(x[:, :1]), x[:, :-2]], 1)
    before[:, 1] = x[:, 0] / numpy.linalg.norm(x[:, 0], axis=-1, keepdims=True)
    fitted = numpy.zeros_like(asked)
    for one, sequence in enumerate(x):
        for place in range(1, asked.shape[1]):
            fitted[one, place] = least_squares(sequence[:place], sequence[1 : place + 1], sequence[place])
    found = {"two places before": before, "least squares": fitted}
    return {name: ((said - asked) ** 2).sum(-1).mean(0).tolist() for name, said in found.items()}
