"""Topic heads: heads that write the subject at the last token, compared with random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hopscope.language.lens.ablation import Head, in_same_layers, random_heads, short, top_heads
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import Number
from hopscope_studies.recall_mechanisms.known import Prompts, ratio
from hopscope_studies.recall_mechanisms.parts import Recall

CHOSEN = 10  # heads, or a quarter of all heads in models with fewer than forty
DRAWS = 10  # random sets of heads; shuffles of facts


def sets_of(lens: Lens, prompts: Prompts, seed: int) -> dict[str, list[Head]]:
    """Topic heads, answer heads, and random sets of other heads and of heads in the topic heads' layers."""
    size = min(CHOSEN, max(len(lens.heads) // 4, 1))
    top = top_heads(prompts.topic.heads[prompts.first].mean(0), size)
    others = [head for head in lens.heads if head not in top]
    found = {"topic": top, "answer": top_heads(prompts.fact.heads[prompts.first].mean(0), size)}
    for draw in range(DRAWS):
        found[f"random {draw}"] = random_heads(others, size, 100 * seed + draw)
        found[f"same layers {draw}"] = in_same_layers(top, lens.heads, 100 * seed + draw)
    return found


def topic(prompts: Prompts, sets: dict[str, list[Head]]) -> dict[str, Any]:
    """What sets of heads write along the subject, as a share of all heads that write it, and their attention to it."""
    looks = prompts.gather(lambda one: one.wrote.looks)
    whole = prompts.topic.heads
    every = [
        {"layer": layer, "head": head, "topic": float(whole[~prompts.first][:, layer, head].mean()),
         "fact": float(prompts.fact.heads[~prompts.first][:, layer, head].mean()),
         "looks": float(looks[~prompts.first][:, layer, head].mean())}
        for layer in range(whole.shape[1]) for head in range(whole.shape[2])
    ]  # fmt: skip
    return {
        "heads": every,
        "chosen": {name: [short(head) for head in sets[name]] for name in ("topic", "answer")},
        "layers": [layer for layer, _ in sets["topic"]],
        "written": prompts.judged(whole.sum((1, 2))),
        "apart": {
            "heads": apart(prompts, lambda one: one.written(sets["topic"]).sum(1)),
            "MLPs": apart(prompts, lambda one: one.wrote.mlps.sum(1)),
        },
        "share": {name: held(prompts, heads) for name, heads in sets.items()},
        "looks": {name: prompts.judged(mean_over(looks, heads)) for name, heads in sets.items()},
    }


def apart(prompts: Prompts, written: Callable[[Recall], Tensor]) -> dict[str, Number]:
    """The output along subject and answer, fitted jointly."""
    values = prompts.gather(lambda one: one.apart(written(one)))
    names = ("subject", "answer", "cosine")
    found = {name: prompts.judged(values[:, i]) for i, name in enumerate(names)}
    return found | {"subject over answer": prompts.judged(values[:, 0] - values[:, 1])}


def held(prompts: Prompts, heads: Sequence[Head]) -> Number:
    """The share of some heads in the output of all heads that wrote the subject on the first half."""
    whole = prompts.topic.heads
    writers = whole[prompts.first].mean(0) > 0
    some = torch.stack([whole[:, layer, head] for layer, head in heads], 1).sum(1)
    return prompts.judged(torch.stack([some, whole[:, writers].sum(1)], 1), ratio(0, 1))


def mean_over(values: Tensor, heads: Sequence[Head]) -> Tensor:
    """The mean over some heads; shape (prompt)."""
    return torch.stack([values[:, layer, head] for layer, head in heads], 1).mean(1)
