"""The prompts that count, those for which the model's likeliest word is right, divided into two halves by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import Number, over_needles
from hopscope_studies.recall_mechanisms.parts import Recall, Shares
from hopscope_studies.recall_mechanisms.prompts import Asks


@dataclass
class Prompts:
    """All prompts that count, concatenated; the first axis of tensors is the prompt.

    Attributes:
        recalls: the model on each sentence.
        kept: which facts of each sentence count.
        groups: the number of each prompt's group.
        first: whether its group is in the half that chooses.
    """

    recalls: list[Recall]
    kept: list[Tensor]
    groups: list[int]
    first: Tensor
    topic: Shares = field(init=False)
    fact: Shares = field(init=False)
    answer: Shares = field(init=False)

    def __post_init__(self) -> None:
        self.topic = self.shares(lambda one: one.subject_among_its_kind)
        self.fact = self.shares(lambda one: one.answer_among_its_kind)
        self.answer = self.shares(lambda one: one.answer)

    def gather(self, of: Callable[[Recall], Tensor]) -> Tensor:
        """A quantity of every prompt that counts."""
        return torch.cat([of(one)[kept] for one, kept in zip(self.recalls, self.kept, strict=True)])

    def shares(self, direction: Callable[[Recall], Tensor]) -> Shares:
        """The additions of all parts along a direction, for every prompt that counts."""
        found = [one.shares(one.wrote, direction(one)) for one in self.recalls]
        parts = ("embedding", "heads", "mlps")
        return Shares(
            *(
                torch.cat([getattr(one, part)[kept] for one, kept in zip(found, self.kept, strict=True)])
                for part in parts
            )
        )

    @property
    def batches(self) -> Tensor:
        """The index of each prompt's sentence."""
        return torch.cat([torch.full((len(kept),), number) for number, kept in enumerate(self.kept)])

    def judged(self, values: Tensor, of: Callable[[Tensor], Tensor] = lambda means: means) -> Number:
        """A statistic of means over prompts of the second half."""
        return over_needles(of, values[~self.first], self.groups_where(~self.first))

    def all(self, values: Tensor, of: Callable[[Tensor], Tensor] = lambda means: means) -> Number:
        """A statistic of means over all prompts."""
        return over_needles(of, values, self.groups)

    def groups_where(self, some: Tensor) -> list[int]:
        """The groups of some prompts."""
        return [group for group, there in zip(self.groups, some.tolist(), strict=True) if there]


def counted(lens: Lens, asks: Sequence[Asks], seed: int, all_count: bool) -> tuple[Prompts, list[dict[str, Any]]]:
    """The prompts that count, and how many of each sentence's are answered right."""
    names = sorted({group for one in asks for group in one.groups})
    order = torch.randperm(len(names), generator=generator(seed, "halves")).tolist()
    number = {name: order[i] for i, name in enumerate(names)}
    recalls = [Recall(lens, one) for one in asks]
    right = [one.logits(one.wrote.streams[:, -1]).argmax(-1) == one.asks.answers for one in recalls]
    kept = [(torch.ones_like(there) if all_count else there).nonzero()[:, 0] for there in right]
    groups = [number[one.groups[i]] for one, some in zip(asks, kept, strict=True) for i in some.tolist()]
    first = torch.tensor([group < len(names) / 2 for group in groups])
    if min(int(first.sum()), int((~first).sum())) < 2:
        raise BadInput(f"{lens.name} answers {len(groups)} prompts rightly, too few to halve; choose another model")
    known = [
        {"relation": one.relation, "sentence": one.sentence, "right": int(there.sum()), "asked": len(there)}
        for one, there in zip(asks, right, strict=True)
    ]
    return Prompts(recalls, kept, groups, first), known


def ratio(part: int, whole: int = 0) -> Callable[[Tensor], Tensor]:
    """The ratio of two means."""
    return lambda means: means[:, part] / means[:, whole]
