"""`find_emergence`: checkpoints whose attention is known by hand, as models and as weights."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
import torch.nn.functional as F
from families import N, Plain, data, pairs

import hopscope
from hopscope.circuits.discovery import Discovery
from hopscope.core.settings import BadInput

SMALL = Discovery(discovery=32, selection=48, report=64)
GROWN = {0: 0.0, 100: 0.02, 200: 0.06, 300: 0.1, 400: 0.3, 500: 1.0}  # of the first head's queries, by step


def at(share):
    model = Plain("bmm")
    with torch.no_grad():
        model.first.Q.mul_(share)
    return model


def strength(share, inputs):
    """Attention from what follows the asked token to that token: of places alone, by hand."""
    scores = share * 30 * torch.eye(N).roll(-1, 1).tril(-1)
    pattern = scores.masked_fill(~torch.ones(N, N).bool().tril(), -math.inf).softmax(-1)
    asked = (inputs[:, :-1] == inputs[:, -1:]).int().argmax(1)
    return float(pattern[asked + 1, asked].mean())


@pytest.fixture(scope="module")
def circuit():
    return hopscope.find_circuit(at(1.0), *data(512), roles=pairs, settings=SMALL)


def test_strengths_and_onsets_are_those_of_attention_by_hand(circuit, tmp_path):
    weights = {step: at(share).state_dict() for step, share in GROWN.items()}
    model, (inputs, targets) = at(1.0).train(), data(512)
    found = hopscope.find_emergence(weights, inputs, targets, model=model, found=circuit, n=128)
    first = next(one for one in found.emergence.paths if one.path.layer == 0)
    seen = circuit.task.sample(128, 0).inputs
    curve = [strength(share, seen) for share in GROWN.values()]
    assert first.strength == pytest.approx(curve, abs=1e-5)
    by = next(i for i, value in enumerate(curve) if value > 0.5)
    step = numpy.interp(0.5, curve[by - 1 : by + 1], [*GROWN][by - 1 : by + 1])
    assert first.onset.step == pytest.approx(float(step), abs=0.1)
    assert model.training and torch.equal(model.first.Q, at(1.0).first.Q)
    with torch.no_grad():
        last = F.cross_entropy(at(1.0)(seen)[:, -1], circuit.task.sample(128, 0).targets[:, 0, 0])
    assert found.emergence.hops["answer"].iloc[-1] == pytest.approx(float(last), abs=1e-5)
    assert f"above 0.5 {step:.0f} (" in str(found) and "order: " in str(found) and "<svg" in found._repr_html_()
    names = {file.name for file in found.save(tmp_path)}
    assert names == {"emergence.csv", "emergence.json", "words.txt", "emergence.svg", "emergence.png"}
    assert len(found.table()) == len(GROWN) * len(circuit.circuit.paths)


def test_models_are_followed_as_their_weights_are(circuit):
    models = {step: at(share) for step, share in GROWN.items()}
    weights = {step: one.state_dict() for step, one in models.items()}
    given = {"found": circuit, "n": 64, "paths": ["L0H0 answer->asked"]}
    one = hopscope.find_emergence(models, *data(512), **given)
    other = hopscope.find_emergence(weights, *data(512), model=at(1.0), **given)
    assert one.table().equals(other.table()) and len(one.emergence.paths) == 1


ERRORS = {
    "few": ({1: at(1), 2: at(1)}, {}, "needs at least 3 checkpoints; got 2"),
    "list": ([at(1)] * 3, {}, "must be a dictionary from training steps"),
    "words": ({"a": at(1), "b": at(1), "c": at(1)}, {}, "from training steps, whole numbers"),
    "no model": ({i: at(1).state_dict() for i in range(3)}, {}, "is a state dictionary; give its model by model="),
    "no weights": ({0: at(1), 1: at(1), 2: "x"}, {}, "step 2 must be a model or weights; got a str"),
    "others": (
        {i: {"Q": torch.zeros(2)} for i in range(3)},
        {"model": at(1)},
        "the weights of step 0 are not of a Plain: Unexpected key.*Q",
    ),
    "loaded": ({i: at(1) for i in range(3)}, {"found": "x"}, "found must be what find_circuit returned; got a str"),
    "no rows": ({i: at(1) for i in range(3)}, {"n": 0}, "n must be at least 1, and seed at least 0; got 0 and 0"),
    "seed": ({i: at(1) for i in range(3)}, {"seed": -1}, "n must be at least 1, and seed at least 0; got 256 and -1"),
    "null": ({i: at(1) for i in range(3)}, {"null": "x"}, "null must be one of uniform, identity, resample; got 'x'"),
    "path": ({i: at(1) for i in range(3)}, {"paths": ["L9H0 answer->asked"]}, "the last layer is 1"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_checkpoints_that_do_not_fit_are_told_in_one_sentence(circuit, case):
    checkpoints, given, words = ERRORS[case]
    with pytest.raises(BadInput, match=words):
        hopscope.find_emergence(checkpoints, *data(512), **{"found": circuit, **given})


def test_a_head_that_is_not_there_is_told_before_anything_is_searched(monkeypatch):
    def searched(*_, **__):
        raise AssertionError("the search began")

    monkeypatch.setattr("hopscope.live.emergence.find_circuit", searched)
    with pytest.raises(BadInput, match="path 'L0H9 answer->asked': the last head is 0, counted from 0; got 9"):
        hopscope.find_emergence({i: at(1) for i in range(3)}, *data(512), paths=["L0H9 answer->asked"])
