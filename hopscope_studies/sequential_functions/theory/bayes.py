"""The best prediction if some labels are random: a mixture over the sets of genuine labels (ours; float64 numpy).

Rows of A have the prior N(0, v I). A genuine label is A z + σ ξ. A random one is τ ξ and carries no information about
A. For a known set of genuine labels the posterior of A is normal, and its mean is ridge regression with penalty σ²/v.
After t labels there are 2^t sets. Each is followed exactly, with its posterior probability, by a rank-one update per
label.
"""

from __future__ import annotations

import math

import numpy
from jaxtyping import Float
from numpy import ndarray

Array = ndarray


class Mixture:
    """The posterior of A after some labels: every set of genuine labels with its weight, mean and covariance.

    Args:
        n_outputs: rows of A.
        n_features: columns of A.
        weight_variance: v, the variance of the entries of A.
        noise: σ, the noise of genuine labels.
        replaced: the share of random labels; at 0 the only set is that of all labels.
        random_size: τ, standard deviation of random labels.
    """

    def __init__(
        self,
        n_outputs: int,
        n_features: int,
        *,
        weight_variance: float,
        noise: float,
        replaced: float = 0.0,
        random_size: float = 1.0,
    ):
        self.noise, self.replaced, self.random_size = noise, replaced, random_size
        self.log_weights = numpy.zeros(1)
        self.means = numpy.zeros((1, n_outputs, n_features))
        self.covariances = weight_variance * numpy.eye(n_features)[None]

    def predict(self, z: Float[Array, "feature"]) -> Float[Array, "output"]:
        """The posterior mean of A z."""
        weights = numpy.exp(self.log_weights - self.log_weights.max())
        found: Array = numpy.einsum("s,sof,f->o", weights / weights.sum(), self.means, z)
        return found

    def observe(self, z: Float[Array, "feature"], label: Float[Array, "output"]) -> None:
        """Update on a label of z: every set splits into two, with the label and without."""
        seen = self.covariances @ z  # set feature
        variance = seen @ z + self.noise**2
        error = label - self.means @ z
        genuine = self.log_weights + normal(error, variance)
        gain = seen / variance[:, None]
        means = self.means + error[:, :, None] * gain[:, None, :]
        covariances = self.covariances - gain[:, :, None] * seen[:, None, :]
        if self.replaced:
            size = numpy.full(len(genuine), self.random_size**2)
            random = self.log_weights + math.log(self.replaced) + normal(numpy.broadcast_to(label, error.shape), size)
            genuine = numpy.concatenate([genuine + math.log1p(-self.replaced), random])
            means = numpy.concatenate([means, self.means])
            covariances = numpy.concatenate([covariances, self.covariances])
        self.log_weights, self.means, self.covariances = genuine, means, covariances


def means_of_genuine(
    z: Float[Array, "row t feature"], labels: Float[Array, "row t output"], *, weight_variance: float, noise: float
) -> Float[Array, "row t output"]:
    """The posterior mean of each A z_t after the labels before it, all genuine: `Mixture`, for many rows at once."""
    rows, _, n_features = z.shape
    mean = numpy.zeros((rows, labels.shape[2], n_features))
    covariance = numpy.broadcast_to(weight_variance * numpy.eye(n_features), (rows, n_features, n_features))
    predicted = []
    for asked, label in zip(z.swapaxes(0, 1), labels.swapaxes(0, 1), strict=True):
        predicted.append(numpy.einsum("rof,rf->ro", mean, asked))
        seen = numpy.einsum("rfg,rg->rf", covariance, asked)
        gain = seen / (numpy.einsum("rf,rf->r", seen, asked) + noise**2)[:, None]
        mean = mean + (label - predicted[-1])[:, :, None] * gain[:, None, :]
        covariance = covariance - gain[:, :, None] * seen[:, None, :]
    return numpy.stack(predicted, 1)


def normal(error: Float[Array, "set output"], variance: Float[Array, "set"]) -> Float[Array, "set"]:
    """The log density of independent normal components."""
    found: Array = -0.5 * ((error**2).sum(-1) / variance + error.shape[-1] * numpy.log(2 * numpy.pi * variance))
    return found
