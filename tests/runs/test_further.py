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
from hopscope.tasks.some_hops import SomeHops
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.training.loop import train
from hopscope.training.trainer import Trainer

TASK = Retrieval(n_hops=2, n_chains=2, curriculum="mixture")
SHAPE = Architecture(n_layers=3, loops=3, n_heads=2, d_model=16, positions="relative(start='L0 1:4')")
CPU = torch.device("cpu")
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
    trainer = Trainer(Config(TASK, SHAPE, TRAINING), CPU)
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
    for task in (Retrieval(), HopK()):
        with pytest.raises(BadInput, match="needs a task of chains"):
            Config(task, SHAPE, TRAINING)
    some = SomeHops(n_hops=3, first=3, last=3, curriculum="none")
    with pytest.raises(BadInput, match="asks the last hop alone"):
        list(further(drawn(task=some), some, [5], [1]))


def test_no_loops_at_all_are_refused_by_name():
    for asked in (lambda: drawn().looped(0), lambda: list(further(drawn(), TASK, [3], [0]))):
        with pytest.raises(BadInput, match="loops must be at least 1; got 0"):
            asked()


@pytest.mark.parametrize(
    "other",
    [
        TASK.but(d_symbol=8),
        TASK.but(position_code="token_and_before"),
        TASK.but(curriculum="implicit"),
        SymbolicRetrieval(n_hops=2, n_chains=2, d_vocab=64, curriculum="mixture"),
        SymbolicRetrieval(n_hops=2, n_chains=2, d_vocab=8, curriculum="mixture"),
    ],
    ids=str,
)
def test_a_model_of_another_task_is_told_in_a_sentence(other):
    """Its inputs or outputs have other sizes; 8 tokens are no 8 features."""
    with pytest.raises(BadInput, match="the model was made for another task than retrieval"):
        list(further(drawn(task=other), TASK, [3], [4]))


@pytest.mark.parametrize(("first", "last"), [(3, 3), (1, 2), (1, 3)])
def test_some_hops_are_not_read_off_layers(first, last, tmp_path):
    """Whatever some_hops asks, it asks of every length, so there is no hop for each layer."""
    task = SomeHops(n_hops=3, first=first, last=last, curriculum="none")
    with pytest.raises(BadInput, match="hop-every needs a task that asks the last hop alone, such as retrieval"):
        train(Config(task, SHAPE.but(n_layers=4, loops=4), TRAINING), tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("hops", "layers", "every", "needed"), [(3, 3, 1, 4), (1, 6, 1, 2), (2, 9, 2, 6)])
def test_the_last_hop_is_trained_after_the_last_layer(hops, layers, every, needed, tmp_path):
    """Validation reads the last layer, so with more layers it would read one that is not trained."""
    recipe = Config(TASK.but(n_hops=hops), SHAPE.but(n_layers=layers, loops=layers), TRAINING.but(hop_every=every))
    with pytest.raises(BadInput, match=f"hops {hops}, hop-every {every} needs exactly {needed} layers; got"):
        train(recipe, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_the_loss_of_the_last_hop_is_that_of_validation():
    trainer = Trainer(Config(Retrieval(n_hops=1, curriculum="mixture"), SHAPE.but(n_layers=2, loops=2), TRAINING), CPU)
    batch = trainer.config.task.sample(6, 1)
    assert torch.equal(trainer.loss(batch), batch.task.loss(trainer.outputs(batch), batch.targets))
