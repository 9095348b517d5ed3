"""What `composition` measures of a model: its errors, its heads, how they match, and what projections do to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.measures.base import Observation, observe
from hopscope.measures.lag_attention import GREATEST, by_lag
from hopscope.models.base import Replacements
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Batch
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.composition import bridge
from hopscope_studies.composition.cells import elsewhere

SEQUENCES = {"quick": 32, "cpu": 256, "paper": 1000}
RANDOM = {"quick": 2, "cpu": 10, "paper": 20}  # random subspaces, and shuffled W_OV, behind a mean
#: Rank of the subspaces compared, as a share of the width: the authors' 10 of 64.
RANK_SHARE = 10 / 64


def batches(task: RepeatedSegment, scale: str) -> dict[str, Batch]:
    """Fresh sequences, the same for every model: `id` (as in training), `fresh` (not from the pool), `ood`."""
    kinds = {"id": task.but(asked="copy"), "fresh": task.but(asked="copy", pool=0), "ood": elsewhere(task, scale)}
    return {name: kind.sample(SEQUENCES[scale], generator(0, name)) for name, kind in kinds.items()}


def error(seen: Observation) -> float:
    """Share (0–1) of the asked tokens that are predicted wrongly."""
    return 1 - float(seen.task.correct(seen.outputs, seen.batch).float().mean())


def errors(model: Transformer, asked: dict[str, Batch]) -> dict[str, float]:
    """The error on each kind of sequences, such as `id_error`; and `known_error`, in the first copy of `id`."""
    found = {f"{name}_error": error(observe(model, batch)) for name, batch in asked.items()}
    return found | {"known_error": known_error(model, asked["id"])}


@torch.no_grad()
def known_error(model: Transformer, batch: Batch) -> float:
    """The error in the first copy, where only a model that has memorised the pool can predict."""
    draw, task = batch.draw, batch.task
    assert isinstance(task, RepeatedSegment)
    first = {**draw, "starts": draw["starts"][:, :1].expand(-1, 2)}  # where the first copy is, as if it were the second
    targets = task.targets(first)[..., 0]
    named = model(batch.inputs, at=task.query_positions).argmax(-1)
    return float((named != targets)[targets >= 0].float().mean())


def heads(model: Transformer, batch: Batch) -> dict[str, float]:
    """The highest attention of any head at a fixed offset in layer 0, and at a lag in the last layer.

    An offset of 1 and a lag of +1 are a previous-token head and an induction head; an offset of k and a lag of +k
    compose in the same way.
    """
    seen = observe(model, batch)
    wanted = batch.roles.pairs("query", "key[1]", "same")
    last = model.architecture.n_layers - 1
    offsets = strongest(by_offset(pattern) for pattern in seen.cache["pattern", 0].unbind(1))
    lags = strongest(by_lag(pattern, wanted) for pattern in seen.cache["pattern", last].unbind(1))
    del offsets[0]
    offset, lag = max(offsets, key=offsets.__getitem__), max(lags, key=lags.__getitem__)
    return {
        "shift": offsets[offset],
        "offset": offset,
        "previous": offsets[1],
        "induction": lags[lag],
        "lag": lag,
        "following": lags[1],
    }


def strongest(curves: Iterable[dict[int, float]]) -> dict[int, float]:
    """At each lag, the attention of the head that gives it most."""
    found: dict[int, float] = {}
    for curve in curves:
        found |= {lag: max(value, found.get(lag, 0.0)) for lag, value in curve.items() if value == value}
    return found


def matches(model: Transformer, scale: str) -> dict[str, float]:
    """How W_QK of layer 1 and W_OV of layer 0 match: diagonal scores and subspaces, each with a random baseline."""
    induction, previous, rank = parts(model)
    random = generator(0, "shuffle")
    orders = [torch.randperm(len(previous), generator=random) for _ in range(RANDOM[scale])]
    shuffled = [bridge.diagonal_score(bridge.composed(induction, previous[:, order])) for order in orders]
    return {
        "diagonal": bridge.diagonal_score(bridge.composed(induction, previous)),
        "shuffled": max(shuffled),
        "match": bridge.subspace_match(induction, previous, rank),
        "random_match": bridge.random_match(len(previous), rank),
    }


def parts(model: Transformer) -> tuple[bridge.Matrix, bridge.Matrix, int]:
    """W_QK of layer 1 averaged over typical distances, W_OV of layer 0, and the rank at which they are compared."""
    n = len(model.mask)
    induction = bridge.query_key(model, 1, 0, range(n // 6, n // 2))
    return induction, bridge.output_value(model, 0, 0), max(1, round(RANK_SHARE * len(induction)))


def projections(model: Transformer, batch: Batch, scale: str) -> Iterator[dict[str, Any]]:
    """Errors by rank, with shared or random directions projected out or kept alone."""
    induction, _, _ = parts(model)
    width, random = len(induction), generator(0, "directions")
    for rank in ranks(width):
        shared = bridge.key_directions(induction, rank)
        others = [bridge.random_directions(width, rank, random) for _ in range(RANDOM[scale])]
        for name, change in (("without", bridge.without), ("only", bridge.only)):
            by_chance = [changed(model, batch, change(other, 0)) for other in others]
            yield {
                "projection": name,
                "rank": rank,
                "shared_error": changed(model, batch, change(shared, 0)),
                "random_error": sum(by_chance) / len(by_chance),
            }


def ranks(width: int) -> list[int]:
    """The ranks to test: 1/8, 1/4 and 1/2 of the width."""
    return [width // part for part in (8, 4, 2)]


def changed(model: Transformer, batch: Batch, replace: Replacements) -> float:
    """A model's error under replacements."""
    return error(Observation(model, batch, replace))


def by_offset(pattern: Float[Tensor, "batch query key"], greatest: int = GREATEST) -> dict[int, float]:
    """Mean attention to the position `offset` back, from 0 to `greatest`, over all queries that have one."""
    n = min(greatest, pattern.shape[-1] - 1)
    return {offset: float(torch.diagonal(pattern, -offset, -2, -1).mean()) for offset in range(n + 1)}
