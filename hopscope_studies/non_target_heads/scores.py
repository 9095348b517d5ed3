"""The measures of `non_target_heads`: each head's answers on both kinds, and the use of its directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.models.base import Replacements
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Batch
from hopscope_studies.non_target_heads.tasks.tagged_hops import END, MIDDLE, TaggedHops

SEQUENCES = {"quick": 64, "cpu": 1024, "paper": 4096}
PROBED = {"quick": 128, "cpu": 4096, "paper": 16384}  # sequences on which a probe is fitted
RIDGE = 1e-3  # ridge strength of a probe, relative to the mean variance of a feature (ours)
RANK = 8  # number of directions that are cut (ours)
DRAWS = 10  # random sets of directions

Logits = Float[Tensor, "batch token"]


def tagged(task: TaggedHops, share: float, n: int, purpose: str) -> Batch:
    """Sequences of one tag alone: of `one` with a share of 1, of `two` with 0."""
    return task.but(share=share).sample(n, generator(0, purpose, int(share)))


@torch.no_grad()
def said(model: Transformer, batch: Batch, replace: Replacements | None = None) -> Float[Tensor, "batch head token"]:
    """The logits of both heads at the query."""
    assert isinstance(batch.task, TaggedHops)
    return batch.task.logits(model(batch.inputs, at=batch.task.query_positions, replace=replace))[:, 0]


def names(logits: Logits, batch: Batch, which: int) -> float:
    """The share (0–1) of sequences in which the likeliest token is the middle, or the end, of the chain asked about."""
    task = batch.task
    assert isinstance(task, TaggedHops)
    return float((logits.argmax(-1) == task.named(batch.draw)[:, which]).float().mean())


def names_among_middles(logits: Logits, batch: Batch) -> float:
    """The share (0–1) in which the likeliest of all chains' middles is the asked chain's; a guess has 1/N."""
    task = batch.task
    assert isinstance(task, TaggedHops)
    found = logits.gather(1, task.middles(batch.draw)).argmax(-1)
    return float((found == batch.draw["asked"][:, 0]).float().mean())


def readings(model: Transformer, task: TaggedHops, scale: str) -> Iterator[tuple[str, float]]:
    """The answers of both heads on both kinds of sequences."""
    one, two = (tagged(task, share, SEQUENCES[scale], "asked") for share in (1.0, 0.0))
    own, other = said(model, one), said(model, two)
    yield "middle of one", names(own[:, MIDDLE], one, MIDDLE)
    yield "end of two", names(other[:, END], two, END)
    yield "non-target", names(other[:, MIDDLE], two, MIDDLE)
    yield "non-target among middles", names_among_middles(other[:, MIDDLE], two)
    yield "non-target says the end", names(other[:, MIDDLE], two, END)


# A head that is fitted afterwards ---------------------------------------------------------------------------------


@torch.no_grad()
def features(model: Transformer, batch: Batch) -> Float[Tensor, "batch d_model"]:
    """The last residual stream at the query as the heads read it, normalised if the model's is; float64."""
    last = "ln_final.hook_normalized" if model.architecture.layer_norm else model.activation_names[-1]
    _, cache = model(batch.inputs, at=slice(-1, None), cache=[last])
    found: Tensor = cache[last]
    return found[:, -1].double()


def probe(model: Transformer, task: TaggedHops, share: float, scale: str) -> tuple[Tensor, Tensor]:
    """Weights and bias of a linear head fitted on sequences of one tag, by ridge regression on one-hot middles."""
    batch = tagged(task, share, PROBED[scale], "probe")
    x, middles = features(model, batch), task.named(batch.draw)[:, MIDDLE]
    y = torch.nn.functional.one_hot(middles, task.d_vocab).double()
    mean, target = x.mean(0), y.mean(0)
    x, y = x - mean, y - target
    xx = x.T @ x / len(x)
    weight = torch.linalg.solve(
        xx + RIDGE * xx.diagonal().mean() * torch.eye(len(xx), dtype=xx.dtype), x.T @ y / len(x)
    )
    return weight, target - mean @ weight


def probed(model: Transformer, task: TaggedHops, scale: str) -> Iterator[tuple[str, float]]:
    """The answers of a head fitted on tag `one` for both tags, and of one fitted on tag `two` for that tag."""
    weight, bias = probe(model, task, 1.0, scale)
    one, two = (tagged(task, share, SEQUENCES[scale], "asked") for share in (1.0, 0.0))
    own, other = (features(model, batch) @ weight + bias for batch in (one, two))
    yield "probe, middle of one", names(own, one, MIDDLE)
    yield "probe", names(other, two, MIDDLE)
    yield "probe among middles", names_among_middles(other, two)
    yield "probe says the end", names(other, two, END)
    weight, bias = probe(model, task, 0.0, scale)
    yield "probe fitted on two, among middles", names_among_middles(features(model, two) @ weight + bias, two)


# What its directions are for --------------------------------------------------------------------------------------


def directions(model: Transformer, task: TaggedHops) -> Float[Tensor, "d_model token"]:
    """The directions by which head `middle` distinguishes tokens: what each adds to its logit in the stream as read."""
    read = model.W_U[:, : task.n_symbols].detach()
    if model.architecture.layer_norm:
        read = model.get_parameter("ln_final.w").detach()[:, None] * read
    found: Tensor = read - read.mean(1, keepdim=True)
    return found


def spanned(vectors: Float[Tensor, "d_model vector"], rank: int) -> Float[Tensor, "d_model rank"]:
    """An orthonormal basis of the strongest directions among some vectors."""
    return torch.linalg.svd(vectors, full_matrices=False)[0][:, :rank]


def before_last(model: Transformer, change: Any) -> Replacements:
    """The stream before the last layer, changed only at the query."""

    def changed(stream: Tensor) -> Tensor:
        query = change(stream[:, -1:])
        return torch.cat([stream[:, :-1], query], 1)

    return {f"blocks.{model.architecture.n_layers - 1}.hook_resid_pre": changed}


def cuts(model: Transformer, task: TaggedHops, scale: str) -> Iterator[tuple[str, float]]:
    """How often head `end` is right with directions removed from the stream before the last layer, at the query.

    The directions are those that head `middle` reads, or as many random ones (mean of ten sets).
    """
    two = tagged(task, 0.0, SEQUENCES[scale], "asked")
    width = model.architecture.d_model
    rank = min(RANK, width)

    def right(basis: Tensor) -> float:
        cut = before_last(model, lambda stream: stream - stream @ basis @ basis.T)
        return names(said(model, two, cut)[:, END], two, END)

    yield "end, middle's directions cut", right(spanned(directions(model, task), rank))
    random = generator(0, "random directions")
    drawn = [right(spanned(torch.randn(width, rank, generator=random), rank)) for _ in range(DRAWS)]
    yield "end, random directions cut", sum(drawn) / DRAWS


def swaps(model: Transformer, task: TaggedHops, scale: str) -> Iterator[tuple[str, float]]:
    """How often head `end` names another chain's end when the middle in the stream is exchanged for that chain's.

    At the query, before the last layer, the stream is reflected so that head `middle` reads for one middle what it read
    for the other. The control uses random directions with a change of the same norm.
    """
    two = tagged(task, 0.0, SEQUENCES[scale], "asked")
    read, draw = directions(model, task), two.draw
    other = (draw["asked"] + 1) % task.n_chains
    ends = draw["tokens"].gather(1, 3 * other + 2)[:, 0]
    middles = (task.named(draw)[:, MIDDLE], draw["tokens"].gather(1, 3 * other + 1)[:, 0])
    apart = (read[:, middles[0]] - read[:, middles[1]]).T
    apart = apart / apart.norm(dim=1, keepdim=True)
    random = torch.randn(apart.shape, generator=generator(0, "random directions"))

    def follows(axis: Tensor, towards: Tensor) -> float:
        def reflected(stream: Tensor) -> Tensor:
            along = (stream[:, 0] * apart).sum(1, keepdim=True)
            return stream - (2 * along * axis)[:, None]

        found = said(model, two, before_last(model, reflected))[:, END].argmax(-1)
        return float((found == towards).float().mean())

    yield "end follows the exchanged middle", follows(apart, ends)
    yield "end stays", follows(apart, task.named(draw)[:, END])
    yield "end follows a random change", follows(random / random.norm(dim=1, keepdim=True), ends)
