"""What people reported of other tools, tried here (docs/reported_problems.md); each that other files do not try."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from hopscope.core.settings import BadInput
from hopscope.language.agreement import checked
from hopscope.language.backends.base import Sampling
from hopscope.language.backends.hugging_face import HuggingFace, turn_end
from hopscope.language.backends.known import Known
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Rendered
from hopscope.language.turns import completion
from tests.language.test_guards import ASKED, bigram, characters

CHATML = (
    "{% for m in messages %}<s>{{ m['role'] }}:{{ m['content'] }}~\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def chatting(template: str = CHATML, ends: str = "~"):
    """Characters whose turns end with a special token that does not end the text."""
    words = characters()
    words.add_special_tokens({"additional_special_tokens": [ends]})
    words.chat_template = template
    return words


def test_a_turn_ends_with_the_token_that_the_template_sets_behind_it():
    """lighteval #196: the model goes on as the user, and its answer is lost. Here `~` is no end of text."""
    words = chatting()
    assert turn_end(words) == words.convert_tokens_to_ids("~")
    one = HuggingFace(Opened(bigram({":": "2", "2": "~", "~": "3", "3": "3"}, words), words, "chat", {}))
    [said] = one.generate([Rendered("a", True, ("2", "3"), (), ())], [Sampling(0.0, 6, 0)])
    assert (said, said.finish_reason) == ("2", "stop")


@pytest.mark.parametrize("template", [None, "{{ raise_exception('no assistant') }}", "{{ messages[0]['content'] }}"])
def test_templates_that_say_no_turns_end_have_none(template):
    words = characters()
    words.chat_template = template
    assert turn_end(words) is None


def test_thoughts_that_the_template_opens_are_no_answer():
    """A text then holds their end alone, or is thoughts whole; tags that are special tokens would be skipped."""
    words = chatting(CHATML + "{% if add_generation_prompt %}<think>{% endif %}")
    words.add_special_tokens({"additional_special_tokens": ["~", "</think>"]})
    table = {">": "3", "3": "</think>", "</think>": "2", "2": "~"}
    one = HuggingFace(Opened(bigram(table, words), words, "thinking", {}))
    asked = Rendered("a", True, ("2", "3"), (), ())
    [whole], [cut] = one.generate([asked], [Sampling(0.0, 6, 0)]), one.generate([asked], [Sampling(0.0, 1, 0)])
    assert (whole, whole.thoughts, whole.finish_reason) == ("2", "3", "stop")
    assert (cut, cut.thoughts, cut.finish_reason) == ("", "3", "length")


def test_a_chat_template_brings_the_only_first_token():
    """open-r1 #462, lm-eval #3295: begun twice, or not at all."""
    words = chatting()
    one = HuggingFace(Opened(bigram({":": "2"}, words), words, "chat", {}))
    chat, plain = Rendered("a", True, ("2",), ()), Rendered("a", False, ("2",), ())
    assert one.tokens(one.text(chat), chat).count(words.bos_token_id) == 1
    assert one.tokens(one.text(plain), plain) == [words.bos_token_id, words.convert_tokens_to_ids("a")]


def test_an_answer_that_is_one_token_with_the_prompts_end_is_scored_from_the_token_before():
    """lm-eval #1053: nothing of the answer is left where its tokens are cut off behind the prompt's."""
    vocab = {"<s>": 0, "a": 1, "=": 2, "1": 3, "2": 4, "=1": 5}
    made = Tokenizer(models.BPE(vocab, [("=", "1")], unk_token="<s>"))
    made.decoder = decoders.Fuse()
    words = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="<s>")
    model = bigram({"a": "=1"}, words)
    [scores] = HuggingFace(Opened(model, words, "merging", {})).log_likelihoods([Rendered("a=", False, ("1", "2"), ())])
    rows = model(torch.tensor([[1, 2]])).logits[0].log_softmax(-1)
    assert scores == pytest.approx([float(rows[0, 5]), float(rows[0, 2] + rows[1, 4])], abs=1e-4)
    assert scores[0] > scores[1]


def test_scores_that_are_all_nought_are_refused():
    """lingua #28: every answer at log-likelihood 0, and accuracy at chance for a whole training run."""
    with pytest.raises(BadInput, match="sum to 4"):
        checked(Known("oracle"), Rendered("a", False, ("1", "2", "3", "4"), ()), [0.0] * 4, 5)


def test_a_line_that_is_empty_before_the_answer_is_no_answer():
    """lm-eval #1086: a stop text may come first. The text is empty, and so never a wrong answer."""
    assert completion("\n2", stop=ASKED.stop) == ""
