"""Paths in random order: what any method must beat."""

from __future__ import annotations

import torch

from bench.baselines.base import Proposal
from bench.metrics import Yardstick
from hopscope.core.seeds import generator


def random_order(lab: Yardstick, seed: int = 0) -> list[Proposal]:
    """One random order of all paths."""
    paths = lab.evaluator.ground.paths
    places = torch.randperm(len(paths), generator=generator(seed, "random order", 0)).tolist()
    return [Proposal("random order", dict(zip(paths, map(float, places), strict=True)), about={"seed": seed})]
