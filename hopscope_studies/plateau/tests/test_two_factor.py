"""Tests of the two-factor model: autograd, sampled problems, closed forms and numerical integration."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.models import Architecture
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.plateau.theory.two_factor import (
    Places,
    TwoFactor,
    plateau_pull,
    share,
    slope,
    time_without_cost,
)

PLACES = Places.of(4, 3, "deepest_first")
MODEL = TwoFactor(PLACES, look_up=0.8, join=0.3, cost=0.3, wear=0.05)


@pytest.mark.parametrize("order", ["nearest_first", "deepest_first", "shuffled"])
@pytest.mark.parametrize("start", [0.0, 1.5, 4.0])
def test_the_share_is_that_of_a_transformer_whose_head_has_the_bias_alone(order, start):
    """Layer 0 has no other scores (W_Q = 0). Shuffled facts may be anywhere, so the mean is over many sequences."""
    task = Retrieval(n_hops=3, order=order)
    shape = Architecture(n_layers=1, d_model=16, positions=f"relative(start='L0 1:{start:g}')")
    model = shape.build(task, generator(0, "init"))
    torch.nn.init.zeros_(model.blocks[0].attn.W_QKV)
    batch = task.sample(1024)
    pattern = model(batch.inputs, cache=["blocks.0.attn.hook_pattern"])[1]["pattern", 0]
    names, found = batch.roles.names, batch.roles.strengths(pattern.detach())[0, 0]
    seen = float(found[names.index("value[1]"), names.index("key[1]")])
    assert float(share(start, Places.of(4, 3, order).values)) == pytest.approx(seen, rel=0.03)


def test_places_by_hand():
    """With N = 2 and D = 2 there are eight tokens of facts, then two queries."""
    assert Places.of(2, 2, "nearest_first") == Places(2, (2, 4), (9, 10))
    assert Places.of(2, 2, "deepest_first") == Places(2, (6, 8), (9, 10))
    assert Places.of(2, 2, "shuffled") == Places(2, (2, 4, 6, 8), (9, 10))


def test_the_loss_is_that_of_a_weighted_sum_of_independent_symbols():
    random = generator(0, "test")
    symbols = torch.randn(200_000, 4, generator=random, dtype=torch.float64)
    q = float(MODEL.found(3.0, 2.0))
    weights = torch.tensor([q, *[(1 - q) / 3] * 3], dtype=torch.float64)
    sampled = (symbols @ weights - symbols[:, 0]).square().mean()
    assert float(MODEL.loss(3.0, 2.0)) == pytest.approx(float(sampled), rel=0.01)
    assert float(MODEL.loss(0.0, 2.0)) == 0.75


@pytest.mark.parametrize(("u", "w"), [(0.0, 0.0), (0.5, 1.0), (4.0, 2.0), (9.0, 4.0), (-1.0, 3.0)])
def test_the_flow_is_down_the_gradient(u, w):
    """The flow descends the gradient of ℓ + λ p_q by autograd; wear is added to it."""
    gain, score = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (u, w))
    shares = [
        sum(score.exp() / (score.exp() + n - 1) for n in visible) / len(visible)
        for visible in (PLACES.values, PLACES.queries)
    ]
    match = (gain * shares[0]).exp()
    q = match / (match + 3)
    (4 / 3 * (1 - q).square() + 0.3 * shares[1]).backward()
    du, dw = MODEL.flow(u, w)
    assert gain.grad is not None and score.grad is not None
    assert float(du) == pytest.approx(-0.8 * float(gain.grad) - 0.05 * u, abs=1e-12)
    assert float(dw) == pytest.approx(-0.3 * float(score.grad), abs=1e-12)


def test_the_slope_is_the_shares_derivative():
    for w in (-2.0, 0.0, 3.0):
        numeric = (share(w + 1e-5, PLACES.values) - share(w - 1e-5, PLACES.values)) / 2e-5
        assert float(slope(w, PLACES.values)) == pytest.approx(float(numeric), rel=1e-6)


def test_its_course_is_that_of_many_small_steps():
    """The Runge–Kutta method agrees with the midpoint rule at a fiftieth of the step."""
    u, w = 0.0, 2.5
    for _ in range(2000):
        du, dw = MODEL.flow(u, w)
        du, dw = MODEL.flow(u + 0.01 * float(du), w + 0.01 * float(dw))
        u, w = u + 0.02 * float(du), w + 0.02 * float(dw)
    gains, scores = MODEL.course(2.5, 40)
    assert (float(gains[-1]), float(scores[-1])) == pytest.approx((u, w), abs=2e-3)


def far(n: int, **rates: float) -> TwoFactor:
    """Places at which all positions see n others, so that shares are small."""
    return TwoFactor(Places(4, (n,), (n,)), **rates)


def least_join(p_0: float, chains: int, look_up: float, join: float, cost: float) -> float:
    """The share p_0 exp(−c λ²/(2 a s²)) to which a small join falls before rising, if queries and values see alike."""
    return p_0 * math.exp(-join * cost**2 / (2 * look_up * plateau_pull(chains) ** 2))


@pytest.mark.parametrize("p_0", [0.001, 0.004])
def test_without_cost_the_time_to_escape_goes_as_one_over_the_share(p_0):
    """A model has escaped when its loss is below two thirds of the plateau's; the formula is right within a tenth."""
    n = 10**6
    model = far(n, look_up=1.0, join=1.0)
    start = math.log(p_0 * (n - 1) / (1 - p_0))
    predicted = time_without_cost(p_0, 4, 1.0, 1.0)
    assert float(model.learning_time(start, int(3 * predicted))) == pytest.approx(predicted, rel=0.1)
    assert time_without_cost(p_0 / 2, 4, 1.0, 1.0) == 2 * predicted


def test_with_a_cost_the_join_is_first_unlearnt_by_as_much_as_the_formula_says():
    n, p_0, rates = 10**6, 0.002, {"look_up": 1.0, "join": 1.0, "cost": 0.5}
    start = math.log(p_0 * (n - 1) / (1 - p_0))
    _, scores = far(n, **rates).course(start, 4000)
    lowest = float(share(scores, (n,)).min())
    assert lowest == pytest.approx(least_join(p_0, 4, **rates), rel=0.03)
    assert lowest < 0.7 * p_0


def test_nothing_moves_at_the_saddle_and_one_direction_leads_away():
    u, w = MODEL.saddle()
    assert [float(x) for x in MODEL.flow(u, w)] == pytest.approx([0, 0], abs=1e-8)
    step = 1e-5
    columns = [
        numpy.subtract(MODEL.flow(u + step * du, w + step * dw), MODEL.flow(u - step * du, w - step * dw)) / (2 * step)
        for du, dw in ((1, 0), (0, 1))
    ]
    eigenvalues = sorted(numpy.linalg.eigvals(numpy.array(columns).T).real)
    assert eigenvalues[0] < 0 < eigenvalues[1]


def test_the_threshold_parts_starts_that_learn_from_starts_that_are_unlearnt():
    steps = 1000
    edge = MODEL.threshold(steps)
    assert 0 < edge < 8
    assert math.isinf(MODEL.learning_time(edge - 0.1, steps))
    assert math.isfinite(MODEL.learning_time(edge + 0.1, steps))
    _, scores = MODEL.course([edge - 0.3, edge + 0.3], steps)
    below, above = share(scores, PLACES.values).T
    assert below[-1] < 0.5 * below[0]
    assert above.min() < above[0] < above[-1]


def least_start(model: TwoFactor, steps: int) -> float:
    """The smallest start that escapes, found by bisection."""
    low, high = 0.0, 4.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if math.isfinite(model.learning_time(middle, steps)) else (middle, high)
    return high


def test_the_threshold_is_that_of_halving():
    assert MODEL.threshold(400) == pytest.approx(least_start(MODEL, 400), abs=0.01)


def test_learning_slows_down_beside_the_threshold():
    """Near a saddle, time grows as the logarithm of the distance from it: equal ratios give equal steps."""
    steps = 1000
    edge = least_start(MODEL, steps)
    times = MODEL.learning_time(edge + numpy.array([0.4, 0.1, 0.025]), steps)
    assert times[0] < times[1] < times[2]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=0.6)


def test_without_the_other_duty_and_wear_there_is_no_threshold():
    free = replace(MODEL, cost=0.0, wear=0.0)
    assert math.isfinite(free.learning_time(-3.0, 4000))
    assert all(math.isnan(x) for x in free.saddle())


def test_many_rates_are_followed_at_once():
    many = replace(MODEL, cost=numpy.array([0.0, 0.3]), wear=numpy.array([[0.0], [0.05]]))
    times = many.learning_time(2.5, 500)
    assert times.shape == (2, 2)
    assert times[1, 1] == MODEL.learning_time(2.5, 500)


def test_the_pull_on_the_plateau():
    n, q = 4, 0.25
    assert plateau_pull(n) == pytest.approx(2 * n / (n - 1) * q * (1 - q) ** 2)
