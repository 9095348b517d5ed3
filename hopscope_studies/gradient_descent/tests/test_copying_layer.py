"""The copying layer: separate tokens, a softmax layer that pairs them by hand, readings, and claims on both sides."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from pandas import DataFrame

from hopscope.circuits.words import symbols_at
from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.problem.symbols import position_shift
from hopscope_studies.gradient_descent import comparison
from hopscope_studies.gradient_descent.experiments import copying_layer
from hopscope_studies.gradient_descent.experiments.copying_layer import attention, claims, derivatives, ends
from hopscope_studies.gradient_descent.models.linear_self_attention import LinearSelfAttentionShape
from hopscope_studies.gradient_descent.tasks.linear_regression import BASE, D_CODE, LinearRegression
from hopscope_studies.gradient_descent.theory.one_step import best_rate

PAIRS, SEPARATE = LinearRegression(), LinearRegression(separate=True)


# The task --------------------------------------------------------------------------------------------------------


def test_separate_tokens_are_the_pairs_taken_apart():
    pairs, tokens = PAIRS.sample(50, 1).inputs, SEPARATE.sample(50, 1).inputs
    assert torch.equal(PAIRS.sample(50, 1).targets, SEPARATE.sample(50, 1).targets)
    codes, x, y = tokens.split([D_CODE, 10, 1], -1)
    assert torch.equal(x[:, ::2], pairs[:, :, :-1]) and torch.equal(y[:, 1::2], pairs[:, :-1, -1:])
    assert not x[:, 1::2].any() and not y[:, ::2].any()
    assert torch.equal(codes[0], codes[1]) and len({tuple(code) for code in codes[0].tolist()}) == 21


def test_least_squares_finds_the_answer_of_separate_tokens():
    task = LinearRegression(d_x=5, n_points=8, separate=True)
    batch = task.sample(500, 1)
    found = torch.tensor([task.brute_force(inputs) for inputs in batch.inputs.tolist()])
    assert torch.allclose(found, batch.targets, atol=1e-4)


def test_an_example_is_two_positions_of_one_chain_and_the_query_is_in_none():
    labels = LinearRegression(n_points=2, separate=True).sample(1, 0).roles.labels(0)
    assert labels == ["a key[1]", "a value[1]", "b key[1]", "b value[1]", "· query"]


# The model -------------------------------------------------------------------------------------------------------


def by_hand(sharpness: float):
    """Two layers: every token attends to the one before and takes over its x; then a step of descent.

    A y thus finds its own x. An x has no y to be weighed with, whatever it takes over; the query finds the last y,
    which has no x. The first token has none before it and finds the sixth, a y, whose code is the most alike.
    """
    model = LinearSelfAttentionShape(n_layers=2, softmax_first=True).build(SEPARATE)
    eye = torch.eye(SEPARATE.d_input)
    before = torch.zeros_like(eye)
    before[:D_CODE, :D_CODE] = sharpness * position_shift(-1, D_CODE, BASE).T
    is_x, is_y = torch.zeros(SEPARATE.d_input), torch.zeros(SEPARATE.d_input)
    is_x[D_CODE:-1], is_y[-1] = 1.0, 1.0
    step = -best_rate(10, 10) / 10 * torch.diag(is_y)
    weights = {"W_K": torch.stack([eye, eye]), "W_Q": torch.stack([before, torch.diag(is_x)])}
    model.load_state_dict(weights | {"W_V": torch.stack([torch.diag(is_x), step]), "P": torch.stack([eye, eye])})
    return model


def test_a_sharp_copying_layer_is_pairing():
    """The answers are those of the one layer that reads pairs, and of descent without attention."""
    model, batch, pairs = by_hand(1e6), SEPARATE.sample(300, 2), PAIRS.sample(300, 2)
    step = comparison.descent(PAIRS, 1, looped=False, turning=False)
    with torch.no_grad():
        assert torch.allclose(
            comparison.answers(model, batch.inputs), comparison.answers(step, pairs.inputs), atol=1e-4
        )


def test_a_softmax_sums_to_one_over_all_but_the_query():
    model = LinearSelfAttentionShape(n_layers=2, softmax_first=True, init_variance=0.1).build(
        SEPARATE, generator(0, "init")
    )
    _, cache = model(SEPARATE.sample(3, 1).inputs, cache=True)
    first, second = cache["pattern", 0], cache["pattern", 1]
    assert torch.allclose(first.sum(-1), torch.ones(3, 1, 21)) and not first[..., -1].any()
    assert not torch.allclose(second.sum(-1), torch.ones(3, 1, 21))


# Readings --------------------------------------------------------------------------------------------------------


def test_readings_of_the_layer_by_hand():
    """A y attends to its x alone, and an x to the y before. Of x it takes over all ten components: a norm of √10."""
    model, few = by_hand(1e6), SEPARATE.sample(4, 3)
    read = attention(model, few)
    assert read["y reads its x"] == pytest.approx(1, abs=1e-5)
    assert read["x reads its y"] == pytest.approx(0, abs=1e-5)
    assert read["others"] == pytest.approx(10 / (20 * 19 - 20), abs=1e-5)  # all ten x
    norms = derivatives(model, few)
    assert norms["y reads its x"] == pytest.approx(10**0.5, abs=1e-4)
    assert norms["x reads its y"] == pytest.approx(0, abs=1e-5)
    assert norms["others"] == pytest.approx(10 / (20 * 19 - 20) * 10**0.5, abs=1e-4)


def test_losses_of_the_layer_by_hand_are_a_steps_and_without_copying_those_of_zero():
    found = ends(SimpleNamespace(model=by_hand(1e6), task=SEPARATE), 2000)
    assert found["trained"] == pytest.approx(found["one step"], rel=1e-4) and found["distance"] < 1e-4
    assert found["second layer alone"] == pytest.approx(found["zero"], rel=1e-5)
    assert found["two steps"] < found["one step"] < found["zero"]


# Claims ----------------------------------------------------------------------------------------------------------


def rows_of(trained: float, distance: float, linear: float, alone: float, partner: float, drawn: float, first: int):
    """A table of two seeds: losses at the end, partner's attention (a tenth of its derivative), trained and drawn.

    Losses fall at step 200; the layer reads partners from step `first` on.
    """
    rows = []
    for seed in (0, 1):
        for kind, loss in (("softmax", trained), ("linear", linear)):
            end = {"trained": loss, "second layer alone": alone, "one step": 0.2, "two steps": 0.15, "zero": 0.4}
            rows += [(seed, kind, "end", 300, of, value) for of, value in {**end, "distance": distance}.items()]
            rows += [(seed, kind, "loss", step, "trained", 0.4 if step < 200 else loss) for step in (0, 100, 200, 300)]
            for step in (0, 100, 200, 300):
                reads = drawn if step < first else partner
                for quantity, times in (("attention", 1), ("derivative", 10)):
                    means = {"y reads its x": reads * times, "x reads its y": 0.0, "others": 0.03 * times}
                    rows += [(seed, kind, quantity, step, of, value) for of, value in means.items()]
    table = DataFrame(rows, columns=["seed", "first", "quantity", "step", "of", "value"])
    return table.assign(run=table["first"] + table.seed.astype(str), version="v")


def judged(table: DataFrame) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in claims(table)}


def test_claims_hold_of_a_table_as_the_paper_has_it():
    found = judged(rows_of(0.201, 0.05, 0.3, 0.41, partner=0.6, drawn=0.05, first=100))
    assert set(found.values()) == {"holds"}
    assert list(found) == claim_ids("copying_layer")


def test_claims_fail_of_a_table_that_says_otherwise():
    assert set(judged(rows_of(0.25, 0.2, 0.21, 0.3, partner=0.2, drawn=0.08, first=300)).values()) == {"fails"}


def test_two_steps_would_be_another_finding():
    assert judged(rows_of(0.16, 0.05, 0.3, 0.41, partner=0.6, drawn=0.05, first=100))["reaches_one_step"] == "fails"


def test_both_first_layers_have_the_same_seeds():
    for scale in ("cpu", "paper"):
        declared = list(copying_layer.runs(scale))
        assert sorted((c.training.seed, c.model.softmax_first) for c in declared) == sorted(
            (seed, softmax) for seed in range(5) for softmax in (True, False)
        )


def test_numbers_name_no_symbols_of_separate_tokens():
    assert symbols_at(SEPARATE.sample(2, 0), 0) == ["·"] * 21
