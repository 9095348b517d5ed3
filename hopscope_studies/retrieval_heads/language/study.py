"""The retrieval heads of one model: their scores and share, when they hit, and the cost of masking them.

After Wu et al. (2024, arXiv:2404.15574). Needles with even indices choose the heads that are masked, and masking is
judged on the others. Intervals are over needles.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hopscope.core.intervals import wilson
from hopscope.core.settings import Settings, setting
from hopscope.language.checkpoints import Opened
from hopscope.language.lens.ablation import Head, short, top_heads
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import agreement, mean_of, over_needles, spearman
from hopscope.language.lens.scores import head_scores, repeated_tokens
from hopscope.language.readings.base import Watch
from hopscope_studies.retrieval_heads.language.masks import MAIN, Masks
from hopscope_studies.retrieval_heads.language.needles import DEPTHS, HAY, Ask, asks
from hopscope_studies.retrieval_heads.language.scores import ENOUGH, LONGEST, Begun, Read, ends_of, read

BAR = 0.1  # score from which the paper calls a head a retrieval head
PERMUTATIONS = 5000


@dataclass(frozen=True)
class RetrievalStudy(Settings):
    """The extent of the measurements."""

    count: int = setting(12, "needles, each at five depths; a half each for choosing and judging", low=4, high=1000)
    seed: int = setting(0, "of needles, hay and random heads", low=0)
    brief: bool = setting(False, "scores alone; nothing is masked")


def retrieval_study(opened: Opened, settings: RetrievalStudy, watch: Watch) -> dict[str, Any]:
    """All measurements, as in retrieval.json. Raises BadInput for a model that does not fit."""
    began = time.monotonic()
    lens = Lens(opened)
    asked, ends = asks(lens.tokenizer, settings.seed, settings.count), ends_of(lens.tokenizer, lens.model)
    with torch.no_grad():
        watch("scoring heads on repeated random tokens")
        induction = head_scores(lens, repeated_tokens(lens, settings.seed))[0]["induction"]
        choosing = [ask for ask in asked if ask.needle % 2 == 0]
        judging = [ask for ask in asked if ask.needle % 2 == 1]
        watch(f"asking for {len(asked)} needles in hay")
        reads = [read(Begun.of(lens, ask.ids), ask, ends) for ask in choosing]
        chosen = torch.stack([one.forced for one in reads]).mean(0)
        masks = None if settings.brief else Masks(lens, ends, settings.seed, chosen, induction)
        for ask in judging:
            reads.append(read(begun := Begun.of(lens, ask.ids), ask, ends))
            if masks is not None:
                masks.measure(ask, begun)
    report = {
        **opened.about,
        "protocol": protocol(settings),
        **described([*choosing, *judging], reads, len(choosing), induction),
    }
    if masks is not None:
        report["masking"] = masks.report([ask.needle for ask in judging])
    return report | {"seconds": round(time.monotonic() - began, 1)}


def protocol(settings: RetrievalStudy) -> dict[str, Any]:
    """Everything that the numbers depend on besides the model."""
    return {
        **settings.as_dict(),
        "depths": list(DEPTHS),
        "hay_sentences": list(HAY),
        "score": "share of the needle's tokens at the place attended to most when that token is written next",
        "retrieval_head": f"mean score of at least {BAR}",
        "answered": f"ROUGE-1 recall above {ENOUGH} within {LONGEST} tokens",
        "masked": "attends evenly from the prompt's last token on",
        "intervals": "95 %, needles drawn anew",
    }


# Scores


def described(asked: Sequence[Ask], reads: Sequence[Read], half: int, induction: Tensor) -> dict[str, Any]:
    """Answers, scores, share of retrieval heads, agreement between needles, and induction scores.

    `half` is the number of questions that chose the heads; they come first.
    """
    needles = [ask.needle for ask in asked]
    by_force, by_itself, log_p, recall = map(torch.stack, zip(*reads, strict=True))
    answered = recall > ENOUGH
    lengths = [len(ask.ids) for ask in asked], [len(ask.answer) for ask in asked]
    free = by_itself[answered].mean(0) if answered.any() else torch.zeros_like(induction)
    mean = by_force.mean(0)
    columns = {"forced": mean, "free": free, "induction": induction}
    return {
        "asks": {
            "n": len(asked),
            "needles": len(set(needles)),
            **dict(zip(("tokens", "needle_tokens"), ([min(some), max(some)] for some in lengths), strict=True)),
            "text": asked[0].text,
            "answer": asked[0].words,
        },
        "answers": {
            name: mean_of(of.float(), needles)
            for name, of in (("log_p", log_p), ("recall", recall), ("answered", answered))
        },
        "sparsity": {
            way: sparsity(scores[which], torch.tensor(needles)[which].tolist())
            for way, scores, which in (("forced", by_force, recall >= 0), ("free", by_itself, answered))
            if which.any()
        },
        "heads": [
            {"layer": i, "head": j, **{name: float(of[i, j]) for name, of in columns.items()}}
            for i, j in torch.cartesian_prod(*map(torch.arange, mean.shape)).tolist()
        ],
        "firing": firing(asked, by_force, top_heads(mean, int((mean >= BAR).sum()))),
        "halves": compared(by_force[:half].mean(0), by_force[half:].mean(0)),
        "induction": compared(mean, induction),
        "by_force_and_free": compared(mean, free),
    }


def sparsity(scores: Tensor, needles: Sequence[int]) -> dict[str, Any]:
    """The number and share of retrieval heads; scores are ask layer head."""
    mean = scores.mean(0)
    hits, n = int((mean >= BAR).sum()), mean.numel()
    low, high = wilson(hits, n)
    return {
        "share": over_needles(lambda means: (means >= BAR).float().mean((1, 2)), scores, needles),
        "as_sample": {"mean": hits / n, "low": low, "high": high},
        "retrieval_heads": hits,
        "heads": n,
        "never": int((scores == 0).all(0).sum()),
        "half_or_more": int((mean >= 0.5).sum()),
        "highest": float(mean.max()),
    }


def firing(asked: Sequence[Ask], scores: Tensor, heads: Sequence[Head]) -> list[dict[str, Any]]:
    """For every retrieval head, in how many questions it hits, and whether that depends on needle, depth or length.

    The p values are from permutations of questions: the probability that groups differ as much by chance.
    """
    groups: dict[str, list[float]] = {
        "needle": [ask.needle for ask in asked],
        "depth": [ask.depth for ask in asked],
        "length": [ask.hay for ask in asked],
    }
    return [
        {
            "head": short((layer, head)),
            "score": float(scores[:, layer, head].mean()),
            "active": float((scores[:, layer, head] > 0).float().mean()),
            "p": {name: by_group(scores[:, layer, head], group) for name, group in groups.items()},
            "by_depth": [
                float(scores[torch.tensor([ask.depth == depth for ask in asked]), layer, head].mean())
                for depth in DEPTHS
            ],
        }
        for layer, head in heads
    ]


def by_group(values: Tensor, groups: Sequence[float], seed: int = 0) -> float:
    """The probability by chance that groups differ as much: the share of permutations whose group means vary as much.

    Args:
        values: one per question.
        groups: the group of each question.
        seed: the seed of the permutations.
    """
    names = sorted(set(groups))
    members = torch.tensor([[float(group == name) for group in groups] for name in names])
    generator = torch.Generator().manual_seed(seed)
    mixed = values[torch.rand(PERMUTATIONS, len(values), generator=generator).argsort(1)]
    sizes = members.sum(1)

    def between(rows: Tensor) -> Tensor:
        means = rows @ members.T / sizes
        return ((means - rows.mean(1, keepdim=True)).square() * sizes).sum(1)

    there = between(values[None])
    return (1 + int((between(mixed) >= there - 1e-6).sum())) / (1 + PERMUTATIONS)


def compared(one: Tensor, other: Tensor) -> dict[str, Any]:
    """Two scores of the same heads: rank correlation over all heads and over those with a score, and shared tops."""
    size = min(MAIN, one.numel() // 2)
    tops = [set(top_heads(scores, size)) for scores in (one, other)]
    some = (one > 0) | (other >= BAR)
    return {
        "ranks": agreement(one, other),
        "of_those_with_a_score": spearman(one[some], other[some]),
        "with_a_score": int(some.sum()),
        "shared": len(tops[0] & tops[1]),
        "of": size,
        "by_chance": size**2 / one.numel(),
    }
