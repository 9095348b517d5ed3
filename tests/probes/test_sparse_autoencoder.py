"""Sparse autoencoders against formulas written out, planted directions, and every pairing tried."""

from __future__ import annotations

from itertools import permutations

import pytest

pytest.importorskip("torch")

import torch

from hopscope.core.settings import BadInput
from hopscope.probes.sparse_autoencoder import (
    SparseAutoencoder,
    SparseTraining,
    attribution,
    explained,
    fresh,
    matched,
    revival,
    revive,
    trained,
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def planted(n: int = 4000, d: int = 32, known: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors that are sums of two of the known directions, of which there are more than dimensions."""
    directions = torch.nn.functional.normalize(torch.randn(known, d, generator=rng(1)), dim=1)
    which = torch.rand(n, known, generator=rng(2)).topk(2, dim=1).indices
    weights = 0.5 + torch.rand(n, 2, generator=rng(3))
    return torch.einsum("nk,nkd->nd", weights, directions[which]), directions


def test_encoder_and_decoder_are_the_papers_formulas():
    one = SparseAutoencoder(3, 5, rng())
    with torch.no_grad():
        one.b_enc.copy_(torch.randn(5, generator=rng(1)))
        one.b_dec.copy_(torch.randn(3, generator=rng(2)))
        one.scale.fill_(2.0)
        z = torch.randn(4, 3, generator=rng(3))
        for row in z:
            inside = [max(0.0, float((row / 2 - one.b_dec) @ one.W_enc[:, i] + one.b_enc[i])) for i in range(5)]
            out = sum(inside[i] * one.W_dec[i] for i in range(5)) + one.b_dec
            assert one.encode(row).tolist() == pytest.approx(inside, abs=1e-5)
            assert one(row).tolist() == pytest.approx((2 * out).tolist(), abs=1e-5)
        f = one.encode(z)
        wanted = ((z - one(z)) / 2).square().sum(1).mean() + 3 * f.sum(1).mean()
        assert float(one.loss(z, 3.0)) == pytest.approx(float(wanted), rel=1e-5)


def test_planted_directions_are_recovered_and_mixed_coordinates_have_none():
    z, directions = planted()
    settings = SparseTraining(steps=600, batch=256, l1=1.0)
    found = trained(z, settings)
    assert float((matched(directions, found.W_dec) > 0.9).float().mean()) > 0.9
    assert found.W_dec.norm(dim=1).tolist() == pytest.approx([1.0] * 128, abs=1e-5)
    mixed = torch.stack([column[torch.randperm(len(z), generator=rng(i))] for i, column in enumerate(z.T)], 1)
    assert float((matched(directions, trained(mixed, settings).W_dec) > 0.9).float().mean()) < 0.3
    assert float((matched(directions, fresh(z, settings).W_dec) > 0.9).float().mean()) < 0.3


def test_equal_arguments_give_equal_weights_and_units_do_not_matter():
    z, _ = planted(200)
    settings = SparseTraining(steps=20, batch=32)
    one, again, louder = (trained(some, settings) for some in (z, z, 1024 * z))
    assert torch.equal(one.W_dec, again.W_dec) and torch.equal(one.W_enc, again.W_enc)
    assert torch.allclose(one.W_dec, louder.W_dec, atol=1e-4)
    assert torch.allclose(1024 * one(z), louder(1024 * z), rtol=1e-3, atol=1e-1)
    assert not torch.equal(one.W_dec, trained(z, settings.but(seed=1)).W_dec)


def test_too_few_vectors_are_refused():
    with pytest.raises(BadInput, match="two vectors or more; got 1"):
        trained(torch.zeros(1, 4), SparseTraining())


def test_the_decoders_gradient_keeps_its_rows_lengths():
    one = SparseAutoencoder(4, 6, rng())
    one.W_dec.grad = torch.randn(6, 4, generator=rng(1))
    one.project()
    assert (one.W_dec.grad * one.W_dec).sum(1).tolist() == pytest.approx([0.0] * 6, abs=1e-6)


def test_silent_features_are_pointed_at_what_is_worst_explained():
    one = SparseAutoencoder(3, 4, rng()).requires_grad_(False)
    optimizer = torch.optim.Adam(one.requires_grad_(True).parameters())
    one.loss(torch.randn(8, 3, generator=rng(1)), 1.0).backward()
    optimizer.step()
    with torch.no_grad():
        one.W_enc[:, 1:], one.b_enc[:] = 0, -100.0
        one.b_enc[0] = 100.0  # always there
        before = one.W_dec.clone()
        z = torch.zeros(50, 3)
        z[7] = torch.tensor([0.0, 0.0, 1e6])
    revive(one, optimizer, z, rng(2))
    one.requires_grad_(False)
    assert torch.equal(one.W_dec[0], before[0])
    towards = torch.nn.functional.normalize(z[7] - one.b_dec, dim=0)
    for feature in (1, 2, 3):  # all of them, for one vector is worse than all others by far
        assert float(one.W_dec[feature] @ towards) == pytest.approx(1, abs=1e-3)
        assert float(one.W_enc[:, feature].norm()) == pytest.approx(0.2 * float(one.W_enc[:, 0].norm()), rel=1e-4)
        assert float(one.b_enc[feature]) == 0 and float(optimizer.state[one.W_dec]["exp_avg_sq"][feature].sum()) == 0
    assert float(optimizer.state[one.W_dec]["exp_avg_sq"][0].sum()) > 0


def test_when_silent_features_are_drawn_anew():
    settings = SparseTraining(steps=80, revivals=4)
    assert [step for step in range(80) if revival(step, settings)] == [9, 19, 29, 39]
    assert not any(revival(step, settings.but(revivals=0)) for step in range(80))


@pytest.mark.parametrize("seed", range(5))
def test_no_pairing_has_more_pairs_alike_than_ours(seed):
    """Of directions that are further apart than twice the angle; all pairings of four with five are tried."""
    truth = torch.eye(4, 6)
    found = torch.nn.functional.normalize(truth[[0, 0, 1, 2, 3]] + 0.4 * torch.randn(5, 6, generator=rng(seed)), dim=1)
    cosines = truth @ found.T
    best = max(sum(float(cosines[i, j]) > 0.72 for i, j in enumerate(chosen)) for chosen in permutations(range(5), 4))
    ours = matched(truth, found)
    assert int((ours > 0.72).sum()) == best
    assert matched(truth, 3 * truth[[2, 0, 3, 1]]).tolist() == pytest.approx([1.0] * 4)
    assert matched(truth, truth[:1]).tolist() == [1.0, 0.0, 0.0, 0.0]  # one direction is nobody's twice


def test_explained_variance():
    z = torch.randn(50, 4, generator=rng())
    assert explained(z, z) == 1
    assert explained(z, z.mean(0).expand_as(z)) == pytest.approx(0, abs=1e-6)
    assert explained(z, 2 * z.mean(0) - z) == pytest.approx(-3, abs=1e-4)


def test_attribution_names_the_head_that_a_feature_reads():
    one = SparseAutoencoder(6, 3, rng()).requires_grad_(False)
    one.W_enc[:] = 0
    one.W_enc[0, 0] = one.W_enc[5, 1] = 1.0  # of head 0, of head 2
    one.W_enc[2, 2], one.W_enc[3, 2], one.b_enc[2] = 1.0, 1.0, -10.0  # of head 1, and silent
    z = torch.rand(20, 6, generator=rng(1)) + 0.1
    assert attribution(one, z, 3).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    one.b_enc[2] = 0.0
    one.W_enc[0, 2], one.W_enc[2, 2], one.W_enc[3, 2] = 1.0, 0.0, 3.0
    shares = attribution(one, torch.ones(5, 6), 3)[2]
    assert shares.tolist() == pytest.approx([0.25, 0.75, 0])
