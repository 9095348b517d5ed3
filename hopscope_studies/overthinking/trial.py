"""One model, shown true and false demonstrations: all measurements, as in overthinking.json.

The heads with the highest scores, the layer that answers best and the critical layer are chosen on the first half of
the texts. The second half judges them. Intervals resample texts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hopscope.language.checkpoints import Opened
from hopscope.language.lens.ablation import Head, in_same_layers, random_heads, short, top_heads
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import Number, agreement, beyond, number
from hopscope.language.lens.scores import head_scores, repeated_tokens
from hopscope.language.readings.base import Watch
from hopscope_studies.overthinking.answers import Answers, Silenced, answers, calibrated, mixed, plain, scores
from hopscope_studies.overthinking.prompts import ITEMS, KINDS, PLACES, Texts, Words, encoded, words_of

CHOSEN = 5  # heads silenced together (paper), or a quarter of all heads in models with fewer than twenty
DRAWS = 10  # random sets of each kind; shuffles of the classes
HIGHEST = 8  # induction heads with which the chosen ones are compared
PAIR = ("true", "permuted")


@dataclass(frozen=True)
class Half:
    """The answers on one half of the texts.

    Attributes:
        words: the texts.
        read: the answers, by kind of label.
    """

    words: Words
    read: dict[str, Answers]

    def by_layer(self, kind: str) -> Tensor:
        """Calibrated accuracy; shape (layer, text, place)."""
        return calibrated(self.read[kind].by_layer, self.words.asked)

    @cached_property
    def gap(self) -> Tensor:
        """Accuracy with true labels minus that with permuted ones; shape (layer)."""
        true, permuted = (self.by_layer(kind).mean((1, 2)) for kind in PAIR)
        return true - permuted

    def scores(self, lines: Tensor | None = None) -> Tensor:
        """The score of every head with permuted labels; shape (layer, head)."""
        return scores(self.read["permuted"].looks, self.words.classes if lines is None else lines, self.words.asked)


def critical(gap: Tensor) -> Tensor:
    """The number of layers after which the gap first reaches half of its final value; one more than all if that is ≤ 0.

    Args:
        gap: before the first layer and after each; … layer.
    """
    there = gap >= gap[..., -1:] / 2
    last = gap.shape[-1]
    return torch.where(gap[..., -1] > 0, there.double().argmax(-1), last)


def trial(opened: Opened, settings: Any, watch: Watch) -> dict[str, Any]:
    """All measurements, by settings of `Demonstrations`. Raises BadInput for a model or words that do not fit."""
    began = time.monotonic()
    lens = Lens(opened)
    words = words_of(settings.words, settings.count, settings.seed)
    texts = {kind: encoded(opened.tokenizer, words, kind) for kind in KINDS}

    def read(some: slice, sets: Sequence[Silenced] = ()) -> Half:
        parts = {kind: answers(lens, texts[kind].rows(some), sets if kind in PAIR else ()) for kind in KINDS}
        return Half(words.part(some.start, some.stop), parts)

    half = settings.count // 2
    watch(f"reading {half} texts with {len(KINDS)} kinds of labels, to choose by")
    first = read(slice(0, half))
    sets = {} if settings.brief else sets_of(lens, first, settings.seed)
    watch(f"reading {half} others, and two kinds of these with {len(sets)} sets of parts silenced")
    second = read(slice(half, settings.count), list(sets.values()))
    return {
        **opened.about,
        "protocol": protocol(settings),
        "asks": about(texts, words),
        **described(first, second),
        **heads(lens, first, second, settings.seed),
        **(silencing(sets, second) if sets else {}),
        "seconds": round(time.monotonic() - began, 1),
    }


def protocol(settings: Any) -> dict[str, Any]:
    """Everything that the numbers depend on besides the model."""
    return {
        **settings.as_dict(),
        "lines": ITEMS,
        "asked": f"the last {PLACES}",
        "accuracy": "calibrated: above the label's own (n - 1) / n quantile over texts, at each line and layer",
        "silenced": "outputs at zero, at every token",
        "intervals": "95 %, texts drawn anew",
    }


def about(texts: dict[str, Texts], words: Words) -> dict[str, Any]:
    """The number, length and labels of the texts."""
    lengths = [one.tokens for one in texts.values()]
    return {
        "texts": len(words.words),
        "asked": words.asked.numel(),
        "demonstrations": [ITEMS - PLACES, ITEMS - 1],
        "tokens": [min(low for low, _ in lengths), max(high for _, high in lengths)],
        "labels": list(words.labels),
        "text": texts["permuted"].first,
    }


# Layers


def described(first: Half, second: Half) -> dict[str, Any]:
    """Accuracies and gaps after every layer on all texts; the best layer is chosen on one half, judged on the other."""
    curves = {kind: torch.cat([first.by_layer(kind), second.by_layer(kind)], 1).mean(2).T for kind in KINDS}
    gap = curves["true"] - curves["permuted"]  # text layer
    depth = gap.shape[1] - 1
    early = slice(1, max(depth // 3, 1) + 1)
    judged = second.by_layer("permuted").mean(2).T
    best = int(first.by_layer("permuted").mean((1, 2))[:-1].argmax())
    return {
        "layers": depth,
        "lens": {kind: [number(curve[:, layer]) for layer in range(depth + 1)] for kind, curve in curves.items()},
        "gap": [number(gap[:, layer]) for layer in range(depth + 1)],
        "random_over_permuted": number(curves["random"][:, -1] - curves["permuted"][:, -1]),
        "first_third": number(gap[:, early].mean(1)),
        "critical": number(gap, critical),
        "overthinking": {"layer": best, "lost": number(judged[:, best] - judged[:, -1])},
        "most_probable": {kind: number(most_probable(kind, first, second)) for kind in KINDS},
        "followed": number(followed(first, second)),
    }


def most_probable(kind: str, first: Half, second: Half) -> Tensor:
    """How often the most probable label is the right one, at the end; shape (text)."""
    return torch.cat([plain(half.read[kind].by_layer[-1], half.words.asked).mean(1) for half in (first, second)])


def followed(first: Half, second: Half) -> Tensor:
    """Calibrated accuracy of the false label that was shown, at the end; shape (text)."""
    halves = (first, second)
    shown = [half.words.shown("permuted")[:, -PLACES:] for half in halves]
    parts = [calibrated(half.read["permuted"].by_layer[-1], one) for half, one in zip(halves, shown, strict=True)]
    return torch.cat(parts).mean(1)


# Heads


def sets_of(lens: Lens, first: Half, seed: int) -> dict[str, Silenced]:
    """The highest heads, random sets of other heads and of heads in the same layers, late attention, and late MLPs."""
    top = chosen(first)
    others = [head for head in lens.heads if head not in top]
    found = {"top": Silenced(top)}
    for draw in range(DRAWS):
        found[f"random {draw}"] = Silenced(random_heads(others, len(top), 100 * seed + draw))
        found[f"same layers {draw}"] = Silenced(in_same_layers(top, lens.heads, 100 * seed + draw))
    late = range(max(int(critical(first.gap)), 1) - 1, lens.n_layers)
    found["late attention"] = Silenced([head for head in lens.heads if head[0] in late])
    found["late MLPs"] = Silenced(mlps=late)
    return found


def chosen(half: Half) -> list[Head]:
    """The heads with the highest scores."""
    found = half.scores()
    return top_heads(found, min(CHOSEN, max(found.numel() // 4, 1)))


def heads(lens: Lens, first: Half, second: Half, seed: int) -> dict[str, Any]:
    """Scores of all heads on both halves, the chosen ones, the highest scores with classes shuffled, and induction."""
    one, other, top = first.scores(), second.scores(), chosen(first)
    induction = head_scores(lens, repeated_tokens(lens, seed))[0]["induction"]
    named = {"score": one, "again": other, "induction": induction}
    return {
        "heads": [{"layer": i, "head": j} | {n: float(s[i, j]) for n, s in named.items()} for i, j in lens.heads],
        "chosen": [{"head": short(head), "layer": head[0] + 1, "score": float(other[head])} for head in top],
        "mixed": [float(second.scores(mixed(second.words.classes, 100 * seed + draw)).max()) for draw in range(DRAWS)],
        "ranks": agreement(other, induction),
        "induction_heads": len(set(top) & set(top_heads(induction, min(HIGHEST, induction.numel() // 2)))),
    }


# Silencing


def silencing(sets: dict[str, Silenced], second: Half) -> dict[str, Any]:
    """Both accuracies without each set, and by how much the gap narrows, on the held-out texts."""
    whole = {kind: second.by_layer(kind)[-1].mean(1) for kind in PAIR}
    without = [calibrated(second.read[kind].without, second.words.asked).mean(2) for kind in PAIR]  # set text
    left = {name: dict(zip(PAIR, pair, strict=True)) for name, *pair in zip(sets, *without, strict=True)}
    gap = whole["true"] - whole["permuted"]
    narrowed = {name: gap - (one["true"] - one["permuted"]) for name, one in left.items()}
    attention, mlps = (left[f"late {parts}"]["permuted"] for parts in ("attention", "MLPs"))
    share = torch.stack([narrowed["top"], gap], 1)
    return {
        "whole": {**{kind: number(values) for kind, values in whole.items()}, "gap": number(gap)},
        "without": [
            {
                "set": name,
                "heads": [short(head) for head in one.heads] if not name.startswith("late") else [],
                "first_layer": one.first + 1,
                **{kind: number(values) for kind, values in left[name].items()},
                "narrowed": number(narrowed[name]),
            }
            for name, one in sets.items()
        ],
        "beyond": {kind: further_than(narrowed, kind) for kind in ("random", "same layers")},
        "share": number(share, lambda means: means[:, 0] / means[:, 1].clamp(min=1e-9)),
        "true_lost": number(whole["true"] - left["top"]["true"]),
        "late": {"over_mlps": number(attention - mlps), "over_whole": number(attention - whole["permuted"])},
    }


def further_than(narrowed: dict[str, Tensor], kind: str) -> Number:
    """How much more the gap narrows than with the best set of a kind, found anew in every resample of texts."""
    beside = [values for name, values in narrowed.items() if name.startswith(f"{kind} ")]
    return beyond(narrowed["top"], beside, range(len(narrowed["top"])))
