"""Join × look-up: the plateau as a saddle of two factors, worked out by hand (ours; the problem is Musat's, section 6).

To answer x1, a model needs two things. The *join*: in layer 0 the value position of a fact attends to its key, with a
share p. The *look-up*: in a later layer the query attends to the value position that holds its own symbol. Neither is
useful without the other.

**Join.** A position that sees n positions, and scores one of them w above the rest, gives it the share

    p(w) = e^w / (e^w + n − 1),   p'(w) = p (1 − p).

**Look-up.** A value position holds its key's symbol in proportion to p. With a gain u the query scores the right one of
N candidates u p above the others, and gives it the share q = e^(up) / (e^(up) + N − 1).

**Loss.** The answer is the sum of the candidates by these shares, and symbols are independent with variance 1:

    ℓ(q) = (1 − q)² + (N − 1) ((1 − q) / (N − 1))² = N/(N − 1) (1 − q)².

At u = 0 that is 1 − 1/N, the plateau, whatever p is.

**The other role.** At first the head of layer 0 also contributes to the answers' means. At the queries, which see more
positions, attention to the previous token is wasted. To first order this costs λ p_q(w).

**Flow.** With rates a of the look-up and c of the join, and a wear δ of the look-up (weight decay, and noise):

    du/dt = a s p(w) − δ u,   dw/dt = c (s u p'(w) − λ p_q'(w)),   s = 2N/(N − 1) q (1 − q)².

Each factor grows in proportion to the other. On the plateau s = 2 (N − 1)/N², growth is driven by the product of a
small p and a small u, and there is a saddle. Below it the head is unlearnt before the look-up has grown. Above it both
grow together.

**Two closed forms**, for small p and q = 1/N. Without cost and wear, p = p_0 exp(c u²/2a), and both factors have formed
after t = √(π a / 2c) / (a s p_0): the time is inverse in p_0. With a cost they also form, but late: p first falls to
p_0 exp(−c λ²/(2 a s²)). Only wear makes a true threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[numpy.float64]

GRID = 33  # starts tried in one batch of a search
LEARNT = 2 / 3  # share of the plateau's loss: 0.5 at N = 4, as in the paper's section 7.2


@dataclass(frozen=True)
class Places:
    """The positions of the first step's facts and of the queries, by how many positions each of them sees.

    Attributes:
        chains: N.
        values: the numbers for the value positions of step 1.
        queries: the numbers for the queries.
    """

    chains: int
    values: tuple[int, ...]
    queries: tuple[int, ...]

    @classmethod
    def of(cls, chains: int, hops: int, order: str) -> Places:
        """The places of the retrieval problem under a causal mask: step 1 comes first, last or (shuffled) anywhere."""
        steps = {"nearest_first": [0], "deepest_first": [hops - 1], "shuffled": list(range(hops))}[order]
        values = tuple(2 * (chains * step + fact + 1) for step in steps for fact in range(chains))
        facts = 2 * chains * hops
        return cls(chains, values, tuple(range(facts + 1, facts + chains + 1)))


@dataclass(frozen=True)
class TwoFactor:
    """The model; rates may be arrays, which broadcast, so that many models run at once.

    Attributes:
        places: the positions of facts and queries.
        look_up: a, rate of the look-up's gain, per step.
        join: c, rate of the join's score, per step.
        cost: λ, the cost of attention to the previous token for the head's other role.
        wear: δ, share of the look-up's gain that is lost per step.
        delay: steps until answers are the mean of the candidates; until then nothing is looked up, and only the cost
        and the wear act.
    """

    places: Places
    look_up: ArrayLike
    join: ArrayLike
    cost: ArrayLike = 0.0
    wear: ArrayLike = 0.0
    delay: float = 0.0

    def loss(self, u: ArrayLike, w: ArrayLike) -> Numbers:
        """The loss ℓ of the look-up alone, without the cost."""
        n = self.places.chains
        return n / (n - 1) * (1 - self.found(u, w)) ** 2

    def found(self, u: ArrayLike, w: ArrayLike) -> Numbers:
        """q, the attention to the right candidate."""
        match = numpy.exp(numpy.minimum(numpy.asarray(u) * share(w, self.places.values), 500.0))
        return numpy.asarray(match / (match + self.places.chains - 1))

    def flow(self, u: ArrayLike, w: ArrayLike, time: float = math.inf) -> tuple[Numbers, Numbers]:
        """(du/dt, dw/dt), at a time in steps."""
        n, q = self.places.chains, self.found(u, w)
        pull = 2 * n / (n - 1) * q * (1 - q) ** 2 * (time >= self.delay)
        gain = numpy.asarray(u, float)
        du = numpy.asarray(self.look_up) * pull * share(w, self.places.values) - numpy.asarray(self.wear) * gain
        worth = pull * gain * slope(w, self.places.values) - numpy.asarray(self.cost) * slope(w, self.places.queries)
        return du, numpy.asarray(self.join) * worth

    def course(self, start: ArrayLike, steps: int, stride: int = 1) -> tuple[Numbers, Numbers]:
        """(u, w) from u = 0 and w = start, every `stride` steps, time first; integrated by Runge and Kutta's method."""
        rates = (self.look_up, self.join, self.cost, self.wear)
        shape = numpy.broadcast_shapes(*(numpy.shape(part) for part in (start, *rates)))
        u, w = numpy.zeros(shape), numpy.broadcast_to(numpy.asarray(start, float), shape).copy()
        found = [(u, w)]
        for index in range(steps // stride):
            u, w = self.advanced(u, w, stride, index * stride)
            found.append((u, w))
        return numpy.stack([u for u, _ in found]), numpy.stack([w for _, w in found])

    def advanced(self, u: Numbers, w: Numbers, dt: float, time: float = math.inf) -> tuple[Numbers, Numbers]:
        """One step of the classical method of fourth order, entirely before or entirely after the end of the delay."""
        k1 = self.flow(u, w, time)
        k2 = self.flow(u + dt / 2 * k1[0], w + dt / 2 * k1[1], time)
        k3 = self.flow(u + dt / 2 * k2[0], w + dt / 2 * k2[1], time)
        k4 = self.flow(u + dt * k3[0], w + dt * k3[1], time)
        du, dw = (dt / 6 * (a + 2 * b + 2 * c + d) for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
        return u + du, w + dw

    def learning_time(self, start: ArrayLike, steps: int, stride: int = 1) -> Numbers:
        """Steps until the loss is below two thirds of the plateau's; ∞ if this does not happen within `steps`."""
        below = self.loss(*self.course(start, steps, stride)) < learnt_below(self.places.chains)
        return numpy.where(below.any(0), below.argmax(0) * float(stride), math.inf)

    def threshold(self, steps: int, low: float = -4.0, high: float = 12.0, stride: int = 1) -> float:
        """The least start from which x1 is learnt within `steps`, to 0.01; NaN if all starts learn it, or none.

        Whether very strong starts also learn is not checked.
        """
        while high - low > 0.01:
            starts = numpy.linspace(low, high, GRID)
            learnt = numpy.isfinite(self.learning_time(starts, steps, stride))
            if not learnt.any() or learnt[0]:
                return math.nan
            low, high = starts[learnt.argmax() - 1], starts[learnt.argmax()]
        return float(low + high) / 2

    def saddle(self) -> tuple[float, float]:
        """(u, w) at rest: the least w at which the drift of w, with the gain at rest, turns from negative to positive.

        NaN if there is none.
        """
        drift = lambda w: float(self.flow(self.at_rest(w), w)[1])  # noqa: E731
        scores = numpy.linspace(-8.0, 12.0, 10 * GRID)
        falls = [drift(w) < 0 for w in scores] if self.wear else []
        turn = next((i for i, pair in enumerate(pairwise(falls)) if pair == (True, False)), None)
        if turn is None:
            return math.nan, math.nan
        low, high = float(scores[turn]), float(scores[turn + 1])
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if drift(middle) < 0 else (low, middle)
        return self.at_rest(low), low

    def at_rest(self, w: float) -> float:
        """The gain at which growth and wear of the look-up balance, by bisection."""
        low, high = 0.0, 1e4
        while high - low > 1e-10 * (1 + low):
            middle = (low + high) / 2
            low, high = (middle, high) if self.flow(middle, w)[0] > 0 else (low, middle)
        return low


def share(w: ArrayLike, visible: Sequence[int]) -> Numbers:
    """p(w), averaged over positions that see these numbers of positions."""
    odds = numpy.exp(numpy.asarray(w, float))
    return numpy.asarray(sum(odds / (odds + n - 1) for n in visible) / len(visible))


def slope(w: ArrayLike, visible: Sequence[int]) -> Numbers:
    """The derivative p'(w)."""
    odds = numpy.exp(numpy.asarray(w, float))
    return numpy.asarray(sum(odds * (n - 1) / (odds + n - 1) ** 2 for n in visible) / len(visible))


def learnt_below(chains: int) -> float:
    """The loss of x1 below which it is learnt."""
    return LEARNT * (1 - 1 / chains)


def plateau_pull(chains: int) -> float:
    """The pull s on the plateau."""
    return 2 * (chains - 1) / chains**2


def time_without_cost(p_0: float, chains: int, look_up: float, join: float) -> float:
    """√(π a / 2c) / (a s p_0), the time to escape for small p: the integral of du / (a s p_0 exp(c u²/2a))."""
    return math.sqrt(math.pi * look_up / (2 * join)) / (look_up * plateau_pull(chains) * p_0)
