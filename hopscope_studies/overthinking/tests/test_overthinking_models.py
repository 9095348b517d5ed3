"""Measurements of `overthinking` against calculations by hand, a hand-set model, and transformers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from hopscope.core.settings import BadInput
from hopscope.language.lens.attention import Lens
from hopscope_studies.overthinking import trial as trials
from hopscope_studies.overthinking.answers import Silenced, answers, calibrated, mixed, plain, scores
from hopscope_studies.overthinking.by_hand import COPIES, by_hand
from hopscope_studies.overthinking.measured import Demonstrations
from hopscope_studies.overthinking.prompts import ITEMS, PLACES, encoded, words_of
from hopscope_studies.overthinking.tests.made_up import REPORT
from hopscope_studies.overthinking.trial import critical, trial
from tests.language import of_models
from tests.language.of_models import fields


def test_calibrated_accuracy_by_hand():
    """Of six texts, at one line, the two with the highest probability of a label are right, however low it is."""
    p = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    probabilities = torch.stack([p, 0.9 * (1 - p), 0.1 * (1 - p)], -1)[:, None]
    assert calibrated(probabilities, torch.zeros(6, 1, dtype=torch.long))[:, 0].tolist() == [1, 1, 0, 0, 0, 0]
    assert calibrated(probabilities, torch.full((6, 1), 2))[:, 0].tolist() == [0, 0, 0, 0, 1, 1]
    same = torch.full((6, 1, 3), 1 / 3)
    assert calibrated(same, torch.arange(6)[:, None] % 3).tolist() == [[pytest.approx(1 / 3)]] * 6
    assert plain(probabilities, torch.zeros(6, 1, dtype=torch.long))[:, 0].tolist() == [1, 1, 1, 1, 1, 0]


def test_a_bias_towards_a_label_is_no_matter():
    right = torch.arange(12)[:, None] % 3
    logits = torch.nn.functional.one_hot(right, 3).double()
    for bias in ([0, 0, 0], [9.0, 0, 0]):
        assert calibrated((logits + torch.tensor(bias)).softmax(-1), right).mean() == 1
    assert plain((logits + torch.tensor([9.0, 0, 0])).softmax(-1), right).mean() == pytest.approx(1 / 3)


def test_scores_by_hand():
    """All attention on one label of the class gives 1, on one of another −1/2, and even attention depends on counts."""
    words = words_of("unnatural", 6, 0)
    classes, asked = words.classes, words.asked
    looks = torch.zeros(1, 6, 3, PLACES, ITEMS)
    even = torch.zeros(6, PLACES)
    for text in range(6):
        for place in range(PLACES):
            before = classes[text, : ITEMS - PLACES + place]
            same = before == asked[text, place]
            looks[0, text, 0, place, int(same.nonzero()[0])] = 1
            looks[0, text, 1, place, int((~same).nonzero()[0])] = 1
            looks[0, text, 2, place, : len(before)] = 1 / len(before)
            even[text, place] = same.double().mean() - (~same).double().mean() / 2
    looks[0, :, :2, :, -1] += 5.0  # attention to the line itself, or to later lines, does not count
    assert scores(looks, classes, asked)[0].tolist() == pytest.approx([1, -0.5, float(even.mean())], abs=1e-5)
    assert torch.equal(mixed(classes, 0).sort(1).values, classes.sort(1).values)
    assert not torch.equal(mixed(classes, 0), classes)


def test_critical_layers_by_hand():
    gaps = torch.tensor([[0, 0.1, 0.3, 0.6], [0, 0.5, 0.1, 0.4], [0.2, 0.1, 0, -0.1]])
    assert critical(gaps).tolist() == [2, 1, 4]


@pytest.fixture(scope="module")
def report():
    patched = pytest.MonkeyPatch()
    patched.setattr(trials, "DRAWS", 3)
    yield trial(by_hand(), Demonstrations(count=6), lambda _: None)
    patched.undo()


def means(numbers: list[dict[str, float]]) -> list[float]:
    return [one["mean"] for one in numbers]


def test_the_model_by_hand_knows_first_and_follows_then(report):
    assert means(report["lens"]["true"]) == pytest.approx([1 / 3, 1, 1])
    assert means(report["lens"]["permuted"]) == pytest.approx([1 / 3, 1, 0])
    assert means(report["gap"]) == [0, 0, 1]
    assert report["critical"]["mean"] == 2
    assert report["overthinking"] == {"layer": 1, "lost": {"mean": 1, "low": 1, "high": 1}}
    assert report["followed"]["mean"] == 1
    assert report["most_probable"]["permuted"]["mean"] == 0


def test_its_false_induction_head_scores_one_and_carries_the_whole_gap(report):
    found = {(one["layer"], one["head"]): one["again"] for one in report["heads"]}
    assert found[COPIES] == pytest.approx(1, abs=1e-4)
    assert [found[0, 0], found[0, 1]] == pytest.approx([0, 0], abs=1e-4)
    assert [one["head"] for one in report["chosen"]] == ["L1H0"]
    assert max(report["mixed"]) < 0.5
    assert report["share"]["mean"] == 1 and report["true_lost"]["mean"] == 0
    assert report["beyond"]["same layers"]["mean"] == 1  # the other head of the layer does nothing
    late = {one["set"]: one["permuted"]["mean"] for one in report["without"] if one["set"].startswith("late")}
    assert late == {"late attention": 1, "late MLPs": 0}


def test_the_made_up_report_has_the_fields_of_a_real_one(report):
    beside = {"identity", "code", "protocol", "seconds"}
    assert fields({name: value for name, value in report.items() if name not in beside}) == fields(REPORT)


@pytest.fixture(scope="module")
def random_lens() -> Lens:
    return of_models.random_lens(by_hand().tokenizer)


def among_labels(logits: torch.Tensor, texts: Any, row: int) -> torch.Tensor:
    return logits[0, texts.queries[row]][:, texts.label_ids].softmax(-1)


def test_layers_are_read_off_as_transformers_would(random_lens):
    words = words_of("unnatural", 12, 0)
    texts = encoded(random_lens.tokenizer, words, "half")
    found = answers(random_lens, texts)
    model = random_lens.model
    for row in (0, 11):
        out = model(texts.ids[row : row + 1], output_hidden_states=True)
        for layer, stream in enumerate(out.hidden_states[:-1]):  # the last one is already normalised
            logits = model.lm_head(model.model.norm(stream))
            assert torch.allclose(found.by_layer[layer, row], among_labels(logits, texts, row), atol=1e-5)
        assert torch.allclose(found.by_layer[-1, row], among_labels(out.logits, texts, row), atol=1e-5)


def test_silenced_parts_write_nothing(random_lens):
    """Equal to a copy of the model in which the output weights of those parts are zero."""
    words = words_of("household", 6, 1)
    texts = encoded(random_lens.tokenizer, words, "permuted")
    sets = [Silenced([(1, 2), (2, 0)]), Silenced(mlps=[2]), Silenced()]
    found = answers(random_lens, texts, sets).without
    for number, gone in enumerate(sets):
        twin = copy.deepcopy(random_lens.model)
        for layer, head in gone.heads:
            twin.model.layers[layer].self_attn.o_proj.weight[:, 6 * head : 6 * head + 6] = 0
        for layer in gone.mlps:
            twin.model.layers[layer].mlp.down_proj.weight.zero_()
        logits = twin(texts.ids[3:4]).logits
        assert torch.allclose(found[number, 3], among_labels(logits, texts, 3), atol=1e-5)
    assert not torch.allclose(found[0], found[2], atol=1e-3) and not torch.allclose(found[1], found[2], atol=1e-3)


def test_shorter_texts_are_filled_up_where_nothing_sees_it(random_lens):
    """If a tokenizer splits some words, texts differ in length; each gets the same answers as alone."""

    class Splitting:
        def __call__(self, text: str, **more: Any) -> dict[str, Any]:
            found = random_lens.tokenizer(text, **more)
            doubled = [n for n, (a, b) in enumerate(found["offset_mapping"]) if b - a > 6 for _ in range(2)]
            order = sorted([*range(len(found["input_ids"])), *doubled[::2]])
            return {name: [found[name][n] for n in order] for name in ("input_ids", "offset_mapping")}

    texts = encoded(Splitting(), words_of("unnatural", 6, 0), "true")
    assert texts.tokens[0] < texts.tokens[1]
    found = answers(random_lens, texts).by_layer[-1]
    for row in range(6):
        end = int(texts.label_at[row, -1]) + 1
        logits = random_lens.model(texts.ids[row : row + 1, :end]).logits
        assert torch.allclose(found[row], among_labels(logits, texts, row), atol=1e-5)


def test_labels_that_begin_alike_are_refused():
    class Alike:
        def __call__(self, text: str, **more: Any) -> dict[str, Any]:
            return {"input_ids": [1] * len(text), "offset_mapping": [(n, n + 1) for n in range(len(text))]}

    with pytest.raises(BadInput, match="the labels plant, sport, animal do not begin differently"):
        encoded(Alike(), words_of("unnatural", 6, 0), "true")
