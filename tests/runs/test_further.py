"""More hops than trained: against accuracies counted by hand, and models that are lengthened by hand."""

from __future__ import annotations

import pytest
import torch

from hopscope.configuration.config import Config, Training
from hopscope.core.intervals import wilson_of_mean
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.transformer import Architecture
from hopscope.runs.further import further
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.training.trainer import Trainer

TASK = Retrieval(n_hops=2, n_chains=2, curriculum="mixture")
SHAPE = Architecture(n_layers=3, loops=3, n_heads=2, d_model=16, positions="relative(start='L0 1:4')")
TRAINING = Training(steps=4, batch=8, log_every=2, val_size=16, hop_every=1)


def drawn(shape: Architecture = SHAPE, task=TASK):
    return shape.build(task, torch.Generator().manual_seed(3))


def test_a_table_counts_the_symbol_nearest_to_each_answer():
    model = drawn()
    [row] = further(model, TASK, [3], [5], n=20, seed=7)
    posed = Retrieval(n_hops=3, n_chains=2, curriculum="none")
    batch = posed.sample(20, generator(7, "further", 3))
    answers = model.looped(5, n_positions=posed.n_positions)(batch.inputs, at=slice(-2, None))
    right = 0
    shares = []
    for answer, symbols, targets in zip(answers, batch.draw["symbols"], batch.targets, strict=True):
        named = [symbols[(symbols - one).norm(dim=1).argmin()] for one in answer]
        hits = [torch.equal(one, target) for one, target in zip(named, targets, strict=True)]
        right, shares = right + sum(hits), [*shares, sum(hits) / 2]
    assert row["accuracy"] == pytest.approx(right / 40) and (row["low"], row["high"]) == wilson_of_mean(shares)
    assert (row["hops"], row["loops"], row["chains"], row["n"]) == (3, 5, 2, 20)


def test_tokens_are_asked_further_with_more_chains():
    """Of three chains of three hops, the likeliest token of each query is counted, for a model of two and two."""
    task = SymbolicRetrieval(n_hops=2, n_chains=2, curriculum="mixture")
    model = drawn(task=task)
    [row] = further(model, task, [3], [4], chains=3, n=20, seed=7)
    posed = SymbolicRetrieval(n_hops=3, n_chains=3, curriculum="none")
    batch = posed.sample(20, generator(7, "further", 3))
    answers = model.looped(4, n_positions=posed.n_positions)(batch.inputs, at=slice(-3, None)).argmax(-1)
    right = [
        [int(a) == int(t) for a, t in zip(*pair, strict=True)] for pair in zip(answers, batch.targets, strict=True)
    ]
    assert row["accuracy"] == pytest.approx(sum(map(sum, right)) / 60)
    assert (row["hops"], row["loops"], row["chains"]) == (3, 4, 3)


def test_a_lengthened_model_answers_short_sequences_as_before():
    """And what it has not learnt of longer distances is zero."""
    model, inputs = drawn(), TASK.sample(5, 0).inputs
    longer = model.looped(3, n_positions=40)
    assert torch.equal(longer(inputs), model(inputs))
    [name] = [name for name in longer.state_dict() if name.endswith("beta")]
    assert longer.get_parameter(name)[:, len(model.mask) :].abs().max() == 0


def test_hop_by_layer_is_the_mean_of_each_hops_loss_behind_its_layer():
    trainer = Trainer(Config(TASK, SHAPE, TRAINING), torch.device("cpu"))
    batch = TASK.sample(6, 1)
    every = Retrieval(n_hops=2, n_chains=2).targets(batch.draw)
    by_hand = 0.0
    for hop in (1, 2):
        outputs = trainer.model.looped(hop + 1)(batch.inputs, at=TASK.query_positions)
        by_hand += (outputs - every[..., (hop - 1) * 4 : hop * 4]).square().mean() / 2
    assert torch.allclose(trainer.loss(batch), by_hand)


def test_what_cannot_be_asked_is_told_in_a_sentence():
    with pytest.raises(BadInput, match="n must be at least 1; got 0"):
        list(further(drawn(), TASK, [3], [3], n=0))
    with pytest.raises(BadInput, match="asks the last hop alone"):
        list(further(drawn(task=Retrieval()), Retrieval(), [3], [3]))
    with pytest.raises(BadInput, match="needs a task of chains"):
        Config(Retrieval(), SHAPE, TRAINING)
    with pytest.raises(BadInput, match="needs a task of chains"):
        Config(HopK(), SHAPE, TRAINING)
    with pytest.raises(BadInput, match="hop-every 1 needs 4 layers; got 3"):
        Config(TASK.but(n_hops=3), SHAPE, TRAINING)
