"""Every task, found by its file: seeded, shaped as declared, and right by the plain-Python oracle."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from hopscope import Config, Training, train
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.drawing.run_pictures import draw
from hopscope.models import Architecture, Transformer
from hopscope.problem.roles import ABSENT
from hopscope.tasks.base import NOT_ASKED, Task, TokenTask, VectorTask

TASKS = catalogue.names("tasks")


@pytest.fixture(params=TASKS)
def task(request) -> Task:
    return catalogue.find("tasks", request.param)()


def assert_answers_are_the_oracles(task: Task, n: int, seed: int) -> None:
    """Targets hold, query by query, what the plain-Python problem concludes."""
    batch = task.sample(n, seed)
    for row in range(n):
        values = task.values(batch.draw, row)
        for target, answer in zip(batch.targets[row], task.answers(batch.draw, row), strict=True):
            given = target[target != NOT_ASKED] if isinstance(task, TokenTask) else target
            expected = torch.cat([given[:0], *(values[name].flatten() for name in answer)])  # a gap has no answer
            assert torch.equal(given, expected)


def test_equal_seeds_give_equal_batches_and_other_seeds_others(task):
    first, again, other = task.sample(8, 1), task.sample(8, 1), task.sample(8, 2)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs, other.inputs)


def test_training_and_evaluation_share_nothing(task):
    batches = [task.sample(8, generator(0, purpose)).inputs for purpose in ("train", "validation", "report")]
    assert not any(torch.equal(a, b) for i, a in enumerate(batches) for b in batches[:i])


def test_shapes_are_as_declared(task):
    batch = task.sample(5)
    assert (task.d_input is None) != (task.d_vocab is None)
    assert batch.inputs.shape[:2] == (5, task.n_positions)
    assert batch.inputs.shape[2:] == ((task.d_input,) if task.d_input else ())
    n_queries = len(range(*task.query_positions.indices(task.n_positions)))
    assert batch.targets.shape[:2] == (5, n_queries)
    assert batch.roles.chain.shape == (5, len(batch.roles.names), task.n_positions)
    assert len(batch.roles.labels(0)) == task.n_positions


def test_targets_equal_the_oracle(task):
    assert_answers_are_the_oracles(task, n=200, seed=3)


def test_rendering_some_rows_is_some_rows_of_the_rendering(task):
    batch = task.sample(6)
    rows = torch.tensor([4, 1])
    assert torch.equal(batch.rows(rows).inputs, batch.inputs[rows])
    assert torch.equal(batch.rows(rows).targets, batch.targets[rows])
    assert torch.equal(batch.rows(rows).roles.chain, batch.roles.chain[rows])


def test_answers_stand_where_the_roles_say(task):
    """Some position holds `query`, every chain has one query, and value positions show what is answered."""
    batch = task.sample(20)
    roles = batch.roles
    assert roles.names[0] == "query"
    assert (roles.chain[:, 0] != ABSENT).any(-1).all()
    allowed = set(range(*task.query_positions.indices(task.n_positions)))
    assert set(torch.nonzero(roles.chain[:, 0] != ABSENT)[:, 1].tolist()) <= allowed


def perfect_outputs(task: Task, targets: torch.Tensor) -> torch.Tensor:
    """What a model would put out that knows every answer."""
    if isinstance(task, VectorTask):
        return targets
    one_hot = torch.nn.functional.one_hot(targets.clamp(min=0), task.d_vocab) * 100.0
    one_hot = torch.where((targets == NOT_ASKED)[..., None], 0.0, one_hot)
    if task.d_output == task.d_vocab:  # one set of logits, whichever hop is asked
        return one_hot.sum(2)
    return one_hot.flatten(2)


def test_a_model_that_knows_reaches_the_floor(task):
    batch = task.sample(64)
    outputs = perfect_outputs(task, batch.targets)
    assert float(task.loss(outputs, batch.targets)) == pytest.approx(task.floor, abs=1e-6)
    assert task.hop_losses(outputs, batch.targets).tolist() == pytest.approx(
        [task.floor] * len(task.hop_names), abs=1e-6
    )
    assert task.correct(outputs, batch).all()


def test_baselines_fall_from_chance_to_the_floor(task):
    losses = list(task.baselines.values())
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == task.chance
    assert losses[-1] == task.floor
    assert task.solved_below < task.learnt_below < task.chance


def test_knowing_nothing_costs_chance(task):
    """The best constant answer scores the first baseline (within sampling error)."""
    batch = task.sample(512)
    outputs = torch.zeros(*batch.targets.shape[:2], task.d_output)
    assert float(task.loss(outputs, batch.targets)) == pytest.approx(task.chance, rel=0.05)


def test_a_model_fits_the_task(task):
    model = Transformer.for_task(Architecture(n_layers=1, d_model=8), task, generator(0, "init"))
    batch = task.sample(3)
    outputs = model(batch.inputs, at=task.query_positions)
    assert math.isfinite(task.loss(outputs, batch.targets).item())


def test_settings_survive_the_way_to_json_and_back(task):
    assert type(task).from_dict(task.as_dict()) == task
    assert all(field.metadata.get("help") for field in dataclasses.fields(task))
    assert task.name() in TASKS


def test_it_trains_and_is_drawn(task, tmp_path):
    """A run of two steps from the problem to its pictures, for every task there is."""
    recipe = Training(steps=2, batch=4, val_size=8, log_every=1)
    run = train(Config(task, Architecture(n_layers=1, d_model=8), recipe), tmp_path / "run")
    assert [row["step"] for row in run.rows] == [0, 1, 2]
    assert run.report["hop_losses"].keys() == set(task.hop_names)
    drawn = draw(run, tmp_path / "pictures")
    assert len(drawn) == 4
    assert all(path.stat().st_size > 1000 for paths, _ in drawn for path in paths)


def test_a_hop_count_is_offered_from_one_to_the_hardest(task):
    assert task.at(task.hardest) == task
    assert task.stage(0.5, generator(0, "difficulty")) == task
