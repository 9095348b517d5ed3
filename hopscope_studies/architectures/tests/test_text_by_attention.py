"""Tests of `text_by_attention`: cells, contexts, scores, intervals, and claims that hold and that fail."""

from __future__ import annotations

from types import SimpleNamespace

import pandas
import pytest
import torch

from hopscope.experiments.results import claim_ids
from hopscope.tasks.text import Text
from hopscope_studies.architectures.candidates import weightless
from hopscope_studies.architectures.text_cells import cells
from hopscope_studies.architectures.text_claims import claims, surges
from hopscope_studies.architectures.text_scores import copying, score, stretches


@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_models_of_a_seed_differ_in_attention_and_hardly_in_parameters(scale):
    found = [(name, config) for name, config in cells(scale) if config.training.seed == 0]
    counts = [weightless(config.model, config.task).n_parameters for _, config in found]
    assert all(abs(count / counts[0] - 1) < 0.01 for count in counts)
    assert all((config.task, config.training) == (found[0][1].task, found[0][1].training) for _, config in found)
    maps = {name: config.model.n_layers * config.model.n_heads for name, config in found}
    assert maps["softmax"] == 2 * maps["switch_head"] == 2 * maps["softmax, 2 heads"] == maps["kv_shift"]


def test_contexts_differ_in_what_stands_before_the_stretch():
    task = Text(length=12)
    other, same, shuffled = (stretches(task, 8)[name] for name in ("other", "same", "shuffled"))
    assert other.shape == (8, 12) and same[:, :6].equal(same[:, 6:])
    assert other[:, 6:].equal(same[:, 6:]) and shuffled[:, 6:].equal(same[:, 6:])
    assert shuffled[:, :6].sort(1).values.equal(same[:, :6].sort(1).values) and not shuffled.equal(same)
    assert not (other[:, :6] == same[:, :6]).all(1).any()
    text = task.decode(task.parts["held_out"])
    assert all(task.decode(row[:6]) in text for row in same)


def test_scores_of_patterns_by_hand():
    copies, even = torch.zeros(1, 2, 8, 8), (torch.ones(8, 8).tril() / torch.arange(1, 9)[:, None]).expand(1, 2, 8, 8)
    copies[0, 1, [4, 5, 6, 7], [1, 2, 3, 4]] = 1.0  # the character at 4 is that at 0, which 1 followed
    assert score(copies, 4) == pytest.approx(1.0)
    assert score(even, 4) < 0.2


class Copier:
    """A model that predicts what followed the same place half a sequence ago, and attends there with head 0."""

    architecture = SimpleNamespace(n_layers=1)

    def __init__(self, task: Text):
        self.d_vocab = task.d_vocab

    def __call__(self, tokens, cache):
        half = tokens.shape[1] // 2
        ahead = tokens.roll(half - 1, 1)
        pattern = torch.zeros(len(tokens), 1, 2 * half, 2 * half)
        pattern[:, 0, torch.arange(half, 2 * half), torch.arange(half) + 1] = 1.0
        return 20.0 * torch.nn.functional.one_hot(ahead, self.d_vocab).float(), {cache[0]: pattern}


def test_a_model_that_copies_is_recognised():
    task = Text(length=16)
    found = dict(copying(Copier(task), task))
    assert found["same"] < 1e-3 and found["other"] > 10 and found["shuffled"] > 10
    assert found["layer_0"] == found["score"] == pytest.approx(1.0)


def test_surges_by_hand():
    steps, losses = range(0, 600, 100), [4.0, 3.0, 2.9, 2.85, 2.65, 2.6]  # falls 1, 0.1, 0.05, 0.2, 0.05
    rows = pandas.DataFrame({"run": "a", "step": steps, "loss": losses})
    assert surges(rows)["a"] == pytest.approx(0.15)


def made(bad: bool = False) -> pandas.DataFrame:
    """A table for which every claim holds or, with `bad`, one for which every claim fails."""
    gains = {"softmax": 0.0, "softmax, 2 heads": 0.06, "kv_shift": -0.1, "switch_head": 0.0, "h_minus_one": -0.05}
    if bad:
        gains = {"softmax": 0.0, "softmax, 2 heads": 0.0, "kv_shift": 0.1, "switch_head": 0.1, "h_minus_one": 0.1}
    rows = []
    for seed in range(3):
        for rule, gain in gains.items():
            end = 2.3 + gain + 0.001 * seed
            losses = [3.9 if bad else 4.17, *(2.6 + (end - 2.6) * part / 4 for part in range(5))]
            for step, loss in zip(range(0, 600, 100), losses, strict=True):
                about = {"run": f"{rule}-{seed}", "version": "v", "seed": seed, "rule": rule, "parameters": 1000}
                copies = 0.0 if bad else 0.5
                scores = {"other": loss, "same": loss - copies, "shuffled": loss - 0.1 * bad, "layer_0": copies}
                rows.append(about | {"guess": 4.17, "pairs": 2.5, "step": step, "loss": loss} | scores)
    return pandas.DataFrame(rows)


@pytest.mark.parametrize("bad", [False, True])
def test_claims_of_made_tables(bad):
    table = made(bad)
    table.loc[table.step == 500, "loss"] -= 0.5 * bad  # a sudden fall at the end
    found = {claim.id: claim.verdict for claim in claims(table)}
    assert list(found) == claim_ids("text_by_attention")
    assert set(found.values()) == {"fails" if bad else "holds"}
