"""Measurements of `recall_mechanisms` in a hand-set model, in random models against transformers, by direct sums."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from hopscope.core.settings import BadInput
from hopscope.language.checkpoints import Opened
from hopscope.language.lens.attention import Lens
from hopscope_studies.recall_mechanisms import function as functions, topic as topics
from hopscope_studies.recall_mechanisms.by_hand import COUNT, KINDS, by_hand
from hopscope_studies.recall_mechanisms.parts import Instead, Recall
from hopscope_studies.recall_mechanisms.prompts import asks_of, fitting
from hopscope_studies.recall_mechanisms.regression import Design
from hopscope_studies.recall_mechanisms.tests.made_up import REPORT
from hopscope_studies.recall_mechanisms.trial import Trial, trial
from hopscope_studies.recall_mechanisms.words import RELATIONS
from tests.language import of_models
from tests.language.of_models import fields


@pytest.fixture(scope="module")
def report():
    patched = pytest.MonkeyPatch()
    patched.setattr(topics, "DRAWS", 2)
    patched.setattr(functions, "DRAWS", 2)
    yield trial(by_hand(), Trial(" ".join(KINDS), COUNT), lambda _: None)
    patched.undo()


def mean(found: dict[str, float]) -> float:
    return found["mean"]


def test_the_planted_topic_head_is_found(report):
    found = report["topic"]
    assert found["chosen"]["topic"] == ["L0H0"]
    assert mean(found["share"]["topic"]) == pytest.approx(1, abs=1e-4)
    assert mean(found["share"]["random 0"]) == pytest.approx(0, abs=1e-4)
    assert mean(found["looks"]["topic"]) == pytest.approx(1, abs=1e-4)
    length = (11 / 12) ** 0.5  # as below; the subject's unembedding is found at a quarter of its length
    assert mean(found["apart"]["heads"]["subject"]) == pytest.approx(length / 17**0.5, abs=1e-3)
    assert mean(found["apart"]["MLPs"]["answer"]) == pytest.approx(length / 2, abs=1e-3)
    for kind, name in (("heads", "answer"), ("MLPs", "subject"), ("heads", "cosine")):
        assert mean(found["apart"][kind][name]) == pytest.approx(0, abs=1e-4)


def test_the_planted_function_is_found(report):
    """The memory writes codes of length 1; each of n answers minus the others' mean has length √(n / (n − 1))."""
    found = report["function"]
    made = found["regression"]
    assert found["layer"] == 0
    assert mean(made["numbers"]["answer"]) == pytest.approx((11 / 12) ** 0.5, abs=1e-3)
    assert mean(made["gain"]) == pytest.approx(1, abs=1e-3) == mean(made["all"])
    assert mean(made["read"]) == pytest.approx(0, abs=1e-3)  # a memory's output is not a multiple of its input
    assert max(made["answer_mixed"]) < 0 and max(made["gain_mixed"]) < 0 and max(found["mixed"]) < 0


def test_the_planted_suppression_is_found(report):
    """The second MLP takes half of what the first one wrote."""
    found = report["last_layer"]
    first, second = (mean(one) for one in report["parts"]["mlps"])
    assert second == pytest.approx(-first / 2, rel=1e-3)
    assert [mean(one) for one in found["negative"]] == [0, 1]
    assert mean(found["halving_adds"]) > 0.1 and mean(found["mlp"]) < 0 == mean(found["heads"])


def test_exchanging_the_argument_exchanges_the_answer(report):
    found = {one["set"]: one for one in report["instead"]["sets"]}
    assert mean(found["topic"]["exchanged"]) == pytest.approx(1, abs=1e-4) == mean(found["topic"]["by_mlps"])
    assert mean(found["topic"]["lost"]) > 0.8
    assert mean(found["random 0"]["exchanged"]) == pytest.approx(0, abs=1e-4)


def test_kind_and_fact_come_at_once_in_the_model_by_hand(report):
    found = report["lens"]
    assert [mean(one) for one in found["right"]["subject"]] == pytest.approx([1 / 12, 1, 1])
    assert mean(found["halved"]["relation"]) == mean(found["halved"]["subject"]) == 1
    assert mean(found["subject_later"]) == 0


def test_the_made_up_report_has_the_fields_of_a_real_one(report):
    beside = {"identity", "code", "protocol", "seconds"}
    assert fields({name: value for name, value in report.items() if name not in beside}) == fields(REPORT)


@pytest.fixture(scope="module")
def random_lens() -> Lens:
    return of_models.random_lens(by_hand().tokenizer, norms=(0.5, 2.0))


@pytest.fixture(scope="module")
def asks():
    return asks_of(by_hand().tokenizer, "capital", 6)


def test_shares_add_up_to_the_difference_of_logits(random_lens, asks):
    for ask in asks:
        one = Recall(random_lens, ask)
        logits = random_lens.model(ask.ids).logits[:, -1]
        rows = torch.arange(len(ask.ids))
        own = logits[rows, ask.answers]
        others = (logits[:, ask.answers].sum(1) - own) / (len(ask.ids) - 1)
        fact = one.shares(one.wrote, one.answer_among_its_kind)
        assert torch.allclose(fact.total, own - others, atol=1e-4)
        assert torch.allclose(one.shares(one.wrote, one.answer).total, own - logits.mean(1), atol=1e-4)
        assert fact.heads.abs().mean() > 0.01 and fact.mlps.abs().mean() > 0.01


def test_a_head_has_the_share_that_silencing_its_output_takes_from_the_last_layer(random_lens, asks):
    """In the last layer, before an MLP that writes nothing, a head's share is the loss of the logit without it."""
    twin = copy.deepcopy(random_lens.model)
    twin.model.layers[2].mlp.down_proj.weight.zero_()
    lens = Lens(Opened(twin, random_lens.tokenizer, "twin", {}))
    one = Recall(lens, asks[0])
    scale = one.folded(one.wrote.streams[:, -1])
    z = one.wrote.z.clone()
    z[:, 2, 1] = 0
    without = one.run(Instead([(2, 1)], z)).streams[:, -1]
    lost = ((one.wrote.streams[:, -1] - without) * scale * one.answer).sum(1)
    assert torch.allclose(one.shares(one.wrote, one.answer).heads[:, 2, 1], lost, atol=1e-4)
    assert torch.allclose(one.written([(2, 1)])[:, 0], one.wrote.streams[:, -1] - without, atol=1e-4)


def test_two_directions_are_told_apart(random_lens, asks):
    one = Recall(random_lens, asks[0])
    subject, answer = (one.unit(rows) for rows in (one.subject_among_its_kind, one.answer_among_its_kind))
    found = one.apart(3 * subject - 2 * answer)
    assert torch.allclose(found[:, 0], torch.tensor(3.0), atol=1e-4)
    assert torch.allclose(found[:, 1], torch.tensor(-2.0), atol=1e-4)
    assert torch.allclose(found[:, 2], (subject * answer).sum(1), atol=1e-4) and found[:, 2].abs().max() > 0.05


def test_the_last_token_alone_gives_what_the_whole_prompt_does(random_lens, asks):
    one = Recall(random_lens, asks[1])
    out = random_lens.model(asks[1].ids, output_hidden_states=True)
    for layer, stream in enumerate(out.hidden_states[:-1]):
        assert torch.allclose(one.wrote.streams[:, layer], stream[:, -1], atol=1e-4)
    assert torch.allclose(one.logits(one.wrote.streams[:, -1]), out.logits[:, -1], atol=1e-4)
    late = [head for head in random_lens.heads if head[0] == 2]  # its own outputs put in change nothing
    for heads in (late, random_lens.heads):
        again = one.run(Instead(heads, one.wrote.z))
        for name in ("streams", "z", "mlps", "looks"):
            assert torch.allclose(getattr(again, name), getattr(one.wrote, name), atol=1e-5)


def test_subjects_are_found_and_long_words_left_out(asks):
    for ask in asks:
        assert torch.equal(ask.ids[:, ask.subject_at], ask.subjects)
    known = fitting(by_hand().tokenizer, RELATIONS["capital"].facts)
    assert len(known) == COUNT  # others are no words of this tokenizer


@pytest.mark.parametrize(
    ("relation", "told"), [("river", "there is no relation 'river'"), ("language", "hold 0 facts")]
)
def test_relations_that_cannot_be_asked_are_refused(relation, told):
    class Letters:
        unk_token_id = 0

        def __call__(self, text: str, **more: Any) -> dict[str, Any]:
            return {"input_ids": [ord(letter) for letter in text]}

    with pytest.raises(BadInput, match=told):
        asks_of(Letters(), relation)


def planted(noise: float) -> Design:
    """y = 2 a − b + an intercept that differs by sentence, and noise."""
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(80, 2, 16, generator=drawn)
    batches = torch.arange(80) % 2
    y = 2 * x[:, 0] - x[:, 1] + torch.tensor([3.0, -5.0])[batches][:, None]
    y = y + noise * torch.randn(80, 16, generator=drawn)
    return Design(["a", "b"], x, y, batches, torch.arange(80) < 40, list(range(80)))


def test_planted_numbers_are_recovered():
    exact = planted(0)
    assert exact.number("a")["mean"] == pytest.approx(2, abs=1e-4)
    assert exact.number("b")["mean"] == pytest.approx(-1, abs=1e-4)
    assert exact.explained()["mean"] == pytest.approx(1, abs=1e-4)
    assert exact.intercepts()[:, 0].tolist() == pytest.approx([3, -5] * 40, abs=1e-4)


def test_noise_and_mixing_cost_what_they_should():
    """Of a variance of 4 + 1 + 1 one part is noise; a carries four of six; shuffled facts explain nothing."""
    noisy = planted(1.0)
    found = noisy.explained()
    assert found["mean"] == pytest.approx(5 / 6, abs=0.05) and found["low"] < found["mean"] < found["high"]
    assert noisy.gain("a")["mean"] == pytest.approx(4 / 6, abs=0.08)
    assert noisy.mixed(0, ["a", "b"]).explained()["mean"] == pytest.approx(0, abs=0.1)
    assert noisy.mixed(0, ["a"]).number("b")["mean"] == pytest.approx(-1, abs=0.2)
    assert abs(noisy.mixed(0, ["a"]).number("a")["mean"]) < 0.3


def test_mixing_keeps_to_sentence_and_half():
    made = planted(0)
    x = torch.arange(80.0)[:, None, None].expand(80, 2, 16)
    given = made.with_x(x, made.names).mixed(3, ["a"]).x[:, 0, 0].long()
    assert (given != torch.arange(80)).all() and sorted(given.tolist()) == list(range(80))
    assert torch.equal(made.batches[given], made.batches) and torch.equal(made.fitted[given], made.fitted)
