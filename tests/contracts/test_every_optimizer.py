"""Every optimizer, found by its file: runs resume bit for bit under it, it learns, and frozen weights stay."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from hopscope import Config, train
from hopscope.core import catalogue
from hopscope.training.loop import Interrupted
from hopscope.training.trainer import Trainer
from tests.small_runs import config, fingerprint


@pytest.fixture(params=catalogue.names("training.optimizers"))
def settings(request) -> Config:
    return config(optimizer=request.param, log_every=2, lr=0.01)


def test_a_resumed_run_has_the_bits_of_an_undisturbed_one(settings, tmp_path):
    whole = train(settings, tmp_path / "whole", threads=1, compile="off")
    stops = iter([False] * 4 + [True])
    with pytest.raises(Interrupted):
        train(settings, tmp_path / "halves", threads=1, compile="off", should_stop=lambda: next(stops))
    halves = train(settings, tmp_path / "halves", threads=1, compile="off")
    assert fingerprint(halves) == fingerprint(whole)


def test_a_hundred_steps_lower_the_loss(settings):
    """From weights that are not as small as GPT-2's, from which plain SGD goes nowhere in so few."""
    larger = dataclasses.replace(settings, model=settings.model.but(init="fan_in"))
    trainer = Trainer(larger, torch.device("cpu"))
    batch = settings.task.sample(256)
    losses = []
    for step in range(100):
        if step % 99 == 0:
            with torch.no_grad():
                losses.append(float(trainer.loss(batch)))
        trainer.step(step)
    assert losses[1] < losses[0]


def test_frozen_weights_stay_and_others_move(settings):
    frozen = Config(settings.task, settings.model, settings.training.but(frozen="W_E"))
    trainer = Trainer(frozen, torch.device("cpu"))
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    for step in range(3):
        trainer.step(step)
    moved = {name for name, p in trainer.model.named_parameters() if not torch.equal(p, before[name])}
    assert "W_E" not in moved and "W_U" in moved
