"""Retrieval accuracy: how often an output names the right symbol, by nearest symbol or likeliest token (ours)."""

from __future__ import annotations

from hopscope.measures.base import Observation

RANGE = (0.0, 1.0)


def retrieval_accuracy(seen: Observation) -> dict[str, float]:
    """Share (0–1) of answers that name the right symbol among all symbols of the sequence, per hop.

    Vectors name the nearest symbol, logits the likeliest token. Where different sequences ask for different hops
    (`hop_k`) there is one number, over all defined answers.
    """
    correct = seen.task.correct(seen.outputs, seen.batch)  # answer hop
    names = seen.task.hop_names if correct.shape[1] == len(seen.task.hop_names) else ("all",)
    return dict(zip(names, correct.float().mean(0).tolist(), strict=True))
