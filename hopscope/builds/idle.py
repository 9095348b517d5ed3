"""Distractors in a hand-made model: heads without a task, idle neurons, and a random basis of every space."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def idle(kind: str, d_model: int, d_head: int, scratch: Iterable[int], random: torch.Generator) -> dict[str, Tensor]:
    """A head without a task; unless its weights are zero, it attends sharply, at random."""

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.double)

    zero = torch.zeros(d_model, d_head, dtype=torch.double)
    weights = {"W_Q": zero, "b_Q": zero[0], "W_K": zero, "W_V": zero, "W_O": zero.T}
    if kind == "zero":
        return weights
    attends = {"W_Q": draw(d_model, d_head), "W_K": draw(d_model, d_head) / d_head, "b_Q": draw(d_head)}
    writes = torch.zeros(d_head, d_model, dtype=torch.double)
    if kind == "noisy":
        writes[:, list(scratch)] = draw(d_head, len(list(scratch))) / d_head
    return {**weights, **attends, "W_V": draw(d_model, d_head) / d_head, "W_O": writes}


def chatter(state: dict[str, Tensor], prefix: str, n: int, scratch: Iterable[int], random: torch.Generator) -> None:
    """The last n neurons read the whole stream and write to scratch dimensions."""
    if n:
        d_model, d_mlp = state[prefix + "W_in"].shape
        reads = torch.randn(d_model, n, generator=random, dtype=torch.double)
        state[prefix + "W_in"][:, -n:] = reads / d_model**0.5
        written = torch.randn(n, len(list(scratch)), generator=random, dtype=torch.double) / n**0.5
        state[prefix + "W_out"][d_mlp - n :, list(scratch)] = written


def rotate(state: dict[str, Tensor], d_head: int, random: torch.Generator) -> None:
    """Rotate at random the residual stream, and in every head the space of queries and keys and that of values."""
    stream = rotation(len(state["W_U"]), random)
    for name, weight in state.items():
        last = name.rpartition(".")[2]
        if last in ("W_E", "b_E", "W_pos", "W_O", "b_O", "W_out", "b_out"):
            state[name] = weight @ stream
        elif last in ("W_QKV", "W_in", "W_U"):
            state[name] = stream.T @ weight
    for name in [name for name in state if name.endswith("W_QKV")]:
        prefix = name.removesuffix("W_QKV")
        for head in range(state[name].shape[1]):
            matching, carrying = rotation(d_head, random), rotation(d_head, random)
            for index, turn in enumerate((matching, matching, carrying)):
                state[name][index, head] = state[name][index, head] @ turn
                state[prefix + "b_QKV"][index, head] = state[prefix + "b_QKV"][index, head] @ turn
            state[prefix + "W_O"][head] = carrying.T @ state[prefix + "W_O"][head]


def rotation(n: int, random: torch.Generator) -> Tensor:
    """A random orthogonal matrix, uniformly distributed (Mezzadri, 2007)."""
    q, r = torch.linalg.qr(torch.randn(n, n, generator=random, dtype=torch.double))
    return q * r.diagonal().sign()
