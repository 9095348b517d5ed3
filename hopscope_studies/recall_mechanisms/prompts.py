"""Facts as token numbers: one batch per sentence, all of one length, so that nothing is filled up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope_studies.recall_mechanisms.words import RELATIONS, Fact

LEAST = 4  # facts of a relation without which nothing can be halved


@dataclass(frozen=True)
class Asks:
    """One sentence with each subject of a relation.

    Attributes:
        relation: its name.
        sentence: with `{}` for the subject.
        groups: what each fact is of.
        ids: tokens, of which the last one asks; fact position.
        subject_at: the subject's position.
        subjects: its token; fact.
        answers: the answer's token; fact.
        topics: the tokens of all subjects of the relation.
        choices: and of all answers.
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
        """Some of the facts, by their numbers; topics and choices stay."""
        return replace(
            self,
            groups=[self.groups[i] for i in some.tolist()],
            ids=self.ids[some],
            subjects=self.subjects[some],
            answers=self.answers[some],
        )


def token(tokenizer: Any, word: str) -> int | None:
    """The one token of a word behind a space; None where there are several, or it is not known."""
    found: list[int] = tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
    return found[0] if len(found) == 1 and found[0] != tokenizer.unk_token_id else None


def fitting(tokenizer: Any, facts: Sequence[Fact], count: int = 0) -> list[Fact]:
    """The facts whose subject and answer are one token each, at most `count` of them unless that is 0."""
    kept = [fact for fact in facts if None not in (token(tokenizer, fact.subject), token(tokenizer, fact.answer))]
    return kept[: count or None]


def asks_of(tokenizer: Any, relation: str, count: int = 0) -> list[Asks]:
    """A batch per sentence of a relation. Raises BadInput for one that is not there or not told in single tokens."""
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
    """Subjects, and answers."""
    return [fact.subject for fact in facts], [fact.answer for fact in facts]


def encoded(tokenizer: Any, sentence: str, facts: Sequence[Fact]) -> Tensor:
    """The tokens of a sentence with each subject; fact position."""
    rows = [tokenizer(sentence.format(fact.subject))["input_ids"] for fact in facts]
    if len({len(row) for row in rows}) > 1:
        raise BadInput(f"{sentence!r} has not the same number of tokens with every subject; write the subject within")
    return torch.tensor(rows)
