"""Gradient descent in context: the task's oracle, closed forms, the layer written by hand, and claims on both sides."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
import pytest
import torch
from pandas import DataFrame

from hopscope import BadInput, Config, Training, train
from hopscope.circuits.words import symbols_at
from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.explorer.describing import describe
from hopscope.measures.base import unmet
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.gradient_descent import comparison
from hopscope_studies.gradient_descent.construction import constructed, halfway, of_products, products, repeated
from hopscope_studies.gradient_descent.experiments import gradient_descent
from hopscope_studies.gradient_descent.models.linear_self_attention import LinearSelfAttentionShape
from hopscope_studies.gradient_descent.tasks.linear_regression import LinearRegression
from hopscope_studies.gradient_descent.theory.one_step import best_rate, one_step_loss, spread, variance, zero_loss
from hopscope_studies.gradient_descent.theory.several_steps import best_rates, error, expected_loss, spectra

TASK = LinearRegression()


# The task --------------------------------------------------------------------------------------------------------


def test_least_squares_finds_the_answer_of_thousands_of_sequences():
    """As many examples as components, and a few more, which tames what rounding does to the worst of them."""
    task = LinearRegression(d_x=5, n_points=8)
    batch = task.sample(3000, 1)
    found = torch.tensor([task.brute_force(inputs) for inputs in batch.inputs.tolist()])
    assert torch.allclose(found, batch.targets, atol=1e-4)


def test_with_too_few_examples_the_rest_of_the_weights_is_unknown():
    task = LinearRegression(d_x=6, n_points=2)
    batch = task.sample(4000, 2)
    found = torch.tensor([task.brute_force(inputs) for inputs in batch.inputs.tolist()])
    losses = (found - batch.targets).double().square().flatten() / 2
    assert task.bayes_loss == pytest.approx(6 / 24 * 4 / 6)
    assert float(losses.mean()) == pytest.approx(task.bayes_loss, abs=4 * float(losses.std()) / 4000**0.5)


def test_the_query_shows_no_label_and_scales_are_as_set():
    batch = TASK.but(input_range=3.0, weight_scale=2.0).sample(2000, 3)
    assert (batch.inputs[:, -1, -1] == 0).all()
    assert float(batch.draw["x"].abs().max()) <= 1.5
    assert float(batch.draw["x"].var()) == pytest.approx(9 / 12, rel=0.02)
    assert float(batch.draw["w"].std()) == pytest.approx(2.0, rel=0.02)


# Closed forms ----------------------------------------------------------------------------------------------------


def test_one_step_by_hand():
    """d = N = 10: c = 1 + (10 - 2 + 9/5) / 10 = 1.98, the best rate 12 / 1.98, the loss 10/24 (1 - 1/1.98)."""
    assert spread(10, 10) == pytest.approx(1.98)
    assert best_rate(10, 10) == pytest.approx(12 / 1.98)
    assert one_step_loss(10, 10) == pytest.approx(0.2062289562, abs=1e-9)
    assert zero_loss(10) == pytest.approx(10 / 24)
    assert one_step_loss(10, 10, rate=0.0) == zero_loss(10)
    assert one_step_loss(10, 10, rate=6.2) > one_step_loss(10, 10) < one_step_loss(10, 10, rate=5.9)


@pytest.mark.parametrize("rate", [0.0, 3.0, 12 / 1.8])
def test_one_step_by_quadrature(rate):
    """d = N = 1: S = x², so that the loss is s²/2 E (1 − η x²)², an integral over one number."""
    nodes, weights = numpy.polynomial.legendre.leggauss(20)
    x = nodes / 2
    integral = float((weights / 2 * (1 - rate * x**2) ** 2).sum()) * variance(1.0) / 2
    assert one_step_loss(1, 1, rate=rate) == pytest.approx(integral, abs=1e-12)


def test_one_step_is_one_of_several():
    """The expectation over spectra is the closed form but for sampling."""
    found = best_rates(10, 10, 1, turning=False, looped=False)
    assert found.loss == pytest.approx(one_step_loss(10, 10), rel=5e-3)
    assert found.etas[0] == pytest.approx(best_rate(10, 10), rel=5e-3)


def explicit(x, y, asked, etas, gammas):
    """Descent by loops over examples, with inputs turned after each step: what is said of the query, in float64."""
    x, y, asked, said, n = x.copy(), y.copy(), asked.copy(), 0.0, len(x)
    for eta, gamma in zip(etas, gammas, strict=True):
        said += eta / n * sum(y[i] * (x[i] @ asked) for i in range(n))
        left = [y[j] - eta / n * sum(y[i] * (x[i] @ x[j]) for i in range(n)) for j in range(n)]
        turned = [x[j] - gamma / n * sum(x[i] * (x[i] @ x[j]) for i in range(n)) for j in range(n)]
        asked = asked - gamma / n * sum(x[i] * (x[i] @ asked) for i in range(n))
        x, y = numpy.array(turned), numpy.array(left)
    return said


@pytest.mark.parametrize(
    ("etas", "gammas"), [((6.0,), (0.0,)), ((5.0, 4.0), (0.0, 0.0)), ((9.0, 5.0, 3.0), (1.5, 0.7, 0.0))]
)
def test_errors_are_polynomials_of_the_spectrum_and_layers_by_hand_take_the_steps(etas, gammas):
    """Three ways to the same answer: loops, eigenvalues, attention with constructed weights."""
    task = LinearRegression(d_x=3, n_points=4)
    batch = task.sample(5, 4)
    model = constructed(task, etas, gammas)
    with torch.no_grad():
        attended = comparison.answers(model, batch.inputs)
    for row in range(5):
        x, w = (batch.draw[name][row].double().numpy() for name in ("x", "w"))
        examples, asked = x[:-1], x[-1]
        said = explicit(examples, examples @ w, asked, etas, gammas)
        values, vectors = numpy.linalg.eigh(examples.T @ examples / 4)
        left = error(torch.tensor(values), etas, gammas).numpy()
        assert w @ (vectors * (1 - left)) @ vectors.T @ asked == pytest.approx(said, abs=1e-12)
        assert float(attended[row]) == pytest.approx(said, abs=1e-5)


def test_plain_steps_have_the_loss_of_a_product():
    """Without turning, two steps leave (1 − η λ)²: the rates found are no worse than others nearby."""
    values = spectra(10, 10, 1.0)
    best = best_rates(10, 10, 2, turning=False, looped=True)
    direct = variance(1.0) / 2 * ((1 - best.etas[0] * values) ** 4).sum(-1).mean()
    assert best.loss == pytest.approx(float(direct), rel=1e-9)
    for eta in (0.95 * best.etas[0], 1.05 * best.etas[0]):
        assert float(expected_loss(values, (eta, eta), (0.0, 0.0), variance(1.0))) > best.loss


def test_turning_inputs_and_rates_of_ones_own_help():
    plain, common, own = (
        best_rates(10, 10, 2, turning=turning, looped=looped).loss
        for turning, looped in ((False, True), (True, True), (True, False))
    )
    assert one_step_loss(10, 10) > plain > common > own > 0


# The model -------------------------------------------------------------------------------------------------------


def test_it_reads_pairs_alone():
    with pytest.raises(BadInput, match="reads pairs"):
        LinearSelfAttentionShape().build(Retrieval())


def test_nobody_attends_to_the_query():
    model, inputs = LinearSelfAttentionShape(n_layers=2).build(TASK, generator(0, "init")), TASK.sample(4, 5).inputs
    other = inputs.clone()
    other[:, -1] += 1.0
    assert torch.equal(model(inputs)[:, :-1], model(other)[:, :-1])
    assert not torch.allclose(model(inputs)[:, -1], model(other)[:, -1])


def test_a_loop_is_one_layer_again_and_again():
    looped = LinearSelfAttentionShape(n_layers=3, looped=True).build(TASK, generator(0, "init"))
    once = LinearSelfAttentionShape(n_layers=1).build(TASK)
    once.load_state_dict(looped.state_dict())
    inputs = TASK.sample(4, 6).inputs
    assert torch.allclose(looped(inputs)[:, -1, 0], repeated(once, inputs, 3, 1.0)[-1], atol=1e-6)


def test_descent_never_rewrites_inputs():
    """So that the step by hand, applied again and again, is the same on y alone; layers as drawn are not."""
    inputs = TASK.sample(4, 8).inputs
    step = constructed(TASK, [4.0])
    drawn = LinearSelfAttentionShape(init_variance=0.05).build(TASK, generator(2, "init"))
    for model, same in ((step, True), (drawn, False)):
        whole, part = repeated(model, inputs, 4, 0.75), repeated(model, inputs, 4, 0.75, y_alone=True)
        assert torch.allclose(whole, part, rtol=1e-4, atol=1e-5) is same


def test_products_say_all_of_a_layer():
    model = LinearSelfAttentionShape(n_layers=2).build(TASK, generator(1, "init"))
    inputs = TASK.sample(4, 7).inputs
    attend, write = products(model)
    assert attend[:, :-1, :-1].diagonal(dim1=1, dim2=2).mean(-1).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)
    for same in (of_products(TASK, list(attend), list(write)), halfway(TASK, model, model)):
        assert torch.allclose(same(inputs), model(inputs), atol=1e-5)


# Comparison: controls by hand ------------------------------------------------------------------------------------


def compared(model) -> DataFrame:
    run = SimpleNamespace(task=TASK, model=model)
    return DataFrame(list(comparison.one_layer_rows(run, 1000)))


def test_descent_is_found_alike_with_itself():
    """The layer by hand, its factors moved about, against the closed-form rate: every number is at its best."""
    step = comparison.descent(TASK, 1, looped=False, turning=False)
    with torch.no_grad():
        step.W_Q *= 3.0
        step.P /= 3.0
    rows = compared(step).set_index("what")
    assert ((rows.model / rows.descent)["loss"] - 1) == pytest.approx(0, abs=1e-5)
    assert rows.model["cosine of sensitivities"] == pytest.approx(1, abs=1e-5)
    assert rows.model["distance of answers"] < 1e-5 > rows.model["distance of sensitivities"]
    assert rows.model["loss of interpolated weights"] == pytest.approx(rows.descent["loss"], rel=1e-4)
    assert rows.model["constructed"] < 1e-5
    assert rows.model["loss with shuffled labels"] > rows.zero["loss with shuffled labels"]
    assert rows.descent["loss"] == pytest.approx(one_step_loss(10, 10), rel=0.2)


def test_a_layer_as_drawn_is_found_to_be_none():
    rows = compared(LinearSelfAttentionShape().build(TASK, generator(0, "init"))).set_index("what")
    assert rows.model["loss"] / rows.descent["loss"] > 1.5
    assert abs(rows.model["cosine of sensitivities"]) < 0.3
    assert rows.model["distance of sensitivities"] / rows.descent["distance of sensitivities"] > 0.9


# Numbers are no symbols ------------------------------------------------------------------------------------------


def test_the_explorer_shows_losses_alone(tmp_path):
    recipe = Training(steps=0, val_size=4)
    run = train(Config(TASK, LinearSelfAttentionShape(), recipe), tmp_path / "run", threads=1, compile="off")
    told = describe(run, "run")
    rule = told["task"]["scoring"]
    assert (rule["kind"], rule["scale"], rule["right_below"]) == ("numbers", 0.5, TASK.solved_below)
    assert "LinearSelfAttention" in told["model"]["fallback"]  # which the server then computes


def test_positions_have_no_symbols_names_and_measures_of_symbols_do_not_apply():
    assert symbols_at(TASK.sample(2, 0), 0) == ["·"] * 11
    assert unmet("prefix_score", TASK, LinearSelfAttentionShape()) == "answers that name symbols"
    assert unmet("hop_loss", TASK, LinearSelfAttentionShape()) is None


# Claims ----------------------------------------------------------------------------------------------------------

GOOD = {
    "constructed": (1e-6, 1.0),
    "loss": (0.207, 0.206),
    "correlation of answers": (0.999, 1.0),
    "distance of answers": (0.03, 0.6),
    "cosine of sensitivities": (0.998, 1.0),
    "distance of sensitivities": (0.1, 2.1),
    "loss of interpolated weights": (0.206, 0.206),
    "loss with shuffled labels": (0.6, 0.6),
    "loss repeated": (0.15, 0.15),
    "loss repeated on y alone": (0.15, 0.15),
}
POOR = {
    "constructed": (1e-3, 1.0),
    "loss": (0.22, 0.206),
    "correlation of answers": (0.9, 1.0),
    "distance of answers": (0.3, 0.6),
    "cosine of sensitivities": (0.9, 1.0),
    "distance of sensitivities": (0.6, 2.1),
    "loss of interpolated weights": (0.25, 0.206),
    "loss with shuffled labels": (0.3, 0.6),
    "loss repeated": (0.2, 0.15),
    "loss repeated on y alone": (0.2, 0.15),
}


def rows_of(one: dict, off: float, two: tuple[float, float, float], untrained: tuple[float, float]) -> DataFrame:
    """A table of two seeds; `off` is the ratio on other inputs, `two` those of two layers, `untrained` loss, cosine."""
    rows = []
    for seed in (0, 1):
        for system in ("one layer", "untrained"):
            quantities = one if system == "one layer" else {"loss": (untrained[0], 0.206)}
            quantities = quantities | ({} if one is quantities else {"cosine of sensitivities": (untrained[1], 1.0)})
            rows += [(seed, system, what, 1.0, *numbers) for what, numbers in quantities.items()]
        for at in (1.0, 1.5, 2.0):
            rows.append((seed, "one layer", "loss by input range", at, off, 1.0))
            rows.append((seed, "one layer", "loss by weight scale", at, off, 1.0))
        plain, looped, own = two
        for system, ratio in (("two layers, looped", looped), ("two layers", own)):
            rows.append((seed, system, "loss against gradient descent", 2, plain, 1.0))
            rows.append((seed, system, "loss against GD++", 2, ratio, 1.0))
    table = DataFrame(rows, columns=["seed", "system", "what", "at", "model", "descent"])
    return table.assign(run=table.system + table.seed.astype(str), version="v", zero=0.42)


def judged(table: DataFrame) -> dict[str, str]:
    claims = list(gradient_descent.claims(table))
    assert [claim.id for claim in claims] == claim_ids("gradient_descent")
    return {claim.id: claim.verdict for claim in claims}


def test_claims_hold_of_a_table_as_the_paper_has_it():
    assert set(judged(rows_of(GOOD, 1.02, (0.7, 1.01, 0.9), (0.42, 0.0))).values()) == {"holds"}


def test_claims_fail_of_a_table_that_says_otherwise():
    assert set(judged(rows_of(POOR, 1.3, (1.1, 1.2, 1.1), (0.25, 0.9))).values()) == {"fails"}


def test_a_better_looped_model_would_be_no_gd_plus_plus():
    assert judged(rows_of(GOOD, 1.02, (0.7, 0.9, 0.9), (0.42, 0.0)))["looped_is_gd_plus_plus"] == "fails"


def test_every_system_is_declared_with_enough_seeds():
    for scale in ("cpu", "paper"):
        declared = list(gradient_descent.runs(scale))
        systems = [gradient_descent.system_of(config) for config in declared]
        assert {system: systems.count(system) for system in systems} == dict.fromkeys(
            [*gradient_descent.SYSTEMS, "untrained"], 5
        )
