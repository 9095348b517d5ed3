"""A Llama with hand-set weights in which one head retrieves needles with a score of 1: the positive control.

Heads 0 and 1 of layer 0 attend to the previous token and to the one before it. Head 0 of layer 1 attends to the
position that follows an earlier occurrence of the last two tokens, and copies the token there, as an induction head
does. At a colon it attends to the token after a needle's verb. Nothing else has an effect. The vocabulary has the words
of needles and hay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from hopscope.language.checkpoints import Opened
from hopscope.language.lens import filler
from hopscope.language.lens.ablation import Head

COPIES: Head = (1, 0)  # the head that copies
CODE = 128  # dimensions of a word's code, of ±1 over √128 each
CONSTANT, VERB, COLON, VERB_BEFORE = range(4)
OWN, BEFORE, SECOND, ANSWER = (slice(4 + CODE * i, 4 + CODE * (i + 1)) for i in range(4))
WIDTH, D_HEAD = 4 + 4 * CODE + 4, 4 * CODE
SHARP = 3.0
QUIET = (3 / WIDTH) ** 0.5  # undoes the norm before layer 0, so that a copied code has its original length
THETA = 1e16
TURNING, STILL = 40, D_HEAD // 4  # a head's first pairs rotate by 1 to 0.004 rad per token; those from STILL hardly do


def words() -> list[str]:
    """All words of needles, questions and hay."""
    texts = [*filler.SENTENCES, "Based on the content of the book, Question: What does and where? Answer: Every The"]
    parts: list[tuple[str, ...]] = [filler.DAYS, filler.PEOPLE, filler.PLACES, *filler.VERBS, filler.NUMBERS]
    parts += [filler.KINDS, filler.THINGS, filler.WHERE, filler.LOOKS, filler.SPOTS]
    texts += [word for part in parts for word in part]
    return ["<unk>", "<s>", "\n", *sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text)})]


def tokenizer() -> Any:
    """A tokenizer of these words, with a start token before every text."""
    from tokenizers import processors

    made = one_per_word(words(), "<s>")
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


def one_per_word(names: Sequence[str], start: str | None = None) -> Any:
    """A tokenizer with one token per word and punctuation mark; the first is the unknown token."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(names)}, names[0]))
    split = pre_tokenizers.Split(Regex(r"\n|\w+|[^\w\s]"), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.Split(Regex(r" +"), "removed")])
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token=names[0], bos_token=start)


def blank(n_words: int, d_mlp: int = 8) -> Any:
    """A Llama of two layers of two heads; all weights except those of norms are zero."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=n_words,
        hidden_size=WIDTH,
        intermediate_size=d_mlp,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=D_HEAD,
        rope_parameters={"rope_theta": THETA, "rope_type": "default"},
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.zero_()
    return model


def by_hand() -> Opened:
    """The model with its tokenizer."""
    names = words()
    model = blank(len(names))
    embed(model, names)
    first, second = (layer.self_attn for layer in model.model.layers)
    for head, register in enumerate((BEFORE, SECOND)):
        look_back(first, head, head + 1)
        move(first, head, OWN, register)
    first.v_proj.weight[CODE, VERB] = 1
    first.o_proj.weight[VERB_BEFORE, CODE] = QUIET
    match(second)
    move(second, COPIES[1], OWN, ANSWER)
    return Opened(model, tokenizer(), "by hand", {})


def embed(model: Any, names: list[str]) -> None:
    """Embed words as codes, and decode the register of answers; all embeddings have the same norm."""
    codes = torch.randn(len(names), CODE, generator=torch.Generator().manual_seed(0)).sign() / CODE**0.5
    embedding = model.model.embed_tokens.weight
    embedding[:, CONSTANT] = 1
    embedding[:, OWN] = codes
    verbs = {said for _, said in filler.VERBS}
    for number, word in enumerate(names):
        embedding[number, VERB] = float(word in verbs)
        embedding[number, COLON] = float(word == ":")
        embedding[number, -1] = float(word not in verbs and word != ":")
    model.lm_head.weight[:, ANSWER] = 20 * codes


def look_back(attention: Any, head: int, by: int) -> None:
    """Let a head attend to the token `by` positions back, at which rotated pairs of all frequencies align."""
    pairs = torch.arange(TURNING)
    angles, rows = by * THETA ** (-2.0 * pairs / D_HEAD), head * D_HEAD + pairs
    attention.q_proj.weight[rows, CONSTANT] = SHARP * angles.cos()
    attention.q_proj.weight[rows + D_HEAD // 2, CONSTANT] = -SHARP * angles.sin()
    attention.k_proj.weight[rows, CONSTANT] = SHARP


def move(attention: Any, head: int, source: slice, target: slice) -> None:
    """Let a head copy the register `source` of the attended position into `target`."""
    attention.v_proj.weight[head * D_HEAD : head * D_HEAD + CODE, source] = torch.eye(CODE)
    attention.o_proj.weight[target, head * D_HEAD : head * D_HEAD + CODE] = QUIET * torch.eye(CODE)


def match(attention: Any) -> None:
    """Match the last two tokens with the two tokens before each position, the last one with more weight.

    A colon matches positions after verbs, with still more weight.
    """
    query, key = attention.q_proj.weight, attention.k_proj.weight
    row = COPIES[1] * D_HEAD + STILL
    for start, asked, stored, loud in ((row, OWN, BEFORE, 2), (row + D_HEAD // 2, BEFORE, SECOND, 1)):
        query[start : start + CODE, asked] = loud * SHARP * torch.eye(CODE)
        key[start : start + CODE, stored] = SHARP * torch.eye(CODE)
    query[row - 1, COLON], key[row - 1, VERB_BEFORE] = 4 * SHARP, SHARP
