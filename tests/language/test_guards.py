"""Numbers that cannot be right are errors, never rows: public reports F1, F2, F4, F7 and F9, tried on small models.

Granite's residual multiplier (nnterp #54), GLM-4's and BitNet's norms, answers that begin others, logits that are no
numbers (lm-eval #1340), a tokenizer that sets its end token behind every text (trlx #287), and prompts that are longer
than the context (lm-eval #2657).
"""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from transformers import (
    BitNetConfig,
    BitNetForCausalLM,
    Glm4Config,
    Glm4ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from hopscope.cli.lm.evaluate import ask_all
from hopscope.core.settings import BadInput
from hopscope.formulations.equations import Equations
from hopscope.language.agreement import checked
from hopscope.language.backends.base import Sampling, given_whole
from hopscope.language.backends.hugging_face import HuggingFace, appended
from hopscope.language.backends.known import Known
from hopscope.language.checkpoints import Opened
from hopscope.language.echo import Echo, continuations
from hopscope.language.evaluation import Evaluation
from hopscope.language.layouts.base import Rendered
from hopscope.language.layouts.code import Code
from hopscope.language.lens.attention import Lens
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.protocols.log_likelihood import LogLikelihood
from tests.language import planted

# F1: what a lens says is written ------------------------------------------------------------------------------------


def like(llama, config, model, **changes):
    """The same shape in another architecture, or nearly so."""
    c = llama.config
    shape = {
        "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size,
        "intermediate_size": c.intermediate_size,
        "num_hidden_layers": c.num_hidden_layers,
        "num_attention_heads": c.num_attention_heads,
        "num_key_value_heads": c.num_key_value_heads,
        "head_dim": c.head_dim,
        "pad_token_id": 0,
    }
    return model(config(**shape | changes)).eval().requires_grad_(False)


def test_what_a_llama_writes_is_what_its_streams_grow_by():
    made = planted.planted()
    assert Lens(made).n_layers == made.model.config.num_hidden_layers


def test_one_function_written_as_a_granite_is_refused():
    """The outputs of its layers are scaled before they are added: a head would seem 1 / 0.22 times too strong."""
    made = planted.planted()
    granite = like(made.model, GraniteConfig, GraniteForCausalLM)
    granite.load_state_dict(made.model.state_dict(), strict=False)
    granite.config.residual_multiplier = 0.22
    for layer in granite.model.layers:
        layer.residual_multiplier = 0.22
    with pytest.raises(BadInput, match=r"layer 1 of granite adds something else to its stream"):
        Lens(Opened(granite, made.tokenizer, "granite", {}))


@pytest.mark.parametrize(("config", "model"), [(Glm4Config, Glm4ForCausalLM), (BitNetConfig, BitNetForCausalLM)])
def test_norms_between_a_projection_and_the_stream_are_refused(config, model):
    made = planted.planted()
    torch.manual_seed(0)
    other = like(made.model, config, model, hidden_size=4 * made.model.config.head_dim)
    for name, weight in other.named_parameters():
        if "norm" in name:
            weight.copy_(1 + 0.5 * torch.rand(weight.shape))
    with pytest.raises(BadInput, match=r"heads (can|are)"):
        Lens(Opened(other, made.tokenizer, "other", {}))


def test_a_model_whose_weights_are_no_numbers_has_no_heads():
    made = planted.planted()
    made.model.lm_head.weight.fill_(math.nan)
    with pytest.raises(BadInput, match="computes logits that are not finite"):
        Lens(made)


# F2: answers that begin others ----------------------------------------------------------------------------------------


def test_whole_answers_exclude_one_another():
    """A tree by hand: 1 (.9) with 10 (.6), which goes on to 100 (.2), and 12 (.1); and 3 (.1), which begins none."""
    names = ["1", "10", "100", "12", "3"]
    scores = [math.log(p) for p in (0.9, 0.6, 0.2, 0.1, 0.1)]
    found = [math.exp(score) for score in given_whole(scores, names)]
    assert found == pytest.approx([0.2, 0.4, 0.2, 0.1, 0.1]) and sum(found) == pytest.approx(1)
    assert given_whole(scores, [[number] for number in range(5)]) == scores
    sure = given_whole([0.0, 1e-9], [(5,), (5, 6)])  # rounding may leave less than nothing
    assert math.isfinite(sure[0]) and sure[0] < -20 and sure[1] == 1e-9


TWENTY = Equations(n_hops=1, n_chains=20)
LAYOUT = "code"


@pytest.mark.parametrize("behaviour", ["oracle", "chatty"])
def test_a_perfect_known_model_is_right_and_its_mass_is_at_most_1(behaviour):
    """Twenty chains: their values are 1 to 20, and 1 begins ten of the others."""
    from hopscope.core import catalogue

    layout, protocol = catalogue.find("language.layouts", LAYOUT)(), LogLikelihood()
    known = Known(behaviour)
    known.learn(TWENTY, layout, 0, range(60))
    for index in range(60):
        question = TWENTY.question(0, index)
        scores = known.log_likelihoods([layout.render(TWENTY, question)])[0]
        judged = protocol.judge(question, [{"scores": scores, "blank": scores}])
        assert judged.correct and 0.9 < judged.mass <= 1
    assert any(question.answer.startswith("1") for question in [TWENTY.question(0, i) for i in range(60)])


def test_echoes_of_answers_that_begin_others_exclude_one_another():
    """1 as one token, 10 as two: the second is known to the first."""
    text, choices = "a = ", ["1", "10", "2"]
    one, ten, two = Echo((4, 5), (None, -0.1)), Echo((4, 5, 6), (None, -0.1, -0.2)), Echo((4, 5), (None, -3.0))
    found = continuations(text, choices, [one, ten, two])
    assert found[1:] == pytest.approx([-0.3, -3.0])
    assert math.exp(found[0]) == pytest.approx(math.exp(-0.1) - math.exp(-0.3))


def test_single_tokens_exclude_one_another_already():
    """10 as a token of its own takes nothing from the token 1."""
    one, ten = Echo((4, 5), (None, -0.5)), Echo((4, 6), (None, -1.5))
    assert continuations("a = ", ["1", "10"], [one, ten]) == [-0.5, -1.5]


@pytest.mark.parametrize(
    ("scores", "words"), [([-0.1, -0.1, -5.0], "sum to 1.82"), ([math.nan, -1.0, -2.0], "no finite numbers")]
)
def test_what_cannot_be_right_is_an_error_wherever_it_comes_from(scores, words):
    with pytest.raises(BadInput, match=f"known:oracle: the scores of question 5's answers .*{words}"):
        checked(Known("oracle"), Rendered("a", False, ("1", "2", "3"), ()), scores, 5)


# F4: logits that are no numbers ---------------------------------------------------------------------------------------


def characters(behind: str = ""):
    """A tokenizer of single characters, which sets these special tokens behind every text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {chr(i): i - 29 for i in range(32, 127)}
    made = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    special = [("<unk>", 0), ("<s>", 1), ("</s>", 2)]
    made.post_processor = processors.TemplateProcessing(single=f"<s> $A {behind}".strip(), special_tokens=special)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def bigram(table: dict[str, str], words) -> LlamaForCausalLM:
    """A Llama whose next token depends on the last one alone."""
    vocab, width = len(words), len(words) + 8 - len(words) % 8
    shape = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": width // 2}
    config = LlamaConfig(
        vocab_size=vocab, hidden_size=width, intermediate_size=8, bos_token_id=1, eos_token_id=2, **shape
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        weight.fill_(1.0 if "norm" in name else 0.0)
    model.model.embed_tokens.weight[:, :vocab] = torch.eye(vocab)
    for last, then in table.items():
        model.lm_head.weight[words.convert_tokens_to_ids(then), words.convert_tokens_to_ids(last)] = 30 / width**0.5
    return model


def backend(behind: str = "", table: dict[str, str] | None = None) -> HuggingFace:
    words = characters(behind)
    chain = {":": " ", " ": "2", "2": "</s>", "</s>": "3"} if table is None else table
    return HuggingFace(Opened(bigram(chain, words), words, "bigram", {}))


ASKED = Rendered("a:", False, (" 1", " 2", " 3"), ())


@pytest.mark.parametrize("fault", [math.nan, math.inf])
def test_logits_that_are_no_numbers_stop_scores_and_text(fault):
    broken = backend()
    broken.network.lm_head.weight.fill_(fault)
    for ask in (
        lambda: broken.log_likelihoods([ASKED]),
        lambda: broken.generate([ASKED], [Sampling(0.0, 4, 0)]),
        lambda: broken.generate([ASKED], [Sampling(1.0, 4, 0)]),
    ):
        with pytest.raises(BadInput, match="bigram computes logits that are NaN in float32"):
            ask()


# F9: questions that are longer than the context ---------------------------------------------------------------------


def test_questions_beyond_the_context_are_refused_with_both_lengths():
    """GPT-2 has no positions beyond it; a rotary model would read on, at angles that it never saw."""
    words = characters()
    shape = {"vocab_size": len(words), "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 16}
    rotary = bigram({":": " "}, words)
    rotary.config.max_position_embeddings = 16
    for network in (GPT2LMHeadModel(GPT2Config(**shape)).eval(), rotary):
        one = HuggingFace(Opened(network, words, "short", {}))
        fits, long = (Rendered("a" * n, False, ("b", "bc"), ()) for n in (13, 14))  # and <s> before, two behind
        assert len(one.log_likelihoods([fits])[0]) == 2 and len(one.generate([fits], [Sampling(0.0, 2, 0)])) == 1
        with pytest.raises(BadInput, match="reads at most 16 tokens, and a question takes 17; ask fewer hops"):
            one.log_likelihoods([fits, long])
        with pytest.raises(BadInput, match="reads at most 16 tokens, and a question with its answer takes 17"):
            one.generate([fits], [Sampling(0.0, 3, 0)])


@pytest.mark.parametrize("protocol", [LogLikelihood(), GreedyStrict()])
def test_of_several_rows_none_is_asked_where_one_has_a_question_that_is_too_long(protocol, tmp_path):
    words = characters()
    shape = {"vocab_size": len(words), "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 128}
    one = HuggingFace(Opened(GPT2LMHeadModel(GPT2Config(**shape)).eval(), words, "short", {}))
    cells = [(Equations(n_hops=hops), Code(), protocol) for hops in (1, 9)]
    with pytest.raises(BadInput, match="reads at most 128 tokens, and a question"):
        ask_all(one, cells, Evaluation(count=2), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# F7: tokenizers that set a token behind every text ------------------------------------------------------------------


@pytest.mark.parametrize(("behind", "ids"), [("</s>", [2]), ("<unk> </s>", [0, 2])])
def test_a_token_behind_every_text_is_left_out_of_prompts_and_answers(behind, ids):
    """One model, two tokenizers: what it says and what it finds likely must be the same."""
    assert appended(characters(behind)) == ids and appended(characters()) == []
    plain, ending = backend(), backend(behind)
    for one in (plain, ending):
        assert one.generate([ASKED], [Sampling(0.0, 4, 0)]) == [" 2"]
        assert max(zip(one.log_likelihoods([ASKED])[0], ASKED.choices, strict=True))[1] == " 2"
    assert plain.log_likelihoods([ASKED]) == ending.log_likelihoods([ASKED])


def test_digits_as_single_tokens_are_scored_as_whole_answers():
    """A model that surely writes 10 gives 1 next to nothing; one that writes 1 and ends gives 10 next to nothing."""
    asked = Rendered("a:", False, (" 1", " 10", " 2"), ())
    ten = backend(table={":": " ", " ": "1", "1": "0", "0": "</s>"}).log_likelihoods([asked])[0]
    one = backend(table={":": " ", " ": "1", "1": "</s>"}).log_likelihoods([asked])[0]
    assert ten.index(max(ten)) == 1 and one.index(max(one)) == 0
    assert sum(map(math.exp, ten)) <= 1 + 1e-6 and sum(map(math.exp, one)) <= 1 + 1e-6
