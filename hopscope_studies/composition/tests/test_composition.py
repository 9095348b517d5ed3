"""Tests of `composition`: hand-set weights, matrices with known scores, and claims that hold and that fail."""

from __future__ import annotations

import math

import pandas
import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.measures import observe
from hopscope.measures.lag_attention import by_lag, lag_attention
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.composition import bridge
from hopscope_studies.composition.cells import elsewhere
from hopscope_studies.composition.claims import claims, critical_pools, halfway
from hopscope_studies.composition.scores import batches, by_offset, changed, error, errors, heads
from hopscope_studies.composition.tests.by_hand import by_hand

# The positive control ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def control() -> tuple[Transformer, RepeatedSegment]:
    task = RepeatedSegment(length=24, d_vocab=32)
    return by_hand(task), task


def test_weights_by_hand_copy_in_and_out_of_distribution(control):
    model, task = control
    for kind in (task, elsewhere(task.but(length=32), "quick").but(length=24, shortest=8, longest=8)):
        assert error(observe(model, kind.sample(256, 0))) < 0.05


def test_weights_by_hand_are_a_shift_and_an_induction_head(control):
    model, task = control
    found = heads(model, task.sample(64, 0))
    assert (found["offset"], found["lag"]) == (1, 1)
    assert found["shift"] > 0.99 and found["induction"] > 0.95


def test_the_diagonal_score_of_weights_by_hand_is_the_closed_form(control):
    """W_QK W_OV has the value β on V of its d = 4 V diagonal entries, and 0 elsewhere."""
    model, task = control
    n, d = task.d_vocab, 4 * task.d_vocab
    share = n / d / d
    expected = (n / d - share) / math.sqrt(share - share**2)
    induction, previous = bridge.query_key(model, 1, 0), bridge.output_value(model, 0, 0)
    assert bridge.diagonal_score(bridge.composed(induction, previous)) == pytest.approx(expected, rel=1e-5)
    order = torch.randperm(d, generator=generator(0, "shuffle"))
    assert abs(bridge.diagonal_score(bridge.composed(induction, previous[:, order]))) < 0.5


def test_projecting_out_what_the_second_head_reads_breaks_it_and_nothing_else_does(control):
    model, task = control
    n, batch = task.d_vocab, task.sample(128, 0)
    registers = torch.eye(4 * n)
    assert changed(model, batch, bridge.without(registers[:, n : 3 * n], 0)) > 0.8
    assert changed(model, batch, bridge.without(registers[:, 3 * n :], 0)) == error(observe(model, batch))
    assert changed(model, batch, bridge.only(registers[:, n : 3 * n], 0)) == error(observe(model, batch))


def test_an_untrained_model_errs_as_often_as_a_guess():
    task = RepeatedSegment()
    model = Architecture(n_layers=2, d_model=16, mlp=False).build(task, generator(0, "init"))
    found = errors(model, batches(task, "quick"))
    assert all(value > 0.85 for value in found.values())


# Matrices ---------------------------------------------------------------------------------------------------------


def test_scores_of_matrices_by_hand():
    """The identity of size n has entries of mean 1/n and standard deviation √(1/n − 1/n²)."""
    n = 5
    assert bridge.diagonal_score(torch.eye(n)) == pytest.approx((1 - 1 / n) / math.sqrt(1 / n - 1 / n**2), rel=1e-5)
    assert bridge.diagonal_score(torch.ones(n, n)) == 0


def test_subspaces_match_wholly_not_at_all_and_by_chance():
    first, second = torch.zeros(8, 8), torch.zeros(8, 8)
    first[:3, :3], second[:3, :3] = torch.diag(torch.tensor([3.0, 2.0, 1.0])), torch.eye(3)
    assert bridge.subspace_match(first, second, 3) == pytest.approx(1, abs=1e-5)
    assert bridge.subspace_match(first, second.roll(4, 1), 3) == pytest.approx(0, abs=1e-5)
    random = generator(0, "match")
    found = [
        bridge.subspace_match(torch.randn(32, 32, generator=random), torch.randn(32, 32, generator=random), 8)
        for _ in range(40)
    ]
    assert sum(found) / 40 == pytest.approx(bridge.random_match(32, 8), abs=0.02)


def test_scores_of_a_head_are_query_w_qk_key():
    """Without a position code the model's own scores are x W_QK x, up to the factor √d_head."""
    task = RepeatedSegment(length=16, shortest=4, longest=5)
    shape = Architecture(n_layers=1, d_model=8, mlp=False, positions="none", layer_norm=False)
    model = shape.build(task, generator(0, "init"))
    inputs = task.sample(2, 0).inputs
    cache = model(inputs, cache=["hook_embed", "blocks.0.attn.hook_pattern", "blocks.0.hook_attn_out"])[1]
    x, pattern = cache["hook_embed"], cache["pattern", 0][:, 0]
    scores = x @ bridge.query_key(model, 0, 0) @ x.transpose(1, 2) / math.sqrt(8)
    assert torch.allclose((scores + model.mask).softmax(-1), pattern, atol=1e-5)
    assert torch.allclose(pattern @ x @ bridge.output_value(model, 0, 0), cache["blocks.0.hook_attn_out"], atol=1e-5)


def test_lags_and_offsets_of_patterns_by_hand():
    pattern = torch.zeros(1, 6, 6)
    pattern[0, 5, 3] = 0.7  # a query at 5, whose token stood at 2: lag +1, offset 2
    pattern[0, 5, 1] = 0.3
    earlier = torch.zeros(1, 6, 6, dtype=torch.bool)
    earlier[0, 5, 2] = True
    curve = by_lag(pattern, earlier)
    assert (curve[1], curve[-1], curve[0]) == pytest.approx((0.7, 0.3, 0.0))
    assert math.isnan(curve[-3]) and math.isnan(curve[4])
    assert by_offset(pattern)[2] == pytest.approx(0.7 / 4)


def test_lag_attention_names_head_and_lag(control):
    model, task = control
    found = lag_attention(observe(model, task.sample(32, 0)))
    assert found["L1H0 +1"] > 0.95 > found["L1H0 +0"] + found["L1H1 +1"]


# Claims -----------------------------------------------------------------------------------------------------------

GOOD = {
    "id_error": [0.9, 0.5, 0.02],
    "fresh_error": [0.9, 0.5, 0.02],
    "ood_error": [0.98, 0.5, 0.02],
    "known_error": [0.9, 0.9, 0.9],
    "shift": [0.1, 0.4, 0.6],
    "induction": [0.1, 0.5, 0.9],
    "diagonal": [0.0, 2.0, 4.0],
    "shuffled": [0.5, 0.5, 0.5],
    "match": [0.4, 0.6, 0.9],
    "random_match": [0.4, 0.4, 0.4],
}


def curve(seed: int, layers: int = 2, pool: int = 0, **changes: list[float]) -> pandas.DataFrame:
    about = {"run": f"{layers}-{pool}-{seed}", "version": "", "seed": seed, "kind": "curve", "layers": layers}
    return pandas.DataFrame({**about, "pool": pool, "step": [0, 100, 200], **GOOD, **changes})


def projection(seed: int, without: tuple[float, float], only: tuple[float, float]) -> pandas.DataFrame:
    rows = [
        {"projection": name, "rank": rank, "shared_error": shared, "random_error": chance}
        for name, (shared, chance) in (("without", without), ("only", only))
        for rank in (4, 8, 16)
    ]
    about = {"run": f"2-0-{seed}", "version": "", "seed": seed, "kind": "projection", "layers": 2, "pool": 0}
    return pandas.DataFrame(rows).assign(**about, step=200)


def made(bad: bool) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    flat = {"ood_error": [0.5, 0.5, 0.98]} if bad else {}
    late = {name: [GOOD[name][0], GOOD[name][0], GOOD[name][2]] for name in ("shift", "induction", "diagonal")}
    early = {"ood_error": [0.98, 0.02, 0.02], **late, "shuffled": [9.0] * 3, "match": [0.3] * 3} if bad else {}
    parts = []
    for seed in range(5):
        fails = {"ood_error": [0.98, 0.9, 0.1 if bad else 0.9], "id_error": [0.9, 0.5, 0.9 if bad else 0.1]}
        parts += [curve(seed, **early), curve(seed, layers=1, **fails), curve(seed, pool=16, **fails)]
        parts += [curve(seed, pool=64), curve(seed, pool=1024, **flat)]
        parts += [projection(seed, (0.2, 0.2) if bad else (0.9, 0.1), (0.9, 0.9) if bad else (0.1, 0.9))]
    if bad:
        parts += [curve(9, **flat)]
    return pandas.concat(parts, ignore_index=True)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made(bad=False))}
    assert list(found) == claim_ids("composition")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    assert {claim.id: claim.verdict for claim in claims(made(bad=True))} == dict.fromkeys(
        claim_ids("composition"), "fails"
    )


def test_halfway_is_interpolated():
    rows = curve(0, ood_error=[1.0, 0.75, 0.0], shift=[0.0, 0.0, 1.0])
    assert halfway(rows, "ood_error") == pytest.approx((100 + 100 / 3) / 200)
    assert halfway(rows, "shift") == pytest.approx(0.75)


def test_critical_pools_are_interpolated_over_logarithms():
    ends = pandas.DataFrame({"seed": 0, "pool": [16, 64], "ood_error": [0.9, 0.1]})
    assert critical_pools(ends).tolist() == pytest.approx([32.0])
    assert critical_pools(ends.assign(ood_error=0.9)).tolist() == [math.inf]
