"""Replacing the outputs of some heads at the last token: by the sentence's mean, or by another subject's outputs.

At the mean, heads carry nothing about the subject, and the loss shows what the answer needed from them. With another
subject's outputs (interchange, Geiger et al., 2021), the argument is exchanged. If MLPs apply a function to the heads'
outputs, they then add the other subject's answer. Both are judged on groups that chose nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hopscope.language.lens.ablation import Head, short
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import Number, over_needles
from hopscope_studies.recall_mechanisms.known import Prompts, ratio
from hopscope_studies.recall_mechanisms.parts import Instead, Recall, Wrote

LOST, EXCHANGED, BY_MLPS = range(3)
NAMES = ("lost", "exchanged", "by_mlps")


def replaced(lens: Lens, prompts: Prompts, sets: dict[str, list[Head]]) -> dict[str, Any]:
    """The three shares of every set: knowledge lost, way to the other's answer, and the MLPs' part of that way."""
    found, wholes, groups = [], [], []
    starts = torch.tensor([len(kept) for kept in prompts.kept]).cumsum(0).tolist()
    for recall, kept, end in zip(prompts.recalls, prompts.kept, starts, strict=True):
        start = end - len(kept)
        some = (~prompts.first[start:end]).nonzero()[:, 0]
        if len(some) < 2:
            continue
        one = Pairs(Recall(lens, recall.asks.rows(kept[some])))
        found.append(torch.stack([one.moved(heads) for heads in sets.values()], 1))
        wholes.append(one.whole)
        groups += [prompts.groups[start + i] for i in some.tolist()]
    return reported(torch.cat(found), torch.cat(wholes), groups, sets)


class Pairs:
    """Each fact of a sentence paired with the next one, whose subject is put in."""

    def __init__(self, recall: Recall):
        self.recall = recall
        self.other = torch.arange(len(recall.asks.groups)).roll(1)
        answers = recall.asks.answers
        self.between = recall.unembedding[answers] - recall.unembedding[answers[self.other]]
        self.now = self.numbers(recall.wrote)
        self.then = self.numbers(at(recall.wrote, self.other))

    @property
    def whole(self) -> Tensor:
        """The whole of each share: the knowledge, and both distances to the other subject's run; shape (fact, 3)."""
        return torch.stack([self.now[:, LOST], *(self.now - self.then)[:, 1:].unbind(1)], 1)

    def numbers(self, wrote: Wrote) -> Tensor:
        """The answer's share among its kind, and its share against the paired answer in all and by MLPs; (fact, 3)."""
        shares = self.recall.shares(wrote, self.between)
        known = self.recall.shares(wrote, self.recall.answer_among_its_kind).total
        return torch.stack([known, shares.total, shares.mlps.sum(1)], 1)

    def moved(self, heads: list[Head]) -> Tensor:
        """By how much these three numbers fall with a set of heads changed; shape (fact, 3)."""
        z = self.recall.wrote.z
        mean = self.recall.run(Instead(heads, z.mean(0, keepdim=True).expand_as(z)))
        other = self.recall.run(Instead(heads, z[self.other]))
        return torch.cat([(self.now - self.numbers(mean))[:, :1], (self.now - self.numbers(other))[:, 1:]], 1)


def at(wrote: Wrote, rows: Tensor) -> Wrote:
    """The same outputs for other facts."""
    return Wrote(wrote.z[rows], wrote.looks[rows], wrote.mlps[rows], wrote.streams[rows])


def reported(moved: Tensor, whole: Tensor, groups: list[int], sets: dict[str, list[Head]]) -> dict[str, Any]:
    """Shares with intervals, and by how much both chosen sets exceed the best random set of each kind.

    Args:
        moved: prompt set 3.
        whole: prompt 3.
        groups: the groups of prompts.
        sets: the sets of heads, in the order of `moved`.
    """
    names = list(sets)

    def share(number: int, kind: int) -> Number:
        return over_needles(ratio(0, 1), torch.stack([moved[:, number, kind], whole[:, kind]], 1), groups)

    def beyond(set: str, control: str, kind: int) -> Number:
        rivals = [i for i, name in enumerate(names) if name.startswith(f"{control} ")]
        rows = torch.cat([moved[:, [names.index(set), *rivals], kind], whole[:, [kind]]], 1)
        return over_needles(lambda means: (means[:, 0] - means[:, 1:-1].max(1).values) / means[:, -1], rows, groups)

    return {
        "prompts": len(groups),
        "sets": [
            {"set": name, "heads": [short(head) for head in sets[name]]}
            | {word: share(i, kind) for kind, word in enumerate(NAMES)}
            for i, name in enumerate(names)
        ],
        "beyond": {
            f"{set} over {control}": {word: beyond(set, control, kind) for kind, word in enumerate(NAMES)}
            for set in ("topic", "answer") for control in ("random", "same layers")
        },
    }  # fmt: skip
