"""Many models at once: each member against the same run trained alone."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace

import pytest
import torch

from hopscope.configuration.config import Config, Training
from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import Interrupted, train
from hopscope.training.stack import Stack, stackable, train_many
from hopscope.training.trainer import Trainer
from tests.brief_reports import brief_reports  # noqa: F401

SMALL = Config(
    Retrieval(n_hops=2),
    Architecture(n_layers=2, d_model=32, n_heads=2),
    Training(steps=50, batch=16, log_every=10, val_size=32, checkpoints="20", warmup=5, schedule="linear"),
)


#: Models that state `stacks`.
STACKING = ("transformer", "multi_token", "attention_classifier", "linear_recall", "linear_self_attention")


def members(config=SMALL, rates=(1e-3, 3e-3, 1e-3)):
    return [replace(config, training=config.training.but(seed=s, lr=lr)) for s, lr in enumerate(rates)]


def folders(path, n=3):
    return [path / f"member{i}" for i in range(n)]


@pytest.mark.parametrize("changes", [{}, {"clip": 0.1}, {"decay_on": "matrices"}, {"dtype": "bfloat16"}], ids=str)
def test_members_are_the_runs_they_would_be_alone(tmp_path, changes):
    config = replace(SMALL, training=SMALL.training.but(steps=25, **changes))
    together = train_many(members(config), folders(tmp_path))
    tolerance = 1e-2 if "dtype" in changes else 1e-4
    for one, run in zip(members(config), together, strict=True):
        alone = train(one, tmp_path / f"alone-{one.training.seed}")
        assert run.config == alone.config and run.steps == alone.steps == [0, 20, 25]
        assert [row["step"] for row in run.rows] == [row["step"] for row in alone.rows]
        for mine, theirs in zip(run.rows, alone.rows, strict=True):
            assert mine["val_loss"] == pytest.approx(theirs["val_loss"], rel=tolerance)
        assert run.report["loss"] == pytest.approx(alone.report["loss"], rel=tolerance)
    assert together[0].rows != together[2].rows  # same rate, another seed


@pytest.mark.parametrize("attention", ["softmax", "state_space", "delta_rule"])
def test_one_step_is_the_step_of_each(attention):
    """Bit for bit but for the order in which a batched product adds up."""
    config = replace(SMALL, model=SMALL.model.but(attention=attention))
    alone = [Trainer(one, torch.device("cpu")) for one in members(config)]
    stacked = [Trainer(one, torch.device("cpu")) for one in members(config)]
    stack = Stack(stacked)
    for step in range(3):
        losses = stack.step(step)
        for trainer, loss in zip(alone, losses, strict=True):
            assert float(trainer.step(step)) == pytest.approx(float(loss), rel=1e-5)
    stack.release()
    for a, b in zip(alone, stacked, strict=True):
        for name, parameter in a.model.named_parameters():
            other = b.model.get_parameter(name)
            if name.endswith("b_QKV"):  # a key's bias has no gradient but rounding, and Adam makes steps of that
                parameter, other = parameter[::2], other[::2]
            torch.testing.assert_close(other, parameter, rtol=1e-4, atol=1e-6)
        for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True):
            assert a.optimizer.state[p]["step"] == b.optimizer.state[q]["step"] == 3


CURRICULA = [name for name in catalogue.names("curricula") if name != "base"]
MODELS = [name for name in catalogue.names("models") if name != "base"]
TASKS = ("symbolic_retrieval", "linear_regression", "retrieval")


def of_model(name):
    """A small run of the model, on the first task that it can read."""
    for task in TASKS:
        try:
            config = Config(catalogue.find("tasks", task)(), catalogue.find("models", name)(), SMALL.training)
            config.model.build(config.task)
        except BadInput:
            continue
        return config
    raise AssertionError(f"no task for {name}")


def of_curriculum(name):
    return replace(SMALL, task=Retrieval(n_hops=3, curriculum=name))


@pytest.mark.parametrize(
    ("config", "stacks"),
    [
        *[pytest.param(of_curriculum(name), name not in ("mixture", "cumulative"), id=name) for name in CURRICULA],
        *[pytest.param(of_model(name), name in STACKING, id=name) for name in MODELS],
    ],
)
def test_every_curriculum_and_model_trains_as_alone_or_not_in_a_stack(tmp_path, config, stacks):
    """Seeds may draw other difficulties, and models may have random buffers, or parts that `vmap` cannot map."""
    config = replace(config, training=config.training.but(steps=4, warmup=0, batch=4, log_every=1, val_size=8))
    assert stackable(config) is stacks
    if not stacks:
        with pytest.raises(BadInput, match="cannot be stacked"):
            train_many(members(config), folders(tmp_path))
        return
    for one, run in zip(members(config), train_many(members(config), folders(tmp_path)), strict=True):
        alone = train(one, tmp_path / f"alone-{one.training.seed}")
        for mine, theirs in zip(run.rows, alone.rows, strict=True):
            assert mine["val_loss"] == pytest.approx(theirs["val_loss"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, in what it compiles
def test_a_compiled_stack_trains_the_same(tmp_path):
    plain = train_many(members(), folders(tmp_path / "plain"))
    compiled = train_many(members(), folders(tmp_path / "compiled"), compile="on")
    for a, b in zip(plain, compiled, strict=True):
        assert b.report["loss"] == pytest.approx(a.report["loss"], rel=1e-3)
        assert b.sessions[-1]["environment"]["compiled"] is True


def test_interrupted_anywhere_it_ends_with_the_same_bits(tmp_path):
    whole = train_many(members(), folders(tmp_path / "whole"))
    for stop_after in (7, 21):
        calls = iter(range(1000))
        with pytest.raises(Interrupted, match="3 members") as stopped:
            train_many(members(), folders(tmp_path / "cut"), should_stop=lambda n=stop_after, c=calls: next(c) == n)
        assert stopped.value.asked and stopped.value.members == 3
    cut = train_many(members(), folders(tmp_path / "cut"))
    for a, b in zip(whole, cut, strict=True):
        assert a.rows == b.rows and b.bit_exact
        for name, tensor in a.model.state_dict().items():
            assert torch.equal(tensor, b.model.state_dict()[name])


def test_a_signal_in_the_last_step_ends_what_is_to_follow(tmp_path):
    count = iter(range(1, 1000))

    def kill_in_the_last_step():
        if next(count) == SMALL.training.steps:
            os.kill(os.getpid(), signal.SIGTERM)
        return False

    with pytest.raises(Interrupted, match="terminated, 3 members, at step 50; training is finished") as stopped:
        train_many(members(), folders(tmp_path), should_stop=kill_in_the_last_step)
    assert not stopped.value.asked and all(Run(folder).done for folder in folders(tmp_path))


def test_a_member_that_a_kill_left_ahead_is_put_back(tmp_path):
    whole = train_many(members(), folders(tmp_path / "whole"))
    paths = folders(tmp_path / "cut")
    for run, path in zip(whole, paths, strict=True):
        shutil.copytree(run.path, path)
        (path / "DONE").unlink()
    shutil.rmtree(next(paths[1].glob("checkpoints/step_*50")))  # this one was killed while it saved
    again = train_many(members(), paths)
    for a, b in zip(whole, again, strict=True):
        assert a.rows == b.rows and a.report["loss"] == b.report["loss"]


def test_who_has_solved_it_leaves_the_stack(tmp_path):
    """With a rate of 0 a member never learns; the others stop once they are good enough for `stop_below`."""
    easy = replace(SMALL, training=SMALL.training.but(stop_below=0.97, steps=60))
    runs = train_many(members(easy, (3e-3, 0.0)), folders(tmp_path, 2))
    assert runs[1].step == 60 and runs[0].step < 60
    assert all(loss < 0.97 for loss in runs[0].rows[-1]["hop_losses"].values())
    assert runs[1].rows[-1]["val_loss"] == runs[1].rows[0]["val_loss"]


def stopped_at(step, config, folder):
    """A run trained alone for so many steps."""
    count = iter(range(1, 1000))
    with pytest.raises(Interrupted):
        train(config, folder, should_stop=lambda: next(count) == step)
    return Run(folder)


@pytest.mark.filterwarnings("ignore:this run was begun with other stacked")
@pytest.mark.parametrize("other", [None, 7])
def test_nobody_is_put_back_for_company(tmp_path, other):
    """Beside a member that is new, or far behind, one that was trained alone goes on from where it was."""
    ahead = stopped_at(45, members()[0], tmp_path / "member0")
    if other is not None:
        stopped_at(other, members()[1], tmp_path / "member1")
    assert ahead.steps == [0, 20, 40, 45]
    runs = train_many(members(), folders(tmp_path))
    alone = train(members()[0], tmp_path / "alone")
    assert runs[0].rows[:5] == alone.rows[:5] and all(run.done for run in runs)
    assert [session["from_step"] for session in runs[0].sessions] == [0, 45]
    assert [session["from_step"] for session in runs[1].sessions] == [0, *([7] if other else [])]


@pytest.mark.filterwarnings("ignore:this run was begun with other stacked")
def test_who_has_left_the_stack_is_finished_though_the_others_are_stopped(tmp_path):
    easy = replace(SMALL, training=SMALL.training.but(stop_below=0.97, steps=60))
    whole = train_many(members(easy, (3e-3, 0.0)), folders(tmp_path / "whole", 2))
    assert whole[0].step < 50
    paths, count = folders(tmp_path / "cut", 2), iter(range(1, 1000))
    with pytest.raises(Interrupted):
        train_many(members(easy, (3e-3, 0.0)), paths, should_stop=lambda: next(count) == 57)
    assert Run(paths[0]).done and Run(paths[1]).step == 57
    again = train_many(members(easy, (3e-3, 0.0)), paths)
    assert [run.rows for run in again] == [run.rows for run in whole]


def test_done_members_are_left_alone(tmp_path):
    first = train(members()[0], tmp_path / "member0")
    stamp = (first.path / "DONE").stat().st_mtime_ns
    runs = train_many(members(), folders(tmp_path))
    assert all(run.done for run in runs) and (first.path / "DONE").stat().st_mtime_ns == stamp


def test_what_cannot_be_stacked_is_refused(tmp_path):
    a, b = members()[:2]
    wider = replace(b, model=b.model.but(d_model=64))
    with pytest.raises(BadInput, match=r"d_model is 32 in one and 64 in another"):
        train_many([a, wider], folders(tmp_path, 2))
    with pytest.raises(BadInput, match="folder of its own"):
        train_many([a, b], [tmp_path / "x", tmp_path / "x"])
    with pytest.raises(BadInput, match="folder of its own"):
        train_many([a, b], [tmp_path / "x", f"{tmp_path}/./y/../x"])
    clamped = replace(a, training=a.training.but(clamps="L0H0 value[1]->key[1] off@0"))
    with pytest.raises(BadInput, match=r"clamps.* cannot be stacked"):
        train_many([clamped], [tmp_path / "y"])
    assert not list(tmp_path.iterdir())


def test_a_member_can_go_on_alone_and_says_that_its_bits_will_differ(tmp_path):
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        train_many(members(), folders(tmp_path), should_stop=lambda: next(calls) == 20)
    with pytest.warns(UserWarning, match="stacked"):
        run = train(members()[1], tmp_path / "member1")
    assert run.done and not Run(run.path).bit_exact
