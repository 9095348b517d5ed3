"""Answers of a language model on a list that is shown again in another order, with and without some heads.

After Mistry et al. (2025, arXiv:2502.06902; abstract alone, methods: our reading, as in `response`). Every list has the
same weight; intervals are from a bootstrap over lists. A head is silenced by setting its output to 0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.experiments.reports import Row, row
from hopscope.language.lens.ablation import Ablate, Head, in_same_layers, random_heads, short
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import mean_of, over_needles
from hopscope.language.lens.scores import repeated_tokens
from hopscope_studies.episodic_memory.response import GREATEST, Lists, asymmetry, contiguity, response_by_lag

PLACES = 16  # of a list, as in the toy study
DRAWS = 10  # random sets of heads beside the chosen ones, and sets of the same layers
AWAY = 10_000  # added to the seed: lists have other tokens than the sequences that choose heads
CONTROLS = ("random", "same layers")
MOST = 1e4  # contiguity is capped here
LAGS = [lag for lag in range(-GREATEST, GREATEST + 1) if lag]


def following(curve: dict[int, float]) -> float:
    """The CRP at lag +1: 1 if recall is even, 16 if every answer is at lag +1."""
    return curve[1]


MEASURES = {"contiguity": contiguity, "following": following}


class Answers:
    """A model's answers on the same lists.

    Args:
        lens: the model.
        count: number of lists.
        seed: the seed of tokens and orders.
    """

    def __init__(self, lens: Lens, count: int, seed: int):
        tokens = repeated_tokens(lens, AWAY + seed, count, PLACES)
        order = torch.rand(count, PLACES, generator=generator(seed, "order")).argsort(1)
        self.lens, self.shown = lens, Lists(tokens[:, 1 : PLACES + 1], order)
        self.streams = lens.streams(torch.cat([tokens[:, :1], self.shown.inputs], 1))[0]

    def by_lag(self, without: Sequence[Head] = ()) -> Tensor:
        """Probability by lag, −8 … −1 and 1 … 8, relative to its mean over lags; shape (list, lag)."""
        edit = Ablate(without)
        logits = self.lens.run(self.streams[edit.first], edit, edit.first, all_positions=True)
        probabilities = logits[:, PLACES + 1 :].softmax(-1)
        first, order = self.shown
        curves = [
            response_by_lag(probabilities[at : at + 1], Lists(first[at : at + 1], order[at : at + 1]))
            for at in range(len(first))
        ]
        return torch.tensor([[curve[lag] for lag in LAGS] for curve in curves])


def told(of: Callable[[dict[int, float]], float], curves: Tensor) -> Tensor:
    """A statistic of curves, taken over the last dimension, which is the lag."""
    flat = [min(of(dict(zip(LAGS, curve, strict=True))), MOST) for curve in curves.flatten(0, -2).tolist()]
    return torch.tensor(flat).view(curves.shape[:-1])


def left(of: Callable[[dict[int, float]], float], curves: Tensor) -> Tensor:
    """The remaining share of a statistic's excess over even recall; from (draw, set, lag) to (draw, set)."""
    above = told(of, curves) - 1
    return above[:, 1:] / above[:, :1]


def left_of_one(of: Callable[[dict[int, float]], float], curves: Tensor) -> Tensor:
    """As `left`, for a single set of heads; shape (draw)."""
    return left(of, curves)[:, 0]


def answer_rows(lens: Lens, count: int, seed: int, chosen: dict[str, list[Head]], brief: bool) -> Iterator[Row]:
    """Rows on the contiguity of the whole model's answers and, unless `brief`, on what remains without heads."""
    answers = Answers(lens, count, seed)
    whole, lists = answers.by_lag(), range(count)
    yield row("asks", "lists", count)
    yield row("asks", "places of a list", PLACES)
    yield from (row("answers by lag", "whole", mean_of(whole[:, at], lists), step=lag) for at, lag in enumerate(LAGS))
    for name, of in (*MEASURES.items(), ("asymmetry", asymmetry)):
        yield row(name, "whole", over_needles(functools.partial(told, of), whole, lists))
    if not brief:
        sets = silenced(lens, seed, chosen)
        found = {name: answers.by_lag(heads) for name, heads in sets.items()}
        for name, heads in sets.items():
            other = " ".join(map(short, heads))
            yield from ({**one, "other": other} for one in set_rows(name, whole, found[name]))
        yield from compared(whole, found, list(chosen))


def set_rows(name: str, whole: Tensor, curves: Tensor) -> Iterator[Row]:
    """Rows on answers without a set of heads, and on the remaining share of the whole model's contiguity."""
    lists, both = range(len(whole)), torch.stack([whole, curves], 1)  # list set lag
    for measure, of in MEASURES.items():
        yield row(measure, name, over_needles(functools.partial(told, of), curves, lists))
        yield row(f"left: {measure}", name, over_needles(functools.partial(left_of_one, of), both, lists))


def compared(whole: Tensor, found: dict[str, Tensor], chosen: list[str]) -> Iterator[Row]:
    """Rows on the share that remains without random sets minus that without the chosen sets."""
    for name, (measure, of) in itertools.product(chosen, MEASURES.items()):
        for control in CONTROLS:
            beside = [curves for which, curves in found.items() if which.startswith(f"{control} {name}")]
            stacked = torch.stack([whole, found[name], *beside], 1)
            for which in ("worst", "mean"):
                less = functools.partial(spared, of, which)
                found_less = over_needles(less, stacked, range(len(whole)))
                yield row(f"beyond the {which} {control}: {measure}", name, found_less)


def spared(of: Callable[[dict[int, float]], float], which: str, means: Tensor) -> Tensor:
    """How much more remains without random sets, the worst one or on average, than without the chosen set; (draw)."""
    shares = left(of, means)
    others = shares[:, 1:].min(1).values if which == "worst" else shares[:, 1:].mean(1)
    return others - shares[:, 0]


def silenced(lens: Lens, seed: int, chosen: dict[str, list[Head]]) -> dict[str, list[Head]]:
    """The chosen sets, and for each random sets of as many other heads, from all layers and from the same layers."""
    sets: dict[str, list[Head]] = {}
    taken = {head for heads in chosen.values() for head in heads}
    others = [head for head in lens.heads if head not in taken]
    for name, heads in chosen.items():
        sets[name] = heads
        for draw in range(DRAWS):
            sets[f"random {name} {draw}"] = random_heads(others, len(heads), 100 * seed + draw)
            sets[f"same layers {name} {draw}"] = in_same_layers(heads, lens.heads, 100 * seed + draw)
    return sets
