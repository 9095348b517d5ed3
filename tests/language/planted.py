"""A Llama made by hand whose circuit of one hop is known: a control for whatever looks for circuits.

Facts are lines such as `b = 2`, and the question is `show b :`. Head 0 of layer 0 tells every token which letter stood
two before it, so that a value knows its key; head 2 of layer 0 tells `:` which letter is asked about; head 0 of layer 1
compares the two and copies the value. Nothing else does anything. As facts are the same in both prompts of a pair, the
circuit is `a0.h2` and `a1.h0`, both at the answer: the first takes its value from the query, and feeds the query of the
second, which feeds the logits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hopscope.formulations.base import Formulation, Question, Span, shifted
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Layout, Rendered
from hopscope.problem.oracle import Fact, Problem

LETTERS = "abcdefgh"
WORDS = ["?", "<s>", "\n", "=", "show", ":", *"0123", *LETTERS]
NODES = {"a0.h2", "a1.h0"}
PLACES = {"a0.h2@answer", "a1.h0@answer"}
EDGES = {
    "input@query->a0.h2@answer<v>",
    "a0.h2@answer->a1.h0@answer<q>",
    "a1.h0@answer->logits",
}


@dataclass(frozen=True)
class Lines(Formulation):
    """`b = 2` for four letters; with two hops also `f = b` for four more, one of which is shown."""

    n_hops: int = 1
    n_chains: int = 4

    @property
    def chance(self) -> float:
        return 0.25

    def question(self, seed: int, index: int) -> Question:
        generator = torch.Generator().manual_seed(1000 * seed + index)
        draw = lambda: torch.randperm(4, generator=generator).tolist()  # noqa: E731
        values, between, orders = draw(), draw(), [draw(), draw()]
        chains = [("abcd"[c], str(values[c])) for c in range(4)]
        if self.n_hops == 2:
            chains = [("efgh"[c], *chains[between[c]]) for c in range(4)]
        lines, spans, facts = [], [], []
        for step in range(self.n_hops, 0, -1):
            for c in orders[step - 1]:
                key, value = chains[c][step - 1 : step + 1]
                at = 6 * len(lines)
                spans += [Span(at, at + 1, f"key[{step}]", c), Span(at + 4, at + 5, f"value[{step}]", c)]
                lines.append(f"{key} = {value}")
                facts.append(Fact((key,), value, step))
        asked = int(torch.randint(4, (), generator=generator))
        letter, answer = chains[asked][0], chains[asked][-1]
        end = (Span(5, 6, "query", asked),)
        ask = f"show {letter} :"
        return Question(
            *("lines", seed, index, tuple(lines), ask, ask, answer, tuple("0123")),
            *(chains[asked], asked, Problem(tuple(facts), (letter,)), tuple(spans), end, end),
        )


@dataclass(frozen=True)
class Plain(Layout):
    """Facts and stem."""

    def render(self, formulation: Formulation, question: Question) -> Rendered:
        spans = question.statement_spans + shifted(question.stem_spans, len(question.facts) + 1)
        choices = tuple(f" {answer}" for answer in question.acceptable)
        return Rendered(f"{question.facts}\n{question.stem}", False, choices, spans)


def tokenizer():
    """One token per word."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, "?"))
    lines = pre_tokenizers.Split(Regex(r"[\n()]"), "isolated")
    words.pre_tokenizer = pre_tokenizers.Sequence([lines, pre_tokenizers.Split(Regex(r" +"), "removed")])
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?", bos_token="<s>")


# Registers of the residual stream
CONSTANT, OTHER = 0, 1
LETTER, DIGIT, TWO_BACK, ONE_BACK, ANSWER = (slice(2 + 8 * i, 10 + 8 * i) for i in range(5))
WIDTH, D_HEAD = 48, 32
TURNING, STILL = 0, slice(8, 16)  # a head's first pair turns by 1 rad per token; those from the eighth hardly do
SHARP = 30.0


def llama(n_layers: int = 2):
    """A Llama of four heads per layer, with nothing in it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=WIDTH,
        intermediate_size=16,
        num_hidden_layers=n_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=D_HEAD,
        rope_parameters={"rope_theta": 1e16, "rope_type": "default"},
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.zero_()
    return model


def planted() -> Opened:
    """The model by hand, with its tokenizer."""
    model = llama()
    embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
    embedding[:, CONSTANT] = 1
    for number, word in enumerate(WORDS):
        if word in LETTERS:
            embedding[number, LETTER.start + LETTERS.index(word)] = 1
        elif word.isdigit():
            embedding[number, DIGIT.start + int(word)] = 1
            head[number, ANSWER.start + int(word)] = 10
        else:
            embedding[number, OTHER] = 1
    first, second = (layer.self_attn for layer in model.model.layers)
    # Query heads 0 and 1 share a key head, and so do 2 and 3.
    look_back(first, query_head=0, key_head=0, by=2)
    look_back(first, query_head=2, key_head=1, by=1)
    copy(first, query_head=0, key_head=0, source=LETTER, target=TWO_BACK)
    copy(first, query_head=2, key_head=1, source=LETTER, target=ONE_BACK)
    eye = torch.eye(8)
    second.q_proj.weight[STILL, ONE_BACK] = SHARP * eye
    second.k_proj.weight[STILL, TWO_BACK] = SHARP * eye
    copy(second, query_head=0, key_head=0, source=DIGIT, target=ANSWER)
    return Opened(model, tokenizer(), "planted", {})


def look_back(attention, query_head: int, key_head: int, by: int) -> None:
    """Attention to the token so many places back: turned pairs meet there."""
    angle = torch.tensor(float(by))
    rows = [query_head * D_HEAD + TURNING, query_head * D_HEAD + TURNING + D_HEAD // 2]
    attention.q_proj.weight[rows[0], CONSTANT] = SHARP * torch.cos(-angle)
    attention.q_proj.weight[rows[1], CONSTANT] = SHARP * torch.sin(-angle)
    attention.k_proj.weight[key_head * D_HEAD + TURNING, CONSTANT] = SHARP


def copy(attention, query_head: int, key_head: int, source: slice, target: slice) -> None:
    """What a head finds at `source` it adds at `target`."""
    eye = torch.eye(8)
    attention.v_proj.weight[key_head * D_HEAD : key_head * D_HEAD + 8, source] = eye
    attention.o_proj.weight[target, query_head * D_HEAD : query_head * D_HEAD + 8] = eye


def random_gemma(window: int = 9):
    """A Gemma 3 drawn at random: norms behind attention and MLPs, and windows that hide facts from two layers."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    shape = {"vocab_size": len(WORDS), "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": D_HEAD}
    model = Gemma3ForCausalLM(Gemma3TextConfig(**shape, **heads, sliding_window=window, layer_types=kinds))
    generator = torch.Generator().manual_seed(0)
    for parameter in model.requires_grad_(False).parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return Opened(model.eval(), tokenizer(), "gemma", {})
