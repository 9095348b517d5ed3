"""The cost of masking heads while an answer is generated, compared with random sets; several sets run at once.

The authors' code sets a masked head's scores to 0 before the softmax, so that it attends uniformly to all earlier
positions, from the prompt's last token on (needle_in_haystack_with_mask.py; arXiv:2404.15574, section 4). Earlier
activations are unchanged. `zero` sets the head's output to zero instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hopscope.language.lens.ablation import Head, in_same_layers, random_heads, short, top_heads
from hopscope.language.lens.attention import Edit, Lens
from hopscope.language.lens.estimates import beyond, mean_of
from hopscope_studies.retrieval_heads.language.needles import Ask
from hopscope_studies.retrieval_heads.language.scores import ENOUGH, Begun, forced, free, recall

SIZES = (1, 4, 8, 16)  # heads that are masked together, if that is at most half of all
MAIN = 8  # the size for the other measurements, or the largest of `SIZES` that is used
DRAWS = 10  # random sets of each size
ROWS = 12  # sets in a batch


class Masked(Edit):
    """Sets of masked heads, each in its own row of the batch.

    Args:
        sets: the heads for each row of the batch.
        lens: the model.
        zero: whether their output is 0, instead of uniform attention.
    """

    def __init__(self, sets: Sequence[Collection[Head]], lens: Lens, zero: bool = False):
        self.zero = zero
        self.gone = torch.zeros(lens.n_layers, len(sets), lens.n_heads, dtype=torch.bool)
        for row, heads in enumerate(sets):
            for layer, head in heads:
                self.gone[layer, row, head] = True

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        if self.zero or not self.gone[layer].any():
            return pattern
        n_queries, n_keys = pattern.shape[-2:]
        seen = torch.ones(n_queries, n_keys).tril(n_keys - n_queries)
        even = (seen / seen.sum(-1, keepdim=True)).to(pattern.dtype)
        return torch.where(self.gone[layer][:, :, None, None], even, pattern)

    def output(self, layer: int, z: Tensor) -> Tensor:
        return torch.where(self.gone[layer][:, None, :, None], 0.0, z) if self.zero else z


class Masks:
    """The effects of masking sets of heads, on questions that did not choose them.

    Args:
        lens: the model.
        ends: tokens that end an answer.
        seed: the seed of random sets.
        scores: the scores by which retrieval heads are chosen; shape (layer, head).
        induction: induction scores; shape (layer, head).
    """

    def __init__(self, lens: Lens, ends: set[int], seed: int, scores: Tensor, induction: Tensor):
        self.lens, self.ends, heads = lens, ends, lens.heads
        self.sets: dict[str, list[Head]] = {"none": []}
        sizes = [size for size in SIZES if size <= len(heads) // 2]
        self.size = max(size for size in sizes if size <= MAIN)
        for size in sizes:
            top = top_heads(scores, size)
            self.sets[f"retrieval {size}"] = top
            others = [head for head in heads if head not in top]
            self.sets |= {
                f"random {size} {draw}": random_heads(others, size, 100 * seed + draw) for draw in range(DRAWS)
            }
        self.main = self.sets[f"retrieval {self.size}"]
        for draw in range(DRAWS):
            self.sets[f"same layers {self.size} {draw}"] = in_same_layers(self.main, heads, 100 * seed + draw)
        self.sets[f"induction {self.size}"] = top_heads(induction, self.size)
        self.found: dict[str, list[dict[str, float]]] = {"log_p": [], "zeroed": [], "aside": [], "answered": []}

    @cached_property
    def few(self) -> dict[str, list[Head]]:
        """No heads, the main set, and as many random ones."""
        wanted = ("none", f"retrieval {self.size}", f"random {self.size} ")
        return {name: heads for name, heads in self.sets.items() if name.startswith(wanted)}

    def measure(self, ask: Ask, begun: Begun) -> None:
        """One question: the needle's log-probability, also with outputs at zero; plain text; the free answer."""
        lens = self.lens
        self.found["log_p"].append(told(begun, ask.stem, ask.answer, self.sets, lens))
        self.found["zeroed"].append(told(begun, ask.stem, ask.answer, self.few, lens, zero=True))
        self.found["aside"].append(told(Begun.of(lens, ask.aside), [], ask.after, self.few, lens))
        texts = free(begun, self.ends, Masked(list(self.few.values()), lens), len(self.few))
        said = [recall(ask.words, lens.tokenizer.decode(text)) for text in texts]
        self.found["answered"].append(dict(zip(self.few, (float(one > ENOUGH) for one in said), strict=True)))

    def report(self, needles: Sequence[int]) -> dict[str, Any]:
        """For each measure the loss (nats, or a share of questions) with each set masked; and the heads."""
        return {
            "heads": {name: [short(head) for head in heads] for name, heads in self.sets.items()},
            **{name: losses(rows, needles) for name, rows in self.found.items()},
        }


def told(
    begun: Begun,
    stem: Sequence[int],
    answer: Sequence[int],
    sets: dict[str, list[Head]],
    lens: Lens,
    zero: bool = False,
) -> dict[str, float]:
    """The log-probability of an answer with each set masked."""
    names = list(sets)
    found: list[float] = []
    for start in range(0, len(names), ROWS):
        some = [sets[name] for name in names[start : start + ROWS]]
        found += forced(begun, stem, answer, Masked(some, lens, zero), len(some)).tolist()
    return dict(zip(names, found, strict=True))


def losses(rows: Sequence[dict[str, float]], needles: Sequence[int]) -> list[dict[str, Any]]:
    """For each set the loss compared with no mask, and for chosen sets the loss beyond the worst random set."""
    whole = torch.tensor([row["none"] for row in rows])
    lost = {name: whole - torch.tensor([row[name] for row in rows]) for name in rows[0]}
    found: list[dict[str, Any]] = [{"set": "none", "kept": mean_of(whole, needles)}]
    for name, values in lost.items():
        kind, _, size = name.partition(" ")
        one: dict[str, Any] = {"set": name, "lost": mean_of(values, needles)}
        if kind == "retrieval":
            for control in (f"random {size}", f"same layers {size}"):
                if beside := [some for which, some in lost.items() if which.startswith(f"{control} ")]:
                    one[f"beyond {control.rpartition(' ')[0]}"] = beyond(values, beside, needles)
        found += [] if name == "none" else [one]
    return found
