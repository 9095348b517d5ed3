"""A hand-set Llama that knows the true labels and follows false ones: the positive control.

Every word carries its class. Head 0 of layer 0 brings each colon the class of the word before it, and already writes
that class's own label into the answer at half strength. Head 1 brings each label the class of the word two before it.
Head 0 of layer 1 attends from a colon to labels after words of its class and copies them: a false induction head, with
a score of 1. The other head does nothing.
"""

from __future__ import annotations

from typing import Any

import torch

from hopscope.language.checkpoints import Opened
from hopscope.language.lens.ablation import Head
from hopscope.language.lens.by_hand import (
    CODE,
    CONSTANT,
    D_HEAD,
    QUIET,
    SHARP,
    STILL,
    blank,
    look_back,
    move,
    one_per_word,
)
from hopscope_studies.overthinking.words import SETS

COPIES: Head = (1, 0)  # the false induction head
SOFT = 0.5  # strength of the known label relative to the copied one
LABEL, OTHER = 1, -1  # dimensions that mark labels, and tokens that are neither label nor word
OWN, CLASS, FOUND, ANSWER = (slice(4 + CODE * i, 4 + CODE * (i + 1)) for i in range(4))


def names() -> list[str]:
    """All tokens of the texts."""
    kinds = [(label, *words) for kind in SETS.values() for label, words in kind.items()]
    return ["<unk>", "<s>", "\n", ":", *(word for some in kinds for word in some)]


def by_hand() -> Opened:
    """The model with its tokenizer."""
    model = blank(len(names()))
    embed(model)
    first, second = (layer.self_attn for layer in model.model.layers)
    for head in range(2):
        look_back(first, head, head + 1)
        move(first, head, CLASS, FOUND)
    first.o_proj.weight[ANSWER, :CODE] = SOFT * QUIET * torch.eye(CODE)
    match(second)
    move(second, COPIES[1], OWN, ANSWER)
    return Opened(model, one_per_word(names(), "<s>"), "by hand", {})


def embed(model: Any) -> None:
    """A label has its own code and a word that of its label; all embeddings have the same norm."""
    number = {name: i for i, name in enumerate(names())}
    embedding = model.model.embed_tokens.weight
    embedding[:, CONSTANT] = 1
    embedding[:, OTHER] = 2**0.5
    codes = torch.randn(len(number), CODE, generator=torch.Generator().manual_seed(0)).sign() / CODE**0.5
    for kind in SETS.values():
        for label, words in kind.items():
            at, members = number[label], [number[word] for word in words]
            embedding[at, OWN], embedding[members, CLASS] = codes[at], codes[at]
            embedding[[at, *members], OTHER], embedding[at, LABEL] = 0, 1
            embedding[members, LABEL + 1] = 1
            model.lm_head.weight[at, ANSWER] = 20 * codes[at]


def match(attention: Any) -> None:
    """Attend to labels only, and among them to those whose class is the colon's."""
    query, key = attention.q_proj.weight, attention.k_proj.weight
    row = COPIES[1] * D_HEAD + STILL
    query[row : row + CODE, FOUND] = SHARP * torch.eye(CODE)
    key[row : row + CODE, FOUND] = SHARP * torch.eye(CODE)
    query[row - 1, CONSTANT], key[row - 1, LABEL] = SHARP, SHARP
