"""Copying and induction of a language model on stretches of held-out text that its context repeats."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.models.base import Model
from hopscope.tasks.base import Task

SEQUENCES = 128  # stretches asked of every model


def stretches(task: Task, n: int = SEQUENCES) -> dict[str, Int[Tensor, "batch position"]]:
    """Contexts, by what stands before a stretch: `other`, another stretch; `same`, itself; `shuffled`, its characters.

    A stretch is half as long as the task's sequences. The second half of all three contexts is equal.
    """
    random = generator(0, "stretches")
    asked = task.draw(n, random)["tokens"][:, : task.n_positions // 2]
    shuffled = asked.gather(1, torch.rand(asked.shape, generator=random).argsort(1))
    before = {"other": asked.roll(1, 0), "same": asked, "shuffled": shuffled}
    return {name: torch.cat([first, asked], 1) for name, first in before.items()}


@torch.no_grad()
def copying(model: Model, task: Task) -> Iterator[tuple[str, float]]:
    """The loss on the stretch (nats per character) after each context, and two induction scores.

    The first character is not asked for. `layer_0` is the greatest score of a head of the first layer, and `score` that
    of any head: the mean attention from a character of a repeated stretch to the one that followed it before.
    """
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.architecture.n_layers)]
    for name, tokens in stretches(task).items():
        half = tokens.shape[1] // 2
        outputs, cache = model(tokens, cache=names)
        loss = torch.nn.functional.cross_entropy(outputs[:, half:-1].mT, tokens[:, half + 1 :])
        yield name, float(loss)
        if name == "same":
            each = [score(cache[one], half) for one in names]
            yield from (("layer_0", each[0]), ("score", max(each)))


def score(pattern: Tensor, half: int) -> float:
    """The greatest mean attention of a head from the second half to the place after the same place in the first."""
    return float(pattern.diagonal(1 - half, -2, -1)[..., 1:].mean((0, 2)).max())
