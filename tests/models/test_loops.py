"""Looped depth: against the model whose layers have copies of the weights, and against sums done by hand."""

from __future__ import annotations

import pytest
import torch

from hopscope.circuits.certificates import certify
from hopscope.circuits.evaluator import Evaluator
from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.emergence.track import follow
from hopscope.models.transformer import Architecture
from hopscope.runs.importing import to_transformer_lens
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import train
from hopscope.training.stack import train_many

TASK = Retrieval(n_hops=2)
SHAPE = Architecture(n_layers=4, loops=2, n_heads=2, d_model=16, mlp=True)


def drawn(shape: Architecture = SHAPE, task=TASK):
    return shape.build(task, torch.Generator().manual_seed(3))


def test_it_computes_what_layers_with_copies_of_its_weights_compute():
    model, inputs = drawn(), TASK.sample(5, 0).inputs
    copied = model.unrolled()
    assert (copied.architecture.loops, len(copied.blocks), len(model.blocks)) == (1, 4, 2)
    mine, theirs = model(inputs, cache=True), copied(inputs, cache=True)
    assert torch.equal(mine[0], theirs[0]) and mine[1].keys() == theirs[1].keys()
    assert all(torch.equal(mine[1][name], theirs[1][name]) for name in mine[1])


@pytest.mark.parametrize("positions", ["none", "learned", "rotary"])
def test_it_is_unrolled_with_every_position_code(positions):
    task = Induction(length=6, d_vocab=8)
    looped = drawn(Architecture(n_layers=2, loops=2, d_model=8, positions=positions), task)
    inputs = task.sample(4).inputs
    assert torch.allclose(looped.unrolled()(inputs), looped(inputs), atol=1e-6)


def test_a_shared_weight_gets_the_sum_of_its_copies_gradients():
    model, batch = drawn(), TASK.sample(5, 0)
    copied = model.unrolled()
    for one in (model, copied):
        TASK.loss(one(batch.inputs, at=TASK.query_positions), batch.targets).backward()
    for layer in range(2):
        first, second = (copied.blocks[other].attn.W_QKV.grad for other in (layer, layer + 2))
        assert torch.allclose(model.blocks[layer].attn.W_QKV.grad, first + second, atol=1e-7)


def test_more_loops_go_on_with_the_stream_of_fewer():
    model, inputs = drawn(), TASK.sample(5, 0).inputs
    stream = model.looped(5)(inputs, stop_at_layer=8)
    once = model.looped(1)
    by_hand = once(inputs, stop_at_layer=2)
    for _ in range(3):
        for block in once.blocks:
            by_hand = block(by_hand, once.mask, None)
    assert torch.equal(stream, by_hand)


def test_circuits_see_every_layer_of_every_loop():
    model, batch = drawn(), TASK.sample(16, 0)
    mine, theirs = Evaluator(model, batch).strengths, Evaluator(model.unrolled(), batch).strengths
    assert mine == theirs and {path.layer for path in mine} == {0, 1, 2, 3}


def test_certificates_see_every_layer_of_every_loop():
    model, batch = drawn(), TASK.sample(16, 0)
    evaluators = [Evaluator(one, batch) for one in (model, model.unrolled())]
    paths = [max(of, key=of.get) for layer in range(4) if (of := strengths_in(evaluators[0], layer))]
    mine, theirs = (certify(evaluator, paths) for evaluator in evaluators)
    assert mine == theirs and len(paths) == 4


def strengths_in(evaluator: Evaluator, layer: int) -> dict:
    return {path: strength for path, strength in evaluator.strengths.items() if path.layer == layer}


def test_emergence_follows_a_layer_that_has_no_weights_of_its_own(tmp_path):
    """The last loop's second layer: its strength at each checkpoint is that in the model with copies of the weights."""
    training = Training(steps=6, batch=8, log_every=3, val_size=16, checkpoints="3")
    run = train(Config(TASK, SHAPE, training), tmp_path / "run")
    batch = TASK.sample(32, 0)
    by_step = [Evaluator(run.at(step).unrolled(), batch) for step in run.steps]
    path = max(strengths_in(by_step[-1], 3), key=by_step[-1].strengths.get)
    found = follow(run, [path], n=32).paths[0]
    assert found.strength == pytest.approx([evaluator.strengths[path] for evaluator in by_step], abs=1e-6)


@pytest.mark.parametrize("attention", catalogue.names("models.attention"))
def test_it_trains_goes_on_and_is_read_again(tmp_path, attention):
    """And its checkpoint holds the weights of one loop alone."""
    config = Config(TASK, SHAPE.but(attention=attention), Training(steps=4, batch=8, log_every=2, val_size=16))
    run = train(config, tmp_path / "run")
    inputs = TASK.sample(5, 0).inputs
    assert torch.equal(run.model(inputs), run.model.unrolled()(inputs))
    assert {name.split(".")[1] for name in run.model.state_dict() if name.startswith("blocks.")} == {"0", "1"}


def test_transformer_lens_gets_every_layer():
    model = drawn()
    exported, copied = to_transformer_lens(model), to_transformer_lens(model.unrolled())
    assert exported.keys() == copied.keys()
    assert torch.equal(exported["blocks.3.attn.W_Q"], exported["blocks.1.attn.W_Q"])


def test_a_model_without_loops_is_the_run_that_it_was():
    """Its identity is that of before there were loops; with them it is another."""
    one, two = (Config(TASK, SHAPE.but(loops=loops), Training()) for loops in (1, 2))
    assert one.identity == "f87c09445f9f" and two.identity != one.identity


def test_loops_divide_layers():
    with pytest.raises(BadInput, match="layers must be a multiple of loops; got 5 and 2"):
        Architecture(n_layers=5, loops=2)


def test_runs_with_loops_train_in_one_stack_as_alone(tmp_path):
    training = Training(steps=4, batch=8, log_every=2, val_size=16)
    configs = [Config(TASK, SHAPE, training.but(seed=seed)) for seed in range(2)]
    stacked = train_many(configs, [tmp_path / str(seed) for seed in range(2)])
    for config, run in zip(configs, stacked, strict=True):
        alone = train(config, tmp_path / f"alone {config.training.seed}")
        assert run.rows[-1]["val_loss"] == pytest.approx(alone.rows[-1]["val_loss"], rel=1e-5)
