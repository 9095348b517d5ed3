"""Sine waves: the task, the embedding, a step read off weights, and claims on both sides."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from pandas import DataFrame

from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope_studies.gradient_descent.comparison import answers, sequences
from hopscope_studies.gradient_descent.experiments import nonlinear
from hopscope_studies.gradient_descent.experiments.nonlinear import (
    GRID,
    MLP,
    SHAPES,
    STEP,
    TASK,
    claims,
    error,
    kernel,
    kind_of,
    mean_wave,
    of_kernel,
    own_step,
    runs,
    waves_step,
)

# The task --------------------------------------------------------------------------------------------------------


def test_baselines_by_quadrature():
    """Half the mean square of a sin(x + φ), whole and without its mean over a and φ."""
    nodes, weights = numpy.polynomial.legendre.leggauss(40)
    x, a, phase = 5 * nodes, 0.3 + 0.2 * nodes, math.pi / 2 * (1 + nodes)
    waves = a[:, None, None] * numpy.sin(x + phase[:, None, None].swapaxes(0, 1))
    weights = weights / 2
    mean = numpy.einsum("apx,a,p->x", waves, weights, weights)
    squares = numpy.einsum("apx,a,p,x->", waves**2, weights, weights, weights)
    assert TASK.baselines["predict zero"] == pytest.approx(squares / 2, abs=1e-9)
    rest = squares - (mean**2 * weights).sum()
    assert TASK.baselines["predict the mean wave"] == pytest.approx(rest / 2, abs=1e-9)
    assert mean_wave(torch.tensor(x)).numpy() == pytest.approx(mean, abs=1e-9)


def test_the_oracle_finds_waves_from_two_examples():
    task = TASK.but(n_points=2)
    batch = task.sample(200, 1)
    found = torch.tensor([task.brute_force(inputs) for inputs in batch.inputs.double().tolist()])
    apart = (batch.inputs[:, 0, 0] - batch.inputs[:, 1, 0]).sin().abs() > 0.1  # else rounding decides
    assert apart.sum() > 100
    assert torch.allclose(found[apart], batch.targets[apart], atol=1e-4)


# The model -------------------------------------------------------------------------------------------------------


def test_an_embedding_by_hand_makes_a_step_on_waves():
    """With W_out = 0 tokens are W_E (x, y); the kernel of x is then x x′ |w|², and answers are those of loops."""
    model = STEP.but(d_embed=3).build(TASK, generator(0, "init"))
    w_e = torch.tensor([[2.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    rate = 0.25
    with torch.no_grad():
        model.W_E.copy_(w_e)
        model.W_out.zero_()
        model.P[-1][-1, -1] = rate
    batch = TASK.sample(6, 2)
    assert kernel(model, torch.tensor([2.0]), torch.tensor([3.0])).item() == pytest.approx(2 * 3 * 5)
    for row, found in zip(batch.inputs.tolist(), answers(model, batch.inputs).tolist(), strict=True):
        asked = row[-1][0]
        assert found == pytest.approx(rate * sum(y * 5 * x * asked for x, y in row[:-1]), rel=1e-4, abs=1e-5)


def test_an_embedding_is_its_formula():
    model, inputs = MLP.build(TASK, generator(1, "init")), TASK.sample(2, 3).inputs
    linear = inputs @ model.W_E
    hidden = linear @ model.W_in
    gelu = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    assert torch.allclose(model.embed(inputs), linear + gelu @ model.W_out, atol=1e-4)


def test_without_an_embedding_tokens_stay_as_they_are():
    inputs = TASK.sample(2, 3).inputs
    assert SHAPES["no MLP"].build(TASK, generator(1, "init")).embed(inputs) is inputs


# A step read off weights -----------------------------------------------------------------------------------------


class Waves:
    """A stand-in for a model whose features are √c (sin x, cos x), and whose start is the mean wave."""

    def __init__(self, sign: float = 1.0):
        eye = torch.diag(torch.tensor([1.0, 1.0, 0.0]))
        self.W_K, self.W_Q = eye[None], sign * eye[None]

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        x = tokens[..., 0]
        return torch.stack([x.sin(), x.cos(), -mean_wave(x)], -1)


def test_a_step_on_waves_is_found_to_be_one():
    """One rate for both features is nearly as good as two."""
    batch = sequences(TASK, 4000)
    best = error(waves_step(batch), batch)
    assert best <= error(own_step(Waves(), batch), batch) < 1.02 * best
    assert best == pytest.approx(0.0015, rel=0.1)
    assert torch.allclose(own_step(Waves(), batch), own_step(Waves(-1.0), batch), atol=1e-6)


def test_a_kernel_of_waves_is_found_whatever_its_sign():
    for sign in (1.0, -1.0):
        found = of_kernel(Waves(sign))
        assert found["asymmetry"] < 1e-6 > found["negative"]
        assert found["correlation with waves"] == pytest.approx(1, abs=1e-5)


def test_a_drawn_model_has_another_kernel():
    """Drawn features are nearly proportional to x, so that their kernel is nearly symmetric, but not that of waves."""
    drawn = of_kernel(MLP.build(TASK, generator(0, "init")))
    assert drawn["asymmetry"] < 0.15 and drawn["correlation with waves"] < 0.3
    assert of_kernel(STEP.build(TASK, generator(0, "init")))["asymmetry"] < 1e-6  # its keys are its queries


# Claims ----------------------------------------------------------------------------------------------------------

GOOD = {
    "loss": 0.0017,
    "correlation of answers": 0.998,
    "distance of answers": 0.06,
    "cosine of sensitivities": 0.96,
    "distance of sensitivities": 0.1,
    "own step": 0.03,
    "asymmetry": 0.05,
    "negative": 0.01,
    "correlation with waves": 0.98,
    "waves' step": 0.0015,
    "mean wave": 0.0172,
    "shuffled": 0.026,
}
POOR = {
    "loss": 0.005,
    "correlation of answers": 0.9,
    "distance of answers": 0.3,
    "cosine of sensitivities": 0.5,
    "distance of sensitivities": 0.5,
    "own step": 0.2,
    "asymmetry": 0.4,
    "negative": 0.3,
    "correlation with waves": 0.5,
    "waves' step": 0.0015,
    "mean wave": 0.0172,
    "shuffled": 0.01,
}


def judged(transformer: dict[str, float], step: float, softmax: float, bare: float, drawn: float) -> dict[str, str]:
    others = {"MLP + step": {"loss": step}, "softmax": {"loss": softmax}, "no MLP": {"loss": bare}}
    kinds = {"transformer": transformer, **others, "untrained": {"untrained step": drawn}}
    rows = [
        (f"{kind}{seed}", "v", seed, kind, quantity, 300, value)
        for seed in (0, 1)
        for kind, values in kinds.items()
        for quantity, value in {"predicting 0": 0.026, **values}.items()
    ]
    table = DataFrame(rows, columns=["run", "version", "seed", "kind", "quantity", "step", "value"])
    return {claim.id: claim.verdict for claim in claims(table)}


def test_claims_hold_of_a_table_as_the_paper_has_it():
    found = judged(GOOD, step=0.0018, softmax=0.008, bare=0.0248, drawn=0.025)
    assert set(found.values()) == {"holds"}
    assert list(found) == claim_ids("nonlinear")


def test_claims_fail_of_a_table_that_says_otherwise():
    assert set(judged(POOR, step=0.0018, softmax=0.005, bare=0.01, drawn=0.01).values()) == {"fails"}


def test_every_kind_is_declared_with_its_seeds():
    declared = list(runs("cpu"))
    kinds = [kind_of(config) for config in declared]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys([*SHAPES, "untrained"], 5)
    assert {config.training.frozen for config in declared if kind_of(config) == "MLP + step"} == {"W_K, W_Q, W_V"}
    assert len(GRID) == 101 and [round(abs(float(GRID[place])), 1) for place in nonlinear.MARKED] == [0.0, 1.6]
