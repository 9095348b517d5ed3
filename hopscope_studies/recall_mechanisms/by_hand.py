"""A hand-set Llama that recalls facts as the paper describes: the positive control.

Head 0 of layer 0, the topic head, attends to the subject and copies it. The MLP of layer 0 is a memory: a neuron per
fact reads that subject and writes its answer (Geva et al., 2021). The MLP of layer 1 reads the answer and subtracts
half of it: the last layer's suppression. The other heads do nothing.
"""

from __future__ import annotations

from typing import Any

import torch

from hopscope.language.checkpoints import Opened
from hopscope.language.lens.ablation import Head
from hopscope.language.lens.by_hand import CODE, CONSTANT, D_HEAD, SHARP, STILL, WIDTH, blank, move, one_per_word
from hopscope_studies.recall_mechanisms.words import RELATIONS, Fact

KINDS = ("capital", "opposite")  # no subject is in both
COUNT = 12  # facts of each kind
TOPIC: Head = (0, 0)
WRITTEN, TAKEN = 1.0, 0.5  # length of the first MLP's output; share of it that the second subtracts
LOUD, SOFT = 1.0, 0.25  # strengths with which the unembedding reads the answer and the subject
SUBJECT, OTHER = 1, -1  # dimensions that mark subjects, and all other words
OWN, FOUND, ANSWER = (slice(4 + CODE * i, 4 + CODE * (i + 1)) for i in range(3))


def facts() -> list[Fact]:
    """All facts that the model knows."""
    return [fact for name in KINDS for fact in RELATIONS[name].facts[:COUNT]]


def names() -> list[str]:
    """All words of its sentences, subjects and answers first."""
    known = [word for fact in facts() for word in (fact.subject, fact.answer)]
    said = [word.strip(",") for name in KINDS for sentence in RELATIONS[name].sentences for word in sentence.split()]
    return ["<unk>", ",", *dict.fromkeys([*known, *(word for word in said if word != "{}")])]


def by_hand() -> Opened:
    """The model with its tokenizer."""
    words, known = names(), facts()
    model = blank(len(words), len(known))
    codes = torch.eye(CODE)[: len(words)]
    embed(model, words, codes)
    first, second = model.model.layers
    look_at_subject(first.self_attn)
    move(first.self_attn, TOPIC[1], OWN, FOUND)
    subjects, answers = ([words.index(word) for word in some] for some in zip(*pairs(known), strict=True))
    remember(first.mlp, FOUND, codes[subjects], WRITTEN * codes[answers], squares=4)
    remember(second.mlp, ANSWER, codes[answers], -TAKEN * codes[answers], squares=4 + WRITTEN**2)
    return Opened(model, one_per_word(words), "by hand", {})


def pairs(known: list[Fact]) -> list[tuple[str, str]]:
    """Subjects and answers."""
    return [(fact.subject, fact.answer) for fact in known]


def embed(model: Any, words: list[str], codes: torch.Tensor) -> None:
    """A direction per word; embeddings have the norm √3. Subjects are also read, weakly, where the head writes them."""
    embedding, read = model.model.embed_tokens.weight, model.lm_head.weight
    asked = [words.index(fact.subject) for fact in facts()]
    embedding[:, CONSTANT], embedding[:, OWN], embedding[:, OTHER] = 1, codes, 1
    embedding[asked, OTHER], embedding[asked, SUBJECT] = 0, 1
    read[:, ANSWER] = LOUD * codes
    read[asked, FOUND] = SOFT * codes[asked]


def look_at_subject(attention: Any) -> None:
    """Make every later position attend only to the subject."""
    row = TOPIC[1] * D_HEAD + STILL
    attention.q_proj.weight[row, CONSTANT], attention.k_proj.weight[row, SUBJECT] = 5 * SHARP, 5 * SHARP


def remember(mlp: Any, source: slice, read: torch.Tensor, written: torch.Tensor, squares: float) -> None:
    """A neuron per fact with an open gate: for a code of length 1 at `source` it writes the whole answer.

    Args:
        mlp: the MLP of a layer.
        source: the dimensions that it reads.
        read: the code that each neuron reads, of length 1; neuron code.
        written: the code that it writes at `ANSWER`; neuron code.
        squares: the squared length of the stream, which the norm before the MLP scales to √width.
    """
    loud = torch.tensor((WIDTH / squares) ** 0.5)
    mlp.gate_proj.weight[:, CONSTANT] = SHARP
    mlp.up_proj.weight[:, source] = read
    mlp.down_proj.weight[ANSWER] = (written / (torch.nn.functional.silu(SHARP * loud) * loud)).T
