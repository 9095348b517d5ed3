"""Heads of a language model beside models of human recall: lag curves, fits, and fits by chance.

After Ji-An et al. (2024, arXiv:2405.14992). Attention of the second copy of random tokens to the first is measured by
lag, sequence by sequence. The first half of the sequences chooses heads and models of recall, the other half judges
them. A fit has two controls: each head's own curve with shuffled lags, and attention by lag from unrelated positions.
Intervals are 95 %, over sequences or over heads.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.experiments.reports import Row, row
from hopscope.language.lens.ablation import Head, short, top_heads
from hopscope.language.lens.attention import Edit, Lens
from hopscope.language.lens.estimates import Number, agreement, mean_of, over_needles, spearman
from hopscope.language.lens.scores import LAGS, LENGTH, LagCurves, repeated_tokens
from hopscope_studies.episodic_memory.cells import Simulations
from hopscope_studies.episodic_memory.claims import COPIES
from hopscope_studies.episodic_memory.context_maintenance import Memory
from hopscope_studies.episodic_memory.fit import WINDOW, Fit, Fitter

CHAINING = Memory(1.0, 1.0, 0.0)  # each item cues the item that followed it, and nothing else
SHUFFLES = 10  # of every head's lags
DRAWS = 200  # of sequences, for every head's distance
RANDOM_CURVES = 1000
FAR = 10.0  # distances are capped here: that of a flat curve is infinite
CHOSEN = 8  # heads, or a quarter of all where there are fewer
ZERO = LAGS.index(0)


@functools.cache
def fitter_of(simulations: Simulations) -> Fitter:
    """The fitter of all recall models, which are simulated once per process."""
    return Fitter(dict(simulations.curves()))


@dataclass(frozen=True)
class Curves:
    """Mean attention by lag, −8 to 8, of every sequence.

    Attributes:
        own: lags count from the token's earlier position; shape (sequence, layer, head, lag).
        unrelated: lags count from another token's earlier position; shape (sequence, layer, head, lag).
        previous: attention to the previous token; shape (layer, head).
    """

    own: Tensor
    unrelated: Tensor
    previous: Tensor

    @property
    def judged(self) -> Tensor:
        """The curves of the second half, which judges; shape (sequence, layer, head, lag)."""
        return self.own[len(self.own) // 2 :]

    @property
    def choosing(self) -> Tensor:
        """The mean curve of the first half, which chooses; shape (layer, head, lag)."""
        return self.own[: len(self.own) // 2].mean(0)

    @property
    def matching(self) -> Tensor:
        """Attention at lag +1 in the choosing half, by which heads are chosen; shape (layer, head)."""
        return self.choosing[..., ZERO + 1]


class Both(Edit):
    """Records lag curves from the right positions and from unrelated ones."""

    def __init__(self, order: Tensor):
        self.own, self.unrelated = LagCurves(), LagCurves(order=order)

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        return self.unrelated.pattern(layer, self.own.pattern(layer, pattern))


def curves_of(lens: Lens, count: int, seed: int) -> Curves:
    """The curves of `count` sequences, each with its own order of unrelated positions."""
    seen = []
    for at, tokens in enumerate(repeated_tokens(lens, seed, count)):
        both = Both(torch.randperm(LENGTH, generator=generator(seed, "places", at)))
        lens.run(lens.embed(tokens[None]), both)
        seen.append(both)
    own, unrelated = (
        torch.stack([torch.stack(getattr(b, name).curves) for b in seen]) for name in ("own", "unrelated")
    )
    return Curves(own, unrelated, torch.stack([torch.stack(b.own.previous) for b in seen]).mean(0))


@dataclass(frozen=True)
class Fits:
    """The nearest recall models of every head.

    Attributes:
        judged: by head, the fit of the judging half's mean curve.
        choosing: by head, the fit of the choosing half's mean curve.
        shuffled: by head, fits of the judging half's curve with shuffled lags.
        unrelated: by head, the fit of the curve from unrelated positions.
    """

    judged: dict[Head, Fit]
    choosing: dict[Head, Fit]
    shuffled: dict[Head, list[Fit]]
    unrelated: dict[Head, Fit]

    @classmethod
    def of(cls, curves: Curves, fitter: Fitter, seed: int) -> Fits:
        random = numpy.random.default_rng(seed)
        mean = curves.judged.mean(0)
        heads = list(numpy.ndindex(mean.shape[:2]))
        elsewhere = curves.unrelated[len(curves.unrelated) // 2 :].mean(0)
        shuffled = {
            head: [fitter.fit(random.permutation(mean[head].numpy()[WINDOW])) for _ in range(SHUFFLES)]
            for head in heads
        }
        judged, choosing, unrelated = (
            {head: fitter.fit(some[head].numpy()) for head in heads} for some in (mean, curves.choosing, elsewhere)
        )
        return cls(judged, choosing, shuffled, unrelated)

    def near(self, which: str) -> Tensor:
        """For each head, whether a criterion holds for its curve, for what share of shuffled ones, for the other."""
        return torch.tensor(
            [
                [
                    float(getattr(self.judged[head], which)),
                    sum(getattr(fit, which) for fit in self.shuffled[head]) / SHUFFLES,
                    float(getattr(self.unrelated[head], which)),
                ]
                for head in self.judged
            ]
        )


def capped(distances: Any) -> Any:
    """Distances, capped at `FAR`."""
    return numpy.minimum(distances, FAR)


def head_rows(curves: Curves, fits: Fits, fitter: Fitter) -> Iterator[Row]:
    """Rows on every head's scores and fit; the distance has an interval over sequences."""
    judged = curves.judged
    picks = torch.randint(len(judged), (DRAWS, len(judged)), generator=generator(0, "sequences"))
    drawn = torch.stack([judged[pick].mean(0) for pick in picks]).numpy()  # draw layer head lag
    mean = judged.mean(0)
    for head, fit in fits.judged.items():
        name, memory = short(head), fit.memory
        low, high = numpy.quantile(capped([fitter.fit(curve[head]).distance for curve in drawn]), (0.025, 0.975))
        yield row("distance", name, {"mean": float(capped(fit.distance)), "low": float(low), "high": float(high)})
        yield row("matching", name, float(curves.matching[head]))
        yield row("duplicate token", name, float(mean[head][ZERO]))
        yield row("previous token", name, float(curves.previous[head]))
        yield from (row(kind, name, getattr(memory, kind)) for kind in ("encoding", "recall", "studied"))
        yield from (row(kind.replace("_", " "), name, float(getattr(fit, kind))) for kind in ("near", "like_recall"))


def share_rows(curves: Curves, fits: Fits, fitter: Fitter) -> Iterator[Row]:
    """Rows on the shares of heads near a recall model, among all and among those that do not copy, with controls."""
    quiet = (curves.judged.mean(0)[..., ZERO + 1] < COPIES).flatten()
    for which in ("near", "like_recall"):
        found, kind = fits.near(which), which.replace("_", " ")
        for among, some in (("all heads", found), ("heads that do not copy", found[quiet])):
            heads = range(len(some))
            for at, name in enumerate(("heads", "shuffled", "unrelated")):
                yield row(f"share {kind}: {among}", name, mean_of(some[:, at], heads), step=len(some))
            for at, name in ((1, "beyond shuffled"), (2, "beyond unrelated")):
                yield row(f"share {kind}: {among}", name, mean_of(some[:, 0] - some[:, at], heads), step=len(some))
    yield from (row("chance", name, value) for name, value in fitter.chance(RANDOM_CURVES).items())


def rank_rows(curves: Curves, fits: Fits) -> Iterator[Row]:
    """Rows on rank correlations: matching in one half and nearness in the other; shuffled; both halves' nearness."""
    near = -torch.tensor([capped(fit.distance) for fit in fits.judged.values()])
    again = -torch.tensor([capped(fit.distance) for fit in fits.choosing.values()])
    matching = curves.matching.flatten()
    quiet = matching < COPIES
    yield row("ranks", "matching", agreement(matching, near))
    yield row("ranks", "matching: heads that do not copy", agreement(matching[quiet], near[quiet]))
    yield row("ranks", "both halves", agreement(again, near))
    for draw in range(SHUFFLES):
        shuffled = -torch.tensor([capped(fits.shuffled[head][draw].distance) for head in fits.judged])
        yield row("ranks", "shuffled", spearman(matching, shuffled), step=draw)


def chosen_heads(curves: Curves, fits: Fits) -> dict[str, list[Head]]:
    """The heads with the highest matching scores, and the heads nearest to recall, both by the choosing half."""
    size = min(CHOSEN, curves.matching.numel() // 4)
    like = sorted((fit.distance, head) for head, fit in fits.choosing.items() if fit.like_recall)
    return {"matching": top_heads(curves.matching, size), "recall": [head for _, head in like[:size]]}


def curve_rows(curves: Curves, fits: Fits, fitter: Fitter, chosen: dict[str, list[Head]]) -> Iterator[Row]:
    """Rows on the curves of the heads with the highest matching scores: asymmetry, decay, drift against chaining."""
    sequences = range(len(curves.judged))
    for which, heads in chosen.items():
        yield row("chosen", which, len(heads), other=" ".join(map(short, heads)))
    for head in chosen["matching"]:
        name, own = short(head), curves.judged[:, *head]
        yield from (row("lag", name, mean_of(own[:, at], sequences), step=lag) for at, lag in enumerate(LAGS))
        yield row("asymmetry", name, mean_of(own[:, ZERO + 1] - own[:, ZERO - 1], sequences))
        yield row("falling off", name, mean_of(own[:, ZERO + 2] - own[:, ZERO + 4 :].mean(1), sequences))
        memory = fits.choosing[head].memory
        told = f"encoding {memory.encoding:g}, recall {memory.recall:g}, studied {memory.studied:g}"
        yield row("drift", name, nearer(own, fitter, memory), other=told)


def nearer(own: Tensor, fitter: Fitter, memory: Memory) -> Number:
    """How much nearer a head is to the recall model that other sequences chose than to pure chaining."""
    at = [fitter.memories.index(one) for one in (CHAINING, memory)]

    def gain(means: Tensor) -> Tensor:
        both = [fitter.distances(curve[WINDOW])[at] for curve in means.numpy()]
        return torch.tensor([float(chained - fitted) for chained, fitted in both])

    return over_needles(gain, own, range(len(own)))


def rows_of(lens: Lens, fitter: Fitter, count: int, seed: int) -> tuple[list[Row], dict[str, list[Head]]]:
    """All rows on heads, and the chosen heads."""
    curves = curves_of(lens, count, seed)
    fits = Fits.of(curves, fitter, seed)
    chosen = chosen_heads(curves, fits)
    rows = [
        row("asks", "sequences", count),
        row("asks", "tokens of a copy", LENGTH),
        *head_rows(curves, fits, fitter),
        *share_rows(curves, fits, fitter),
        *rank_rows(curves, fits),
        *curve_rows(curves, fits, fitter, chosen),
    ]
    return rows, chosen
