"""Tests of `abrupt_learning`: claims that hold and that fail, nested logits against formulas, the hand-set circuit."""

from __future__ import annotations

import math

import pytest
import torch
from pandas import DataFrame

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.experiments.results import claim_ids
from hopscope.measures.base import observe
from hopscope.tasks.induction import Induction
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.abrupt_learning.answers import judged
from hopscope_studies.abrupt_learning.by_hand import induction
from hopscope_studies.abrupt_learning.cells import TASK
from hopscope_studies.abrupt_learning.claims import BY_HAND, head_times
from hopscope_studies.abrupt_learning.experiments import abrupt_learning
from hopscope_studies.abrupt_learning.measures.progress import progress
from hopscope_studies.abrupt_learning.models.attention_classifier import ClassifierArchitecture
from hopscope_studies.abrupt_learning.theory.nested_logits import NestedLogits

NAN = float("nan")
SMALL = ItemLabels(**TASK | {"fresh": 1.0})
HAND = SMALL.but(d_item=256)


# Claims --------------------------------------------------------------------------------------------------------------


def row(condition: str, seed: int, kind: str, name: str, value: float, step: int = 0) -> dict:
    about = {"run": f"{condition}.{seed}", "version": "v", "seed": seed, "condition": condition}
    return {**about, "kind": kind, "name": name, "step": step, "value": value}


def table(losses, right, named, head, ic, others, even, adam, repeats, nested, hand, start) -> DataFrame:
    rows = [row(BY_HAND, 0, "accuracy", "IC", hand), row(BY_HAND, 0, "final", "TILA2", hand)]
    for seed in range(3):
        for step, values in enumerate(zip(losses, right, named, [start, *head[1:]], strict=True)):
            kinds = (("loss", "validation"), ("right", "validation"), ("seen", "CLA"), ("seen", "TILA2"))
            rows += [row("context", seed, *kind, x, 1000 * step) for kind, x in zip(kinds, values, strict=True)]
        rows.append(row("context", seed, "learnt", "all", 4400.0, 5000))
        rows += [
            row("context", seed, "accuracy", "IC", ic),
            row("context", seed, "accuracy", "patterns of others", others),
        ]
        rows += [row("even", seed, "loss", "validation", x * math.log(4), i) for i, x in enumerate((1.3, even))]
        for name, time in (("even, Adam", adam), ("repeats", repeats)):
            rows.append(row(name, seed, "learnt", "all", time, 8000))
    for labels, (before, change) in nested.items():
        curve = [(step, before if step < change else 0.01) for step in range(0, 2500, 10)]
        rows += [row("nested", 0, "loss", str(labels), x * math.log(labels), step) for step, x in curve]
    return DataFrame(rows)


PAPERS = {
    "losses": [2.8, 1.6, 1.35, 1.33, 1.0, 0.1],
    "right": [0.06, 0.2, 0.3, 0.32, 0.6, 0.98],
    "named": [0.2, 0.6, 0.85, 0.9, 0.95, 1.0],
    "head": [0.2, 0.2, 0.2, 0.3, 0.6, 0.9],
    "ic": 0.97,
    "others": 0.3,
    "even": 1.0,
    "adam": 2000.0,
    "repeats": 4000.0,
    "nested": {8: (1.0, 1400), 16: (1.0, 170), 32: (1.0, 140)},
    "hand": 1.0,
    "start": 0.1,
}
OTHERS = {
    "losses": [2.8, 1.3, 1.0, 0.8, 0.4, 0.3],
    "right": [0.06, 0.6, 0.7, 0.8, 0.9, 0.98],
    "named": [0.2, 0.85, 0.9, 0.9, 0.95, 1.0],
    "head": [0.2, 0.6, 0.7, 0.8, 0.9, 0.9],
    "ic": 0.3,
    "others": 0.9,
    "even": 0.2,
    "adam": NAN,
    "repeats": NAN,
    "nested": {8: (1.0, 500), 16: (1.0, 1700), 32: (1.0, 1400)},
    "hand": 0.5,
    "start": 0.6,
}


def verdicts(of: DataFrame) -> dict[str, str]:
    claims = list(abrupt_learning.claims(of))
    assert [claim.id for claim in claims] == claim_ids("abrupt_learning")
    return {claim.id: claim.verdict for claim in claims}


def test_a_table_like_the_papers_holds_and_one_that_is_not_fails():
    assert set(verdicts(table(**PAPERS)).values()) == {"holds"}
    found = verdicts(table(**OTHERS))
    assert set(found.values()) == {"fails"}, found


def test_what_was_not_trained_is_not_claimed():
    rows = table(**PAPERS)
    found = verdicts(rows[rows.condition == "nested"])
    decided = {name for name, verdict in found.items() if verdict != "undecided"}
    assert decided == {"nested_logits_change", "nested_logits_wait"}


# The nested logits ---------------------------------------------------------------------------------------------------


def test_the_loss_by_hand():
    """With N = 2, L = 3 and all numbers 0, three answers are equally likely. With ξ = 1, two have the weight e^½."""
    model = NestedLogits(n_pairs=2, n_labels=3)
    assert float(model.loss(torch.zeros(3, dtype=torch.float64))) == pytest.approx(math.log(3))
    at = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    assert float(model.loss(at)) == pytest.approx(math.log(2 * math.exp(0.5) + 1) - 0.5)


@pytest.mark.parametrize("labels", [8, 9, 16, 32])
def test_what_starts_it_in_closed_form(labels):
    """At the start only ξ has a gradient, 1/L − 1/N; with L = N none has, so the start is a saddle."""
    model = NestedLogits(n_labels=labels)
    _, slope = model.loss_and_slope(torch.zeros(3, dtype=torch.float64))
    assert slope.tolist() == pytest.approx([0, 0, 1 / labels - 1 / 8], abs=1e-12)


# The model, by hand and untrained ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Use 500 sequences: the hand-set model is almost always right, so a few are enough."""
    monkeypatch.setattr("hopscope_studies.abrupt_learning.answers.SIZE", 500)


@pytest.mark.parametrize("task", [HAND, HAND.but(noise=0.0), HAND.but(n_labels=4, distinct=True)])
def test_the_circuit_by_hand_answers_from_the_context_with_all_measures_1(task):
    found = {(kind, name): value for kind, name, value in judged(induction(task), task)}
    assert found["accuracy", "IC"] > 0.995
    assert found["accuracy", "patterns of others"] < 0.5
    assert all(value == pytest.approx(1, abs=0.005) for (kind, _), value in found.items() if kind == "final")


def test_by_hand_it_goes_by_the_context_where_labels_are_flipped_and_knows_no_class_by_itself():
    task = HAND.but(fresh=0.0)
    found = {name: value for kind, name, value in judged(induction(task), task) if kind == "accuracy"}
    assert found["IC2"] > 0.995 and found["IW"] < 0.3


def test_the_circuit_by_hand_needs_the_place():
    with pytest.raises(BadInput, match="a one-hot place"):
        induction(HAND.but(n_places=20))


def test_untrained_every_label_is_as_likely_and_tokens_are_refused():
    model = ClassifierArchitecture().build(SMALL, generator(0, "init"))
    found = progress(observe(model, SMALL.sample(500)))
    assert found["TILA2"] < 0.3 and found["CLA"] < 0.6
    with pytest.raises(BadInput, match="reads vectors"):
        ClassifierArchitecture().build(Induction())


def test_the_forward_pass_is_its_formula():
    """One layer after the other, written out for one sequence in float64."""
    model = ClassifierArchitecture(d_hidden=5).build(SMALL, generator(1, "init")).double()
    inputs = SMALL.sample(1).inputs.double()
    x = inputs[0]
    for layer in range(2):
        rows = []
        for i in range(len(x)):
            scores = torch.stack([(x[i] @ model.W_Q[layer]) @ (x[j] @ model.W_K[layer]) for j in range(i + 1)])
            rows.append(scores.softmax(0) @ (x[: i + 1] @ model.W_V[layer]))
        x = x + torch.stack(rows)
    hidden = (x @ model.W[0] + model.b[0]).clamp(min=0)
    hidden = (hidden @ model.W[1] + model.b[1]).clamp(min=0)
    assert torch.allclose(model(inputs)[0], hidden @ model.W[2] + model.b[2])


def test_a_head_is_timed_by_the_loss_of_its_own_run():
    """Rows are in the order of seeds, runs are not in the order of their names; the ratios are 20 / 10 and 80 / 40."""
    rows = []
    for run, seed, loss, head in (("z", 0, 10, 20), ("a", 1, 40, 80)):
        about = {"run": run, "seed": seed, "condition": "context"}
        rows.append({**about, "kind": "learnt", "name": "all", "step": 100, "value": loss})
        rows += [
            {**about, "kind": "seen", "name": "TILA2", "step": s, "value": float(s >= head)} for s in range(0, 101, 10)
        ]
    assert head_times(DataFrame(rows)).to_dict() == {0: 2.0, 1: 2.0}
