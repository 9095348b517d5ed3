"""Facts as tokens: one batch per sentence, all of the same length, so that no padding is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope_studies.recall_mechanisms.words import RELATIONS, Fact

LEAST = 4  # facts that a relation must have to be halved


@dataclass(frozen=True)
class Asks:
    """One sentence with each subject of a relation.

    Attributes:
        relation: its name.
        sentence: the sentence, with `{}` for the subject.
        groups: the group of each fact.
        ids: the tokens; the answer follows the last one; fact position.
        subject_at: the subject's position.
        subjects: the subject's token; shape (fact).
        answers: the answer's token; shape (fact).
        topics: the tokens of all subjects of the relation.
        choices: the tokens of all its answers.
    """

    relation: str
    sentence: str
    groups: list[str]
    ids: Tensor
    subject_at: int
    subjects: Tensor
    answers: Tensor
    topics: Tensor
    choices: Tensor

    def rows(self, some: Tensor) -> Asks:
        """Some of the facts, by index; topics and choices stay the same."""
        return replace(
            self,
            groups=[self.groups[i] for i in some.tolist()],
            ids=self.ids[some],
            subjects=self.subjects[some],
            answers=self.answers[some],
        )


def token(tokenizer: Any, word: str) -> int | None:
    """The token of a word after a space; None if the word is several tokens or unknown."""
    found: list[int] = tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
    return found[0] if len(found) == 1 and found[0] != tokenizer.unk_token_id else None


def fitting(tokenizer: Any, facts: Sequence[Fact], count: int = 0) -> list[Fact]:
    """The facts whose subject and answer are one token each, at most `count` of them unless `count` is 0."""
    kept = [fact for fact in facts if None not in (token(tokenizer, fact.subject), token(tokenizer, fact.answer))]
    return kept[: count or None]


def asks_of(tokenizer: Any, relation: str, count: int = 0) -> list[Asks]:
    """A batch per sentence of a relation. Raises BadInput if it is unknown, or its facts are not single tokens."""
    if relation not in RELATIONS:
        raise BadInput(f"there is no relation {relation!r}; choose among {', '.join(RELATIONS)}")
    facts = fitting(tokenizer, RELATIONS[relation].facts, count)
    if len(facts) < LEAST:
        raise BadInput(f"of {relation} this model's tokens hold {len(facts)} facts; choose a model with whole words")
    subjects, answers = (torch.tensor([token(tokenizer, word) for word in words]) for words in named(facts))
    return [
        Asks(
            relation,
            sentence,
            [fact.group for fact in facts],
            ids := encoded(tokenizer, sentence, facts),
            int((ids[0] == subjects[0]).nonzero()[-1]),
            subjects,
            answers,
            subjects.unique(),
            answers.unique(),
        )
        for sentence in RELATIONS[relation].sentences
    ]


def named(facts: Sequence[Fact]) -> tuple[list[str], list[str]]:
    """The subjects, and the answers."""
    return [fact.subject for fact in facts], [fact.answer for fact in facts]


def encoded(tokenizer: Any, sentence: str, facts: Sequence[Fact]) -> Tensor:
    """The tokens of a sentence with each subject; shape (fact, position)."""
    rows = [tokenizer(sentence.format(fact.subject))["input_ids"] for fact in facts]
    if len({len(row) for row in rows}) > 1:
        raise BadInput(f"{sentence!r} has not the same number of tokens with every subject; write the subject within")
    return torch.tensor(rows)
