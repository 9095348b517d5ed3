"""Tests of the task of two hops by its definition, measurements on known answers, and claims on hand-made tables."""

from __future__ import annotations

import math

import pandas
import pytest
import torch

from hopscope.configuration.config import Config
from hopscope.experiments.long_table import namer
from hopscope.experiments.results import claim_ids
from hopscope.tasks.two_hop import TwoHop
from hopscope_studies.two_hop import cells
from hopscope_studies.two_hop.claims import GUESS, claims, learnt, longest
from hopscope_studies.two_hop.experiments.two_hop import masses

# The task -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("official", [True, False])
def test_the_middle_is_what_follows_the_query_and_the_end_what_follows_that(official):
    task = TwoHop(n_pairs=10, n_chains=5, fewest=5, every_hop=True) if official else TwoHop(every_hop=True)
    batch = task.sample(1000, 0)
    for tokens, answers in zip(batch.inputs.tolist(), batch.targets[:, 0].tolist(), strict=True):
        follows = dict(zip(tokens[:-1:2], tokens[1:-1:2], strict=True))
        middle = follows[tokens[-1]]
        assert answers == [middle, follows[middle]]


def test_only_what_is_asked_differs():
    """With or without the middle, the sequences and the ends are the same; the settings' identity differs."""
    alone, both = TwoHop(), TwoHop(every_hop=True)
    one, other = alone.sample(100, 0), both.sample(100, 0)
    assert torch.equal(one.inputs, other.inputs) and torch.equal(one.targets[..., 0], other.targets[..., 1])
    assert (alone.hop_names, both.hop_names) == (("x2",), ("x1", "x2"))
    assert both.d_output == 2 * alone.d_output
    assert "every_hop" not in alone.identifying()
    assert Config(both).identity != Config(alone).identity


# What is looked at ----------------------------------------------------------------------------------------------------


def test_masses_of_answers_that_are_known():
    """Known masses: models certain of the end, guessing among ends, naming middles, and a uniform one."""
    task = TwoHop()
    batch = task.sample(200, 0)
    draw, sure = batch.draw, torch.nn.functional.one_hot(batch.targets[:, 0, 0], task.d_vocab).float()
    assert masses(sure, batch) == pytest.approx({"right end": 1, "other ends": 0, "middles": 0})
    ends, middles = torch.zeros(200, task.d_vocab), torch.zeros(200, task.d_vocab)
    for row, chains in enumerate(draw["chains"][:, 0].tolist()):
        for chain in range(chains):
            ends[row, draw["tokens"][row, 3 * chain + 2]] = 1 / chains
            middles[row, draw["tokens"][row, 3 * chain + 1]] = 1 / chains
    share = float((1 / draw["chains"].float()).mean())
    assert masses(ends, batch) == pytest.approx({"right end": share, "other ends": 1 - share, "middles": 0}, abs=1e-5)
    assert masses(middles, batch) == pytest.approx({"right end": 0, "other ends": 0, "middles": 1}, abs=1e-5)
    even = masses(torch.full((200, task.d_vocab), 1 / task.d_vocab), batch)
    mean = float(draw["chains"].float().mean())
    assert even == pytest.approx({"right end": 1 / 30, "other ends": (mean - 1) / 30, "middles": mean / 30}, abs=1e-5)


def test_every_run_knows_its_condition():
    for scale in ("quick", "cpu"):
        for name in cells.CONDITIONS:
            assert namer(cells.CONDITIONS, cells.cell, scale)(cells.cell(cells.CONDITIONS[name], 2, scale)) == name


def test_the_official_setting():
    config = cells.cell(cells.CONDITIONS["end alone"], 0, "paper")
    assert (config.task.n_pairs, config.task.n_chains, config.task.fewest) == (10, 5, 5)
    assert (config.training.steps, config.training.batch, config.training.lr) == (10_000, 512, 3e-4)


def test_the_longest_stretch_among_ends():
    run = pandas.DataFrame({"step": [0, 100, 200, 300, 400, 500, 600], "value": [3.4, 1.6, 1.65, 1.2, 1.7, 1.6, 1.55]})
    assert longest(run) == 200 and longest(run[:2]) == 0
    assert math.isclose(GUESS, math.log(5))


# Claims ---------------------------------------------------------------------------------------------------------------

COURSES = {
    "learns": [3.4, 1.6, 1.6, 0.1],
    "early": [3.4, 0.1, 0.05, 0.04],
    "waits": [3.4, 1.62, 1.6, 1.6],
    "slides": [3.4, 2.4, 1.2, 0.9],
    "falls": [1.0, 0.1, 0.05, 0.01],
}
GOOD = dict.fromkeys(("prior", "KV shift", "distractors"), "learns")
GOOD |= dict.fromkeys(("end alone", "no prior", "KV shift, end alone", "two layers"), "waits")
BAD = dict.fromkeys(("prior", "KV shift", "distractors"), "slides") | {"KV shift, end alone": "slides"}
BAD |= {"end alone": "learns", "no prior": "learns", "two layers": "learns"}


def made(courses: dict[str, str], first: str, right: float, start: float = 3.4) -> pandas.DataFrame:
    """Rows of two seeds of every condition, at steps 0, 100, 300 and 400."""
    rows = []
    for condition, course in courses.items():
        for seed in (0, 1):
            about = {"run": f"{condition}-{seed}", "seed": seed, "condition": condition}
            for hop, name in (("x1", first), ("x2", course)):
                for step, value in zip((0, 100, 300, 400), COURSES[name], strict=True):
                    value = start if step == 0 else value
                    rows.append(about | {"kind": "loss", "hop": hop, "step": step, "value": value})
            rows.append(about | {"kind": "right", "step": 400, "chains": 2, "value": right})
    return pandas.DataFrame(rows)


def test_claims_hold_of_what_bears_them_out():
    found = {claim.id: claim.verdict for claim in claims(made(GOOD, "early", 0.99))}
    assert list(found) == claim_ids("two_hop")
    assert set(found.values()) == {"holds"}


def test_claims_fail_of_what_contradicts_them():
    table = made(BAD, "waits", 0.6, start=1.0)
    slow = (table.condition == "KV shift") & (table.hop == "x2")
    for step, value in ((0, 3.4), (100, 1.4), (400, 0.25)):  # reaches 0.3, after 300 steps
        table.loc[slow & (table.step == step), "value"] = value
    assert {claim.id: claim.verdict for claim in claims(table)} == dict.fromkeys(claim_ids("two_hop"), "fails")


def test_when_a_loss_went_below():
    table = made(GOOD, "early", 1.0)
    rows = table[(table.kind == "loss") & (table.condition == "prior") & (table.hop == "x2")]
    assert learnt(rows).to_dict() == pytest.approx(dict.fromkeys((0, 1), 300 + 100 * (1.6 - GUESS / 2) / 1.5))
    assert set(learnt(rows, 0.01)) == {math.inf}
