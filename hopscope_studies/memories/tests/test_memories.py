"""Tests of `memories`: autograd, closed forms and calculations by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from hopscope import Architecture, Transformer, train
from hopscope.cli import main
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.experiments.capacity import Search, capacity
from hopscope.experiments.values import power_law
from hopscope.experiments.work import Stopped
from hopscope.tasks.induction import Induction
from hopscope.theory import memories
from hopscope_studies.memories.lemma import Lemma
from hopscope_studies.memories.models.associative_memory import MemoryArchitecture
from hopscope_studies.memories.tasks.associations import Associations
from hopscope_studies.memories.work import TrainedCapacity, WrittenCapacity


def drawn(n=20, m=9, d=8, seed=0):
    """Inputs, outputs, a noisy joint distribution of both, a matrix."""
    random = generator(seed, "test")
    inputs, outputs = (memories.random_rows(k, d, random).double() for k in (n, m))
    joint = torch.randn(n, m, generator=random, dtype=torch.float64).flatten().softmax(0).view(n, m)
    return inputs, outputs, joint, torch.randn(d, d, generator=random, dtype=torch.float64)


def test_storage_by_hand():
    """Two pairs with orthonormal embeddings, weights 2 and 3: a pair's score is its weight, and others are 0."""
    inputs = outputs = torch.eye(2)
    weights = torch.tensor([[0.0, 2.0], [3.0, 0.0]])  # input 0 -> output 1, input 1 -> output 0
    memory = memories.stored(outputs, inputs, weights)
    assert torch.equal(memory, torch.tensor([[0.0, 3.0], [2.0, 0.0]]))
    assert torch.equal(memories.scores(memory, outputs, inputs), weights)
    assert memories.recall(weights, torch.tensor([1, 0])) == 1.0
    assert memories.recall(weights, torch.tensor([1, 1])) == 0.5
    answers = torch.tensor([1, 0])
    assert torch.equal(memories.stored_pairs(outputs, inputs, answers), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_a_memory(seed):
    inputs, outputs, joint, memory = drawn(seed=seed)
    memory.requires_grad_()
    memories.population_loss(memories.scores(memory, outputs, inputs), joint).backward()
    closed = memories.gradient(memory.detach(), outputs, inputs, joint)
    assert memory.grad is not None
    assert (memory.grad - closed).abs().max() < 1e-10
    assert closed.abs().max() > 1e-3


def test_the_lemma_term_by_term():
    """The lemma Σ_k E_z[(p̂ − p) u_k e_z^T], summed term by term."""
    inputs, outputs, joint, memory = drawn(4, 3, 5)
    total = torch.zeros_like(memory)
    for z, e in enumerate(inputs):
        guess = (outputs @ memory @ e).softmax(0)
        for k, u in enumerate(outputs):
            given = joint[z, k] / joint[z].sum()
            total += joint[z].sum() * (guess[k] - given) * torch.outer(u, e)
    assert (total - memories.gradient(memory, outputs, inputs, joint)).abs().max() < 1e-14


def test_the_work_checks_both_forms():
    lemma = Lemma(n=6, n_classes=4, d=5)
    assert lemma.shallow() < 1e-10
    assert lemma.deep() < 1e-10


def test_with_nothing_above_the_deep_form_is_the_lemma():
    inputs, outputs, joint, memory = drawn()
    deep = memories.deep_gradient(memory, lambda hidden: outputs @ hidden, inputs, joint)
    assert (deep - memories.gradient(memory, outputs, inputs, joint)).abs().max() < 1e-14


def test_the_deep_form_holds_of_a_transformers_weights():
    """The gradient of the last W_O is a sum of backward vectors, through all layers above, times the heads' outputs."""
    task = Induction(length=6, d_vocab=8)
    model = Transformer.for_task(Architecture(n_layers=2, d_model=8, n_heads=1), task, generator(0, "init")).double()
    batch = task.sample(5)
    out = model(batch.inputs, at=task.query_positions)[:, 0]
    answers = batch.targets[:, 0, 0]
    (found,) = torch.autograd.grad(torch.nn.functional.cross_entropy(out, answers), model.blocks[1].attn.W_O)
    kept = model(batch.inputs, cache=True)[1]
    below = kept["blocks.1.hook_resid_pre"].detach()

    def above(attention, row):
        """Logits of one sequence, given what the head adds at its last position."""
        whole = kept["blocks.1.hook_attn_out"][row].detach().clone()
        whole = torch.cat([whole[:-1], attention[None]])
        resid = model(below[row][None], start_at_layer=1, replace={"blocks.1.hook_attn_out": whole[None]})
        return resid[0, -1]

    closed = torch.zeros(8, 8, dtype=torch.float64)
    for row in range(len(batch)):
        added = kept["blocks.1.hook_attn_out"][row, -1].detach()
        backward = torch.autograd.functional.jacobian(lambda x, row=row: above(x, row), added)  # output d_model
        off = (out[row].softmax(-1) - torch.nn.functional.one_hot(answers[row], 8)).detach() / len(batch)
        closed += torch.outer(kept["blocks.1.attn.hook_z"][row, -1, 0].detach(), off @ backward)
    assert (found[0] - closed).abs().max() < 1e-10


def test_one_step_is_the_gradient_step_from_nothing_and_recalls_all():
    n, d, rate = 12, 16, 3.0
    random = generator(0, "test")
    inputs, outputs = (torch.linalg.qr(torch.randn(d, n, generator=random))[0].T.double() for _ in range(2))
    answers = torch.randperm(n, generator=random)
    first = memories.one_step(outputs, inputs, answers, rate)
    nothing = torch.zeros(d, d, dtype=torch.float64)
    joint = torch.nn.functional.one_hot(answers, n).double() / n  # p(z, y) for z even over the inputs and y = f*(z)
    step = -rate * memories.gradient(nothing, outputs, inputs, joint)
    assert (first - step).abs().max() < 1e-12
    expected = rate / n * (torch.nn.functional.one_hot(answers, n) - 1 / n)
    found = memories.scores(first, outputs, inputs)
    assert (found - expected).abs().max() < 1e-5  # embeddings are float32's orthonormal
    assert memories.recall(found, answers) == 1.0


def test_overlap_is_what_is_asked_for():
    rows = memories.random_rows(400, 64, generator(0, "test"), 0.3)
    gram = rows @ rows.T
    assert torch.allclose(gram.diagonal(), torch.ones(400), atol=1e-5)
    assert float((gram.sum() - 400) / (400 * 399)) == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize(("n", "d"), [(64, 64), (128, 64), (256, 64), (348, 128)])
def test_recall_of_outer_products_is_as_expected(n, d):
    """The reference recalls are 1.00, 0.97, 0.66 at d = 64, and at least 0.99 at d = 128."""
    found = []
    for seed in range(8):
        random = generator(seed, "test")
        inputs, outputs = (memories.random_rows(n, d, random) for _ in range(2))
        scores = memories.scores(memories.stored_pairs(outputs, inputs, torch.arange(n)), outputs, inputs)
        found.append(memories.recall(scores, torch.arange(n)))
    assert sum(found) / len(found) == pytest.approx(memories.expected_recall(n, d), abs=0.05)


def test_even_classes():
    assert memories.even_classes(6, 3).tolist() == [0, 0, 1, 1, 2, 2]


class UpTo(Search):
    """A search in which sizes up to 37 pass."""

    label = "up-to"

    def recall_at(self, size, folder, should_stop):
        return 1.0 if size <= 37 else 0.5


@pytest.mark.parametrize(("low", "high", "held"), [(2, 100, 37), (30, 39, 37), (37, 90, 37), (40, 90, math.nan)])
def test_the_search_ends_at_the_greatest_size_that_passes(low, high, held, tmp_path):
    search, tries = UpTo(low, high, 1.0), {}
    while (size := search.next_size(tries)) is not None:
        assert size not in tries
        tries[size] = search.recall_at(size, tmp_path, lambda: False)
    assert capacity(tries) == pytest.approx(held, nan_ok=True)


def test_a_search_stopped_goes_on(tmp_path):
    calls = iter([False, False, True])
    search = UpTo(2, 100, 1.0)
    with pytest.raises(Stopped):
        search.do(tmp_path, lambda: next(calls))
    search.do(tmp_path, lambda: False)
    whole = tmp_path / "whole"
    whole.mkdir()
    search.do(whole, lambda: False)
    assert (tmp_path / "tries.json").read_bytes() == (whole / "tries.json").read_bytes()


def test_power_laws_are_fitted():
    assert power_law([1, 2, 4], [3, 12, 48]) == pytest.approx((3, 2))
    assert all(math.isnan(x) for x in power_law([1, 1, math.nan], [3, 12, 48]))


def test_a_small_trained_matrix_holds_more_than_outer_products(tmp_path):
    """At d = 8 outer products hold fewer than 10 pairs and training more than 15 (17 by N log N = 64/1.3)."""
    assert WrittenCapacity(2, 30, d=8).recall_at(16, tmp_path, lambda: False) < 0.9
    assert TrainedCapacity(2, 30, d=8, steps=1024).recall_at(16, tmp_path, lambda: False) >= 0.99
    assert TrainedCapacity(2, 30, d=8, ratio=2, n_classes=4, steps=512, lr=0.03).model.stored == 256


# What is trained ---------------------------------------------------------------------------------------------------


def test_a_batch_of_n_holds_every_input_once():
    task = Associations(7)
    assert task.sample(7, 3).inputs.flatten().sort().values.tolist() == list(range(7))
    assert task.sample(17, 3).inputs.flatten().bincount().sort().values.tolist() == [2] * 4 + [3] * 3
    assert task.sample(3, 3).inputs.flatten().unique().numel() == 3


def test_baselines_of_uneven_classes_by_hand():
    """Seven inputs fall into three classes of 3, 2 and 2."""
    expected = -3 / 7 * math.log(3 / 7) - 4 / 7 * math.log(2 / 7)
    assert list(Associations(7, 3).baselines.values()) == pytest.approx([expected, 0.0])
    with pytest.raises(BadInput, match="2 to the number of inputs, 4; got 5"):
        Associations(4, 5)


@torch.no_grad()
def test_scores_are_those_of_theory():
    """Scores are u_k^T W e_z and u_k^T W_2 relu(W_1 e_z + b), for every input at once."""
    task, inputs = Associations(6, 3), torch.arange(6)[:, None]
    matrix = MemoryArchitecture(5).build(task, generator(0, "init"))
    matrix.W.copy_(torch.randn(5, 5, generator=generator(0, "test")))
    assert torch.allclose(matrix(inputs)[:, 0], memories.scores(matrix.W, matrix.U, matrix.E), atol=1e-6)
    assert torch.allclose(matrix.E.norm(dim=1), torch.ones(6), atol=1e-6)
    mlp = MemoryArchitecture(5, 9).build(task, generator(0, "init"))
    rows = [[float(u @ (mlp.W_2 @ (mlp.W_1 @ e + mlp.b_1).clamp(min=0))) for u in mlp.U] for e in mlp.E]
    assert torch.allclose(mlp(inputs)[:, 0], torch.tensor(rows), atol=1e-6)


@pytest.mark.parametrize("ratio", [0, 2])
def test_the_common_loop_is_full_batch_adamw(ratio, tmp_path):
    """The training equals ten steps of AdamW written out, on all inputs in order."""
    work = TrainedCapacity(d=6, ratio=ratio, n_classes=5, steps=10, lr=0.03)
    config = work.training_of(40)
    run = train(config, tmp_path, threads=1, compile="off")
    assert run.step == 10
    model = config.model.build(config.task, generator(0, "init"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03, weight_decay=0.0)
    inputs, answers = torch.arange(40)[:, None], memories.even_classes(40, 5)
    for _ in range(10):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs)[:, 0], answers).backward()
        optimizer.step()
    for mine, other in zip(run.model.parameters(), model.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-4)
    assert run.rows[-1]["accuracy"] == pytest.approx(memories.recall(model(inputs)[:, 0], answers))


def test_a_model_without_heads_has_no_circuit_and_says_so(tmp_path, capsys):
    config = TrainedCapacity(d=4, steps=4).training_of(8)
    config = replace(config, training=config.training.but(checkpoints="1", stop_accuracy=None))
    train(config, tmp_path / "run", threads=1, compile="off")
    for command in ("circuit", "emerge"):
        assert main([command, str(tmp_path / "run")]) == 2
        assert "no attention" in capsys.readouterr().err
    assert main(["draw", str(tmp_path / "run"), "--out", str(tmp_path / "pictures")]) == 0
