"""Demonstrations, one a line (`otter: animal`), with true labels and with false ones.

After Halawi et al. (2023, arXiv:2307.09476, section 2). The last lines of a text are asked: which label follows the
colon, given all lines before? So each text is several questions, each with one demonstration more than the last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope_studies.overthinking.words import SETS

ITEMS = 20  # lines of a text
PLACES = 6  # last lines that are asked
KINDS = ("true", "permuted", "half", "random")
N_LABELS = 3


@dataclass(frozen=True)
class Words:
    """The words of the texts, without labels.

    Attributes:
        name: the name of the set.
        words: the words; shape (text, line).
        classes: the index of each word's own label; shape (text, line).
        seed: the seed of labels that are drawn.
    """

    name: str
    words: list[list[str]]
    classes: Tensor
    seed: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(SETS[self.name])

    @property
    def asked(self) -> Tensor:
        """The classes of the lines that are asked; shape (text, place)."""
        return self.classes[:, -PLACES:]

    def shown(self, kind: str) -> Tensor:
        """The index of the label that each line shows; shape (text, line).

        Args:
            kind: `true`; `permuted`, the label of the next class; `half`, each line is permuted or not, independently;
            `random`, any label.
        """
        drawn = generator(self.seed, f"labels {kind}")
        if kind == "random":
            return torch.randint(N_LABELS, self.classes.shape, generator=drawn)
        by = {"true": torch.tensor(0), "permuted": torch.tensor(1)}.get(kind)
        by = torch.randint(2, self.classes.shape, generator=drawn) if by is None else by
        return (self.classes + by) % N_LABELS

    def part(self, start: int, end: int) -> Words:
        """A range of the texts."""
        return replace(self, words=self.words[start:end], classes=self.classes[start:end])


def words_of(name: str, count: int, seed: int) -> Words:
    """Texts without repeated words; in each half of them every class is asked equally often at every line.

    Args:
        name: the name of the set of words.
        count: the number of texts, a multiple of six.
        seed: the seed of everything that is drawn.

    Raises:
        BadInput: there is no such set, or the texts cannot be halved in this way.
    """
    if name not in SETS:
        raise BadInput(f"there is no set of words {name!r}; choose {' or '.join(SETS)}")
    if count < 2 * N_LABELS or count % (2 * N_LABELS):
        raise BadInput(f"the number of texts must be a multiple of {2 * N_LABELS}; got {count}")
    drawn = generator(seed, f"words {name}")
    even = torch.arange(count // 2) % N_LABELS
    columns = [torch.cat([even[torch.randperm(len(even), generator=drawn)] for _ in range(2)]) for _ in range(ITEMS)]
    classes = torch.stack(columns, 1)
    words = []
    for row in classes.tolist():
        left = [[some[i] for i in torch.randperm(len(some), generator=drawn)] for some in SETS[name].values()]
        words.append([left[number].pop() for number in row])
    return Words(name, words, classes, seed)


@dataclass(frozen=True)
class Texts:
    """Texts as tokens; shorter ones are padded at the end, where no measured position sees the padding.

    Attributes:
        ids: text position.
        label_at: the position at which each line's label begins; shape (text, line).
        label_ids: first token of each label.
        first: the first text.
        tokens: the numbers of tokens of the shortest and the longest text.
    """

    ids: Tensor
    label_at: Tensor
    label_ids: Tensor
    first: str
    tokens: tuple[int, int]

    @property
    def queries(self) -> Tensor:
        """The position before the label of each line that is asked; shape (text, place)."""
        return self.label_at[:, -PLACES:] - 1

    def rows(self, some: slice) -> Texts:
        """A range of the texts."""
        return replace(self, ids=self.ids[some], label_at=self.label_at[some])


def encoded(tokenizer: Any, words: Words, kind: str) -> Texts:
    """Texts with one kind of label. Raises BadInput if two labels begin with the same token."""
    ids, places, first = [], [], ""
    shown = words.shown(kind)
    for row, numbers in zip(words.words, shown.tolist(), strict=True):
        text, starts = written(row, [words.labels[number] for number in numbers])
        found = tokenizer(text, return_offsets_mapping=True)
        spans = found["offset_mapping"]
        places.append([next(i for i, (a, b) in enumerate(spans) if a <= start < b) for start in starts])
        ids.append(torch.tensor(found["input_ids"]))
        first = first or text
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    label_at = torch.tensor(places)
    lengths = [len(one) for one in ids]
    return Texts(padded, label_at, label_ids(padded, label_at, shown, words), first, (min(lengths), max(lengths)))


def written(words: list[str], labels: list[str]) -> tuple[str, list[int]]:
    """A text, and the character at which each of its labels begins."""
    text, starts = "", []
    for word, label in zip(words, labels, strict=True):
        text += f"{word}: "
        starts.append(len(text))
        text += f"{label}\n"
    return text.rstrip("\n"), starts


def label_ids(ids: Tensor, label_at: Tensor, shown: Tensor, words: Words) -> Tensor:
    """The token with which each label always begins. Raises BadInput if a label has no such token of its own."""
    begins = ids.gather(1, label_at)
    found = [set(begins[shown == number].tolist()) for number in range(N_LABELS)]
    if any(len(some) != 1 for some in found) or len(set.union(*found)) < N_LABELS:
        raise BadInput(f"in this model's tokens the labels {', '.join(words.labels)} do not begin differently")
    return torch.tensor([some.pop() for some in found])
