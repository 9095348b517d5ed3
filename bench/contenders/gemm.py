"""The most that the machine's matrix products reach through PyTorch: the yardstick for everyone's share of the peak."""

from __future__ import annotations

from collections.abc import Callable

import torch

from bench.worker import clock_for

SIDES = (1024, 1536, 2048)


def make(work: object, dtype: str, compiled: bool) -> Callable[[int], dict[str, float]]:
    """A function that measures the peak of each dtype, in floating-point operations a second."""
    return lambda _: {name: peak(getattr(torch, name)) for name in ("float32", "bfloat16")}


def peak(dtype: torch.dtype) -> float:
    """The fastest of a few products of square matrices."""
    return max(rate(torch.randn(side, side).to(dtype)) for side in SIDES)


def rate(matrix: torch.Tensor, repeats: int = 6) -> float:
    out = matrix @ matrix
    seconds, clock = [], clock_for(torch.get_num_threads())
    for _ in range(repeats):
        start = clock()
        torch.mm(matrix, matrix, out=out)
        seconds.append(clock() - start)
    return 2 * len(matrix) ** 3 / min(seconds)
