"""What can be known of a linear function from examples: least squares and ridge regression, in float64.

With a normal prior on weights and normal noise the posterior mean is ridge regression, and so the best prediction under
squared error (Hoerl & Kennard, 1970; Bishop, 2006, section 3.3). Where the examples leave directions open, least
squares means the solution of least norm: the posterior mean as noise goes to 0.
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
    """The prediction at `asked` of the least-squares solution of least norm."""
    weights = numpy.linalg.lstsq(numpy.asarray(x, float), numpy.asarray(y, float), rcond=None)[0]
    found: ndarray = numpy.asarray(asked, float) @ weights
    return found


def ridge(
    x: Rows, y: Float[ndarray, "example output"], asked: Float[ndarray, "feature"], penalty: float
) -> Float[ndarray, "output"]:
    """The prediction at `asked` of ridge regression; `penalty` is the noise's variance over the weights'."""
    x, y = numpy.asarray(x, float), numpy.asarray(y, float)
    weights = numpy.linalg.solve(x.T @ x + penalty * numpy.eye(x.shape[1]), x.T @ y)
    found: ndarray = numpy.asarray(asked, float) @ weights
    return found
