"""One step of gradient descent on linear regression, in closed form (after von Oswald et al., 2023, section 3).

From weights 0, one step of rate η on the loss Σ (w·x_i − y_i)² / 2N predicts η S w · x, where S = Σ x_i x_i^T / N. Its
error is (I − η S) w · x. With w ~ N(0, I) and independent components of x, even in ±a/2, of variance s² = a²/12, half
the expected squared error is

    s²/2 (d − 2 η s² d + η² d s⁴ c),   c = 1 + (d − 2 + κ) / N,

for E tr S² = d s⁴ c, where κ = E x⁴ / s⁴ = 9/5 is the kurtosis of even numbers. The best rate is 1 / (s² c), which
leaves (d s² / 2) (1 − 1/c).
"""

from __future__ import annotations

#: E x⁴ / (E x²)² of numbers even in an interval around 0.
EVEN_KURTOSIS = 9 / 5


def variance(input_range: float) -> float:
    """Of numbers even in ±`input_range` / 2."""
    return input_range**2 / 12


def spread(d: int, n: int) -> float:
    """c: by how much E tr S² exceeds that of infinitely many examples."""
    return 1 + (d - 2 + EVEN_KURTOSIS) / n


def zero_loss(d: int, input_range: float = 1.0) -> float:
    """Half the expected squared error of predicting 0."""
    return d * variance(input_range) / 2


def best_rate(d: int, n: int, input_range: float = 1.0) -> float:
    """The rate η at which one step is best."""
    return 1 / (variance(input_range) * spread(d, n))


def one_step_loss(d: int, n: int, input_range: float = 1.0, rate: float | None = None) -> float:
    """Half the expected squared error after one step, at the best rate or a given one."""
    scaled = (best_rate(d, n, input_range) if rate is None else rate) * variance(input_range)
    return zero_loss(d, input_range) * (1 - 2 * scaled + scaled**2 * spread(d, n))
