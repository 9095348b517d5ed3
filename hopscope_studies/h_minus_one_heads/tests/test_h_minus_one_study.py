"""Tests of `h_minus_one_heads`: the task against its parts, hand-set gates, and claims that hold and that fail."""

from __future__ import annotations

import math

import pandas
import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.tasks.base import NOT_ASKED
from hopscope_studies.h_minus_one_heads import cells
from hopscope_studies.h_minus_one_heads.by_hand import by_hand
from hopscope_studies.h_minus_one_heads.claims import claims
from hopscope_studies.h_minus_one_heads.scores import area, dropping, gate_numbers, gates, losses
from hopscope_studies.h_minus_one_heads.tasks.two_kinds import TwoKinds

TASK = TwoKinds(length=12, n_symbols=8, n_tokens=5)

# The task ---------------------------------------------------------------------------------------------------------


def test_each_kind_keeps_its_own_rule_in_a_thousand_sequences():
    batch = TASK.sample(1000, 0)
    by_heart = batch.draw["by_heart"][:, 0].tolist()
    assert 400 < sum(by_heart) < 600
    for text, tokens, targets in zip(by_heart, batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        known, learnt = zip(*targets, strict=True)
        if text:
            assert min(tokens) >= TASK.n_symbols and set(known) == {NOT_ASKED}
            assert list(learnt[1:-1]) == tokens[2:] and learnt[0] == NOT_ASKED
        else:
            assert max(tokens) < TASK.n_symbols and set(learnt) == {NOT_ASKED}
            followed: dict[int, int] = {}
            for place, token in enumerate(tokens):
                if place:
                    followed[tokens[place - 1]] = token
                assert known[place] == followed.get(token, NOT_ASKED)


def test_losses_by_sequence_add_up_to_the_task_s():
    """Weighted by the number of answers, the means of sequences give the task's loss."""
    model, batch = by_hand(TASK), TASK.sample(64, 0)
    asked = (batch.targets.amax(-1) != NOT_ASKED).sum(1).double()
    mean = (losses(model, batch) * asked).sum() / asked.sum()
    expected = TASK.loss(model(batch.inputs), batch.targets)
    assert float(mean) == pytest.approx(expected.item(), rel=1e-4)


# What is measured -------------------------------------------------------------------------------------------------


def test_area_by_hand():
    positive = torch.tensor([True, True, False, False])
    assert area(torch.tensor([3.0, 4.0, 1.0, 2.0]), positive) == 1.0
    assert area(torch.tensor([1.0, 2.0, 3.0, 4.0]), positive) == 1.0
    assert area(torch.tensor([1.0, 4.0, 2.0, 3.0]), positive) == 0.5
    assert area(torch.zeros(4), positive) == 0.5


def test_gates_made_by_hand_leave_out_one_head_of_each_kind():
    model, batch = by_hand(TASK), TASK.sample(64, 0)
    by_heart = batch.draw["by_heart"][:, 0].long()
    assert torch.allclose(gates(model, batch, 0), torch.nn.functional.one_hot(by_heart, 4).float(), atol=1e-6)
    numbers = gate_numbers(model, batch)
    assert numbers == pytest.approx({"entropy": 0.0, "auc": 1.0, "apart": 1.0}, abs=1e-6)
    costs = dropping(model, batch)
    assert costs["cost_least"] == pytest.approx(0, abs=1e-6)
    assert abs(costs["cost_random"]) > 1e-5


def test_even_gates_say_nothing():
    numbers = gate_numbers(by_hand(TASK, even=True), TASK.sample(64, 0))
    assert numbers == pytest.approx({"entropy": math.log(4), "auc": 0.5, "apart": 0.0}, abs=1e-6)


@pytest.mark.parametrize("scale", cells.SIZES)
def test_rivals_have_as_many_parameters_as_the_mixture_or_a_few_more(scale):
    if scale == "paper":  # by the formula alone
        size = cells.SIZES[scale]
        of_gate = size["d_model"] * 16 + 16 + 16 * size["n_heads"] + size["n_heads"]
        more = (cells.wider(size) - 4 * size["d_model"]) * (2 * size["d_model"] + 1)
        assert of_gate <= more < of_gate + 2 * size["d_model"] + 1
        return
    counted = {}
    for trained in cells.TRAINED:
        config = cells.cell(trained, 0, scale)
        counted[trained] = config.model.build(config.task, generator(0, "init")).n_parameters
    assert counted["plain"] == counted["dropout"] and counted["jointly"] == counted["in turn"]
    width, layers = 2 * cells.SIZES[scale]["d_model"] + 1, cells.SIZES[scale]["n_layers"]
    assert 0 <= counted["plain"] - counted["in turn"] < layers * width


def test_every_run_is_named_once():
    named = {config.identity: trained for trained, config in cells.cells("cpu")}
    assert len(named) == len(cells.TRAINED) * cells.SEEDS["cpu"]
    assert all(named[cells.cell(trained, 3).identity] == trained for trained in cells.TRAINED)


# Claims -----------------------------------------------------------------------------------------------------------


def made(bad: bool) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    rows = []
    for seed in range(5):
        for trained in cells.TRAINED:
            about = {"run": f"{trained}-{seed}", "seed": seed, "kind": "end", "trained": trained}
            loss = 0.8 + 0.01 * seed - (0 if bad or trained != "in turn" else 0.1)
            gated = {"entropy": 1.38 if bad else 0.9, "auc": 0.6 if bad else 0.95, "apart": 0.1 if bad else 0.4}
            gated |= {"start_apart": 0.2, "start_auc": 0.9, "cost_random": 0.2, "cost_least": 0.4 if bad else 0.01}
            more = {"start_loss": 1.0 if bad else 3.9, "guess": 3.8}
            rows.append(about | {"loss": loss} | gated | more)
    hand = {"run": "by hand", "seed": 0, "kind": "by hand"}
    rows.append(hand | {"trained": "by hand", "auc": 0.7 if bad else 1.0, "apart": 1.0, "entropy": 0, "cost_least": 0})
    rows.append(hand | {"trained": "even", "auc": 0.5, "apart": 0.0, "entropy": math.log(4), "cost_least": 0.0})
    return pandas.DataFrame(rows)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made(bad=False))}
    assert list(found) == claim_ids("h_minus_one_heads")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    verdicts = {claim.id: claim.verdict for claim in claims(made(bad=True))}
    assert verdicts == dict.fromkeys(claim_ids("h_minus_one_heads"), "fails")
