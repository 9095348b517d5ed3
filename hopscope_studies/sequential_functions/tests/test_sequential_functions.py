"""Tests of functions that generate their own sequence: task, exact posterior, references, hand-set network, claims."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest
import torch
from pandas import DataFrame

from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.theory.least_squares import least_squares, ridge
from hopscope_studies.sequential_functions.construction import descent_by_hand
from hopscope_studies.sequential_functions.experiments import sequential_functions
from hopscope_studies.sequential_functions.tasks.self_generated import SelfGenerated, estimated, window
from hopscope_studies.sequential_functions.theory.bayes import Mixture
from hopscope_studies.sequential_functions.theory.references import (
    best_rate,
    errors,
    one_step,
    penalty,
    predictions,
    source_errors,
    source_sequences,
)
from hopscope_studies.sequential_functions.work import model_errors

TASK = SelfGenerated(d_x=2, length=9, noise=0.25)


# The task --------------------------------------------------------------------------------------------------------


def test_sequences_make_themselves():
    """Each x has the direction of the label before, which is shown with it; the first two positions have no label."""
    batch = TASK.sample(500, 1)
    x, label = batch.inputs[..., :2], batch.inputs[..., 2:]
    assert torch.allclose(x.norm(dim=-1), torch.full((500, 9), 2**0.5), atol=1e-5)
    directions = label[:, 2:] / label[:, 2:].norm(dim=-1, keepdim=True)
    assert torch.allclose(x[:, 2:] / 2**0.5, directions, atol=1e-5)
    assert (label[:, :2] == 0).all()


def test_what_is_asked_is_the_function_of_the_last_two():
    batch = TASK.but(noise=0.0).sample(200, 2)
    for row in range(200):
        weights = batch.draw["weights"][row].double()
        tokens = batch.inputs[row].double().numpy()
        wanted = [weights.numpy() @ window(tokens, t) for t in range(1, 9)]
        assert numpy.allclose(batch.targets[row].double().numpy(), wanted, atol=1e-5)
    assert torch.allclose(batch.targets[:, :-1][:, 1:], batch.inputs[:, 3:, 2:], atol=1e-5)  # labels without noise


def test_a_share_of_labels_is_random():
    task = TASK.but(replaced=0.5, noise=0.0)
    batch = task.sample(2000, 3)
    right = (batch.inputs[:, 2:, 2:] - batch.targets[:, :-1]).norm(dim=-1) < 1e-4
    assert float(right.float().mean()) == pytest.approx(0.5, abs=0.03)


# What can be known -----------------------------------------------------------------------------------------------


def mixture(replaced: float) -> Mixture:
    return Mixture(2, 4, weight_variance=0.25, noise=0.3, replaced=replaced, random_size=1.1)


def test_with_genuine_labels_the_posterior_mean_is_ridge_regression():
    random = numpy.random.default_rng(0)
    z, y, known = random.normal(size=(7, 4)), random.normal(size=(7, 2)), mixture(0.0)
    for seen in range(6):
        known.observe(z[seen], y[seen])
        assert numpy.allclose(
            known.predict(z[seen + 1]), ridge(z[: seen + 1], y[: seen + 1], z[seen + 1], 0.3**2 / 0.25)
        )


def density(residual: numpy.ndarray, covariance: numpy.ndarray) -> float:
    """Log density of a normal vector."""
    _, logarithm = numpy.linalg.slogdet(2 * math.pi * covariance)
    return float(-0.5 * (residual @ numpy.linalg.solve(covariance, residual) + logarithm))


def by_sets(z: numpy.ndarray, y: numpy.ndarray, asked: numpy.ndarray, share: float) -> numpy.ndarray:
    """The posterior mean by summing over every set of genuine labels, with evidence from whole covariances."""
    answers, logs = [], []
    for genuine in itertools.product((True, False), repeat=len(z)):
        kept, covariance = numpy.array(genuine), 1.1**2 * numpy.eye(len(z))
        among = numpy.ix_(kept, kept)
        covariance[among] = 0.25 * z[kept] @ z[kept].T + 0.3**2 * numpy.eye(int(kept.sum()))
        prior = sum(math.log(1 - share if one else share) for one in genuine)
        logs.append(prior + sum(density(component, covariance) for component in y.T))
        answers.append(ridge(z[kept], y[kept], asked, 0.3**2 / 0.25) if kept.any() else numpy.zeros(2))
    weights = numpy.exp(numpy.array(logs) - max(logs))
    return (weights / weights.sum()) @ numpy.array(answers)


@pytest.mark.parametrize("share", [0.25, 0.6])
def test_with_random_labels_it_is_the_sum_over_every_set(share):
    random = numpy.random.default_rng(1)
    z, y, known = random.normal(size=(6, 4)), random.normal(size=(6, 2)), mixture(share)
    for seen in range(5):
        known.observe(z[seen], y[seen])
        assert numpy.allclose(known.predict(z[seen + 1]), by_sets(z[: seen + 1], y[: seen + 1], z[seen + 1], share))


def test_the_error_of_the_posterior_mean_is_its_variance():
    """Given the inputs, the expected error is z·Σz per component, whatever the labels are."""
    task = TASK.but(length=6)
    batch = task.sample(800, 4)
    gaps = []
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        tokens = numpy.array(inputs)
        z = numpy.array([window(tokens, t) for t in range(1, 6)])
        covariance = numpy.linalg.inv(4 * numpy.eye(4) + z[:4].T @ z[:4] / task.noise**2)
        said = task.brute_force(inputs)[-1]
        gaps.append(float(((numpy.array(said) - targets[-1]) ** 2).mean() - z[4] @ covariance @ z[4]))
    assert numpy.mean(gaps) == pytest.approx(0, abs=4 * numpy.std(gaps) / 800**0.5)


def test_the_stated_loss_of_the_posterior_mean_is_that_of_following_every_sequence():
    """The baseline is computed for all sequences at once; `brute_force` reads them one at a time."""
    batch = TASK.sample(50, generator(0, "baselines"))
    followed = torch.tensor([TASK.brute_force(inputs) for inputs in batch.inputs.tolist()], dtype=torch.float64)
    squares = (followed - batch.targets).square()
    zero, best = estimated(TASK.but(replaced=0.25), size=50)
    assert best == pytest.approx(float(squares.mean()), rel=1e-9) and zero == pytest.approx(
        float(batch.targets.double().square().mean()), rel=1e-9
    )


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_nothing_beats_the_posterior_mean(share):
    """At every place, within the sampling error of 400 sequences."""
    task = TASK.but(replaced=share)
    found = errors(task, task.sample(400, 5))
    best = numpy.array(found.pop("posterior mean"))
    assert all((best <= 1.1 * numpy.array(others)).all() for others in found.values())
    if share:
        assert best[-1] < 0.8 * found["ridge"][-1]


def test_least_squares_and_ridge_by_hand():
    """For y = 2x through (1, 2), penalty 1 halves the slope; with two unknowns and one example, the norm is least."""
    x, y = numpy.array([[1.0]]), numpy.array([[2.0]])
    assert least_squares(x, y, numpy.array([3.0])) == pytest.approx([6.0])
    assert ridge(x, y, numpy.array([3.0]), 1.0) == pytest.approx([3.0])
    assert least_squares(numpy.array([[1.0, 1.0]]), y, numpy.array([1.0, 0.0])) == pytest.approx([1.0])


def test_references_use_the_labels_before_alone():
    """Predictions at a place do not change with what is shown after it."""
    batch, cut = TASK.sample(20, 6), TASK.but(length=6)
    shorter = cut.sample(1, 0)
    shorter.draw = {n: v[:, :6] if n in ("x", "label") else v for n, v in batch.draw.items()}
    whole, part = predictions(TASK, batch), predictions(cut, type(batch)(cut, shorter.draw))
    same = [name for name in whole if name != "one step of descent"]  # whose rate depends on the length
    assert all(numpy.allclose(whole[name][:, :5], part[name], atol=1e-6) for name in same)


def test_the_penalty_is_the_ratio_of_variances():
    assert penalty(TASK) == pytest.approx(0.25**2 / (1 / 4))


# The network by hand ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [TASK, SelfGenerated(d_x=3, length=12, replaced=0.25)])
def test_the_network_by_hand_takes_one_step(task):
    batch, rate = task.sample(50, 7), best_rate(task)
    with torch.no_grad():
        said = descent_by_hand(task, rate)(batch.inputs, at=task.query_positions).numpy()
    assert numpy.allclose(said, one_step(task, batch.inputs.double().numpy(), rate), atol=1e-4)


def test_its_number_is_known_and_an_untrained_network_does_not_reach_it():
    batch = TASK.sample(2000, 8)
    by_hand = model_errors(descent_by_hand(TASK, best_rate(TASK)), batch)[-1]
    drawn = sequential_functions.MODEL.but(d_model=16).build(TASK, generator(0, "init"))
    zero = float(batch.targets[:, -1].square().mean())
    assert by_hand < 0.6 * zero < 0.95 * zero < model_errors(drawn, batch)[-1]


def test_foreign_examples_leave_what_is_asked_and_tell_nothing_of_it():
    batch = TASK.sample(2000, 9)
    other = sequential_functions.foreign(batch)
    assert torch.equal(other.targets[:, -1], batch.targets[:, -1])
    assert torch.equal(other.inputs[1:, :-2], batch.inputs[:-1, :-2])
    found = errors(TASK, other.rows(slice(400)))
    assert found["posterior mean"][-1] > 0.95 * found["zero"][-1]


# The source's own sequences --------------------------------------------------------------------------------------


def test_the_sources_sequences_collapse():
    x = source_sequences(50, 0)
    assert numpy.allclose(numpy.linalg.norm(x[:, 1:], axis=-1), 1)
    alike = numpy.abs((x[:, -1] * x[:, -2]).sum(-1))
    assert numpy.median(alike) > 0.95
    found = source_errors(200, 1)
    assert found["two places before"][0] == pytest.approx(1) and found["two places before"][-1] < 0.07


# Claims ----------------------------------------------------------------------------------------------------------

#: Errors at the last place by share of random labels, and at the peak of least squares and the place before it.
GOOD = {
    "zero": (1.2, 1.2, 1.2, 1.2, 1.2),
    "the last label": (2.0, 2.0, 2.0, 2.0, 2.0),
    "minus the last label": (2.5, 2.5, 2.5, 2.5, 2.5),
    "the label before the last": (1.5, 1.5, 1.5, 1.5, 1.5),
    "least squares": (0.05, 0.7, 1.2, 30.0, 0.3),
    "ridge": (0.03, 0.5, 0.9, 0.1, 0.2),
    "posterior mean": (0.03, 0.15, 0.5, 0.1, 0.2),
    "one step of descent": (0.4, 0.5, 0.6, 0.5, 0.6),
    "one step by hand": (0.4, 0.5, 0.6, 0.5, 0.6),
    "clean labels": (0.1, 0.5, 0.9, 0.2, 0.3),
    "random labels": (0.15, 0.3, 0.7, 0.3, 0.4),
    "untrained": (1.3, 1.3, 1.3, 1.3, 1.3),
}
POOR = GOOD | {
    "the last label": (0.5, 2.0, 2.0, 2.0, 2.0),
    "one step by hand": (0.5, 0.5, 0.6, 0.5, 0.6),
    "clean labels": (0.4, 1.3, 1.2, 20.0, 1.0),
    "random labels": (0.15, 1.4, 1.5, 0.3, 0.4),
    "untrained": (0.5, 1.3, 1.3, 1.3, 1.3),
}
MODELS = ("clean labels", "random labels", "untrained")


def table_of(numbers: dict[str, tuple[float, ...]], trivial: float, lost: float) -> DataFrame:
    """A table of two seeds; the trivial prediction has this error on the source's sequences, the released model .1."""
    rows = []
    for seed, (who, (*ends, peak, before)) in itertools.product((0, 1), numbers.items()):
        about = {"seed": seed, "who": who, "kind": "model" if who in MODELS else "reference"}
        rows += [
            {**about, "share": share, "place": 9, "error": end} for share, end in zip((0, 0.25, 0.5), ends, strict=True)
        ]
        rows += [{**about, "share": 0.0, "place": 8 - back, "error": e} for back, e in enumerate((peak, before))]
    for seed in (0, 1):
        about = {"seed": seed, "share": 0.0, "place": 5}
        rows.append({**about, "kind": "source", "who": "two places before", "error": trivial})
        rows.append({**about, "kind": "source", "who": "released model", "error": 0.1})
        rows.append({**about, "kind": "foreign", "who": "clean labels", "error": lost})
    table = DataFrame(rows)
    return table.assign(run=table.who + table.seed.astype(str), version="v")


def judged(table: DataFrame) -> dict[str, str]:
    claims = list(sequential_functions.claims(table))
    assert [claim.id for claim in claims] == claim_ids("sequential_functions")
    return {claim.id: claim.verdict for claim in claims}


def test_claims_hold_where_all_is_as_said():
    assert set(judged(table_of(GOOD, 0.05, 1.3)).values()) == {"holds"}


def test_claims_fail_where_it_is_not():
    assert set(judged(table_of(POOR, 0.2, 0.3)).values()) == {"fails"}


def test_a_model_better_than_the_posterior_mean_would_be_a_mistake():
    better = GOOD | {"clean labels": (0.02, 0.5, 0.9, 0.2, 0.3)}
    assert judged(table_of(better, 0.05, 1.3))["above_the_posterior_mean"] == "fails"


def test_every_system_is_declared_with_enough_seeds():
    for scale in ("cpu", "paper"):
        runs = list(sequential_functions.runs(scale))
        systems = [sequential_functions.system_of(run) for run in runs if not hasattr(run, "label")]
        assert {name: systems.count(name) for name in systems} == dict.fromkeys(MODELS, 5)
