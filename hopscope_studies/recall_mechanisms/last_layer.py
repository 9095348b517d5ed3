"""Whether the last layer suppresses the answer (anti-overconfidence; Lv et al., 2024), and what halving it does.

A layer's addition to a token's logit is measured against the mean of all tokens. What the last layer adds can be halved
exactly, because only the final norm follows it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope_studies.recall_mechanisms.known import Prompts
from hopscope_studies.recall_mechanisms.parts import Recall
from hopscope_studies.recall_mechanisms.topic import DRAWS

KEPT = (0.0, 0.5, 1.0)  # share of the last layer's output that is kept


def last_layer(prompts: Prompts, seed: int) -> dict[str, Any]:
    """All measurements of the last layer; nothing is chosen, so all prompts judge."""
    layers = prompts.answer.layers
    chances = prompts.gather(probabilities)
    rival = prompts.gather(of_runner_up)
    return {
        "layers": [prompts.all(one) for one in layers.T],
        "negative": [prompts.all((one < 0).double()) for one in layers.T],
        "heads": prompts.all(prompts.answer.heads[:, -1].sum(1)),
        "mlp": prompts.all(prompts.answer.mlps[:, -1]),
        "runner_up": prompts.all(rival),
        "below_runner_up": prompts.all(layers[:, -1] - rival),
        "among_its_kind": prompts.all(prompts.fact.layers[:, -1]),
        "other_words": [
            prompts.all(prompts.gather(partial(of_others, seed=100 * seed + draw)))["mean"] for draw in range(DRAWS)
        ],
        "probability": {f"{kept:g}": prompts.all(chances[:, i]) for i, kept in enumerate(KEPT)},
        "halving_adds": prompts.all(chances[:, 1] - chances[:, 2]),
        "leaving_out_adds": prompts.all(chances[:, 0] - chances[:, 2]),
    }


def probabilities(one: Recall) -> Tensor:
    """The probability of the answer, by the share of the last layer that is kept; shape (fact, kept)."""
    before, after = one.wrote.streams[:, -2:].unbind(1)
    rows = torch.arange(len(before))
    logits = [one.logits(before + kept * (after - before)) for kept in KEPT]
    return torch.stack([some.softmax(-1)[rows, one.asks.answers] for some in logits], 1)


def added(one: Recall, tokens: Tensor) -> Tensor:
    """The last layer's addition to the logit of a token, against the mean of all; shape (fact)."""
    before, after = one.wrote.streams[:, -2:].unbind(1)
    along = one.folded(after) * (one.unembedding[tokens] - one.unembedding.mean(0))
    return torch.einsum("fd,fd->f", after - before, along)


def of_runner_up(one: Recall) -> Tensor:
    """What the last layer adds to the likeliest token other than the answer before it; shape (fact)."""
    logits = one.logits(one.wrote.streams[:, -2]).clone()
    logits[torch.arange(len(logits)), one.asks.answers] = -torch.inf
    return added(one, logits.argmax(-1))


def of_others(one: Recall, seed: int) -> Tensor:
    """What the last layer adds to a random token; shape (fact)."""
    drawn = generator(seed, "other words")
    return added(one, torch.randint(len(one.unembedding), (len(one.asks.groups),), generator=drawn))
