"""The best predictions of a linear function from examples: least squares and ridge regression, in float64.

With a normal prior on the weights and normal noise, the posterior mean is that of ridge regression, and minimises the
expected squared error (Hoerl & Kennard, 1970; Bishop, 2006, section 3.3). If the examples do not determine the weights,
least squares takes the solution of least norm, which is the limit of the posterior mean as the noise goes to 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from jaxtyping import Float
from numpy import ndarray

Rows = Float[ndarray, "example feature"] | Sequence[Sequence[float]]


def least_squares(
    x: Rows, y: Float[ndarray, "example output"], asked: Float[ndarray, "feature"]
) -> Float[ndarray, "output"]:
    """The prediction at the input `asked` by the least-squares solution of least norm."""
    weights = numpy.linalg.lstsq(numpy.asarray(x, float), numpy.asarray(y, float), rcond=None)[0]
    return numpy.asarray(asked, float) @ weights


def ridge(
    x: Rows, y: Float[ndarray, "example output"], asked: Float[ndarray, "feature"], penalty: float
) -> Float[ndarray, "output"]:
    """The prediction at the input `asked` by ridge regression.

    `penalty`, above 0, is the variance of the noise divided by that of each weight under the prior.
    """
    x, y = numpy.asarray(x, float), numpy.asarray(y, float)
    weights = numpy.linalg.solve(x.T @ x + penalty * numpy.eye(x.shape[1]), x.T @ y)
    return numpy.asarray(asked, float) @ weights
