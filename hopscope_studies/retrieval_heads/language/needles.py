"""Needles in hay: an invented sentence somewhere in plain text, and a question that asks for it.

The form is that of Wu et al. (2024, arXiv:2404.15574, section 2, and their code): context, then "Based on the content
of the book, Question: … Answer:", within the chat template where a model has one. Hay, needles and questions are ours.
Below, the *needle* is the part of the sentence that answers the question.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.language.layouts.base import in_template
from hopscope.language.lens import filler

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)  # position in the hay, as a share of its sentences
HAY = (10, 18, 26)  # sentences of hay; about 200, 310 and 420 tokens with the question


@dataclass(frozen=True)
class Needle:
    """An invented fact.

    Attributes:
        sentence: the sentence in the hay.
        question: the question that asks for it.
        stem: the beginning of a full sentence that answers it.
        answer: the needle, with which both this sentence and the one in the hay end.
    """

    sentence: str
    question: str
    stem: str
    answer: str


@dataclass(frozen=True)
class Ask:
    """A needle in hay as given to a model.

    Attributes:
        text: context and question.
        ids: the tokens of the text; position.
        place: the needle's positions in the text.
        stem: the tokens with which a given answer begins.
        answer: the tokens of the needle, the same as in the text.
        needle: the needle's index.
        depth: its position in the hay, 0–1.
        hay: the number of sentences around it.
        words: the answer as text.
        aside: the tokens of the hay alone; position.
        after: the tokens of one more sentence of hay, which follows it.
    """

    text: str
    ids: Tensor
    place: slice
    stem: list[int]
    answer: list[int]
    needle: int
    depth: float
    hay: int
    words: str
    aside: Tensor
    after: list[int]


def needles(seed: int, count: int) -> list[Needle]:
    """Different facts. Raises BadInput for more than 1,000."""
    if not 2 <= count <= 1000:
        raise BadInput(f"count must be from 2 to 1000 needles; got {count}")
    dice = random.Random(seed)
    found: dict[str, Needle] = {}
    while len(found) < count:
        one = written(dice)
        found.setdefault(one.answer, one)
    return list(found.values())


def written(dice: random.Random) -> Needle:
    """A random fact and a question about it, as a needle."""
    day, who, place = (dice.choice(words) for words in (filler.DAYS, filler.PEOPLE, filler.PLACES))
    does, says = dice.choice(filler.VERBS)
    things = " ".join(dice.choice(words) for words in (filler.NUMBERS, filler.KINDS, filler.THINGS, filler.WHERE))
    answer = f"{things} the {dice.choice(filler.LOOKS)} {dice.choice(filler.SPOTS)}"
    return Needle(
        f"Every {day} the {who} of {place} {says} {answer}.",
        f"What does the {who} of {place} {does} every {day}, and where?",
        f"The {who} of {place} {says}",
        answer,
    )


def asks(tokenizer: Any, seed: int, count: int) -> list[Ask]:
    """Every needle at every depth, without those whose tokens differ between hay and answer.

    Args:
        tokenizer: a fast tokenizer.
        seed: the seed of needles and hay.
        count: the number of needles.

    Raises:
        BadInput: the tokenizer does not give the positions of tokens in the text, or splits most needles differently
        when they are the answer.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise BadInput("needles need a fast tokenizer, which tells where in the text a token stands")
    found = [ask for ask in every(tokenizer, seed, count) if ask is not None]
    if len({ask.needle for ask in found}) < max(2, count // 2):
        raise BadInput(f"only {len(found)} of {count * len(DEPTHS)} needles are the same tokens in hay and answer")
    return found


def every(tokenizer: Any, seed: int, count: int) -> Iterator[Ask | None]:
    """All needles at all depths, each in its own hay."""
    for number, needle in enumerate(needles(seed, count)):
        for at, depth in enumerate(DEPTHS):
            dice = random.Random(f"{seed} {number} {at}")
            size = HAY[(number + at) % len(HAY)]
            *hay, after = dice.sample(filler.SENTENCES, size + 1)
            yield encoded(tokenizer, needle, number, depth, hay, after)


def buried(sentence: str, hay: Sequence[str], depth: float) -> str:
    """A sentence at a depth of the hay, between sentences."""
    at = round(depth * len(hay))
    return " ".join([*hay[:at], sentence, *hay[at:]])


def encoded(tokenizer: Any, needle: Needle, number: int, depth: float, hay: Sequence[str], after: str) -> Ask | None:
    """The text as tokens; None if the answer's tokens are not those of the needle."""
    text = put(tokenizer, buried(needle.sentence, hay, depth), needle.question)
    read = tokens(tokenizer, text, return_offsets_mapping=True)
    first = text.index(needle.answer)
    inside = [i for i, (a, b) in enumerate(read["offset_mapping"]) if a < first + len(needle.answer) and b > first]
    place, begun = slice(inside[0], inside[-1] + 1), text + ("" if tokenizer.chat_template else " ") + needle.stem
    answer = continuation(tokenizer, begun, f" {needle.answer}")
    if read["input_ids"][place] != answer:
        return None
    stem, plain = continuation(tokenizer, text, begun[len(text) :]), " ".join(hay)
    return Ask(
        *(text, torch.tensor(read["input_ids"]), place, stem, answer, number, depth, len(hay), needle.answer),
        torch.tensor(tokenizer(plain)["input_ids"]),
        tokenizer(f"{plain} {after}")["input_ids"][len(tokenizer(plain)["input_ids"]) :],
    )


def put(tokenizer: Any, context: str, question: str) -> str:
    """Context and question, in the paper's words."""
    asked = f"Based on the content of the book, Question: {question}\nAnswer:"
    if not tokenizer.chat_template:
        return f"{context}\n{asked}"
    return in_template(tokenizer, f"<book>{context}</book>\n{asked}")


def tokens(tokenizer: Any, text: str, **more: Any) -> Any:
    """A text as tokens; a chat template has its own first token."""
    return tokenizer(text, add_special_tokens=not tokenizer.chat_template, **more)


def continuation(tokenizer: Any, text: str, more: str) -> list[int]:
    """The tokens that further text adds."""
    start = len(tokens(tokenizer, text)["input_ids"])
    whole: list[int] = tokens(tokenizer, text + more)["input_ids"]
    return whole[start:]
