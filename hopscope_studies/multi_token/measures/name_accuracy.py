"""Accuracy at the first token of a name that occurred before (ours).

After Gloeckle et al. (2024, arXiv:2404.19737, section 4), who ask for the second token of a name.
"""

from __future__ import annotations

from hopscope.measures.base import Need, Observation
from hopscope_studies.multi_token.tasks.names_in_text import NamesInText

RANGE = (0.0, 1.0)
NEEDS = (Need("texts with names", lambda task, shape: isinstance(task, NamesInText)),)


def name_accuracy(seen: Observation) -> dict[str, float]:
    """By offset (`t+1`, `t+2`, …), the share (0–1) of names at which the answer is the likeliest one given the name.

    Names are those from their second mention on, at their first token. Empty if there are none.
    """
    task, draw = seen.task, seen.batch.draw
    assert isinstance(task, NamesInText)
    likeliest = task.likeliest(draw)
    there = task.named(draw)[..., None] & (likeliest >= 0)
    right = task.logits(seen.outputs).argmax(-1) == likeliest
    names = enumerate(task.hop_names)
    return {name: float(right[..., i][there[..., i]].float().mean()) for i, name in names if there[..., i].any()}
