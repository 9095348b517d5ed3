"""What tests of heads share: questions about letters, a tokenizer that reads them, and small models drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hopscope.formulations.base import Formulation, Question, Span
from hopscope.problem.oracle import Fact, Problem

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
