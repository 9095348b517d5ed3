"""Kinds of features, by the positions that they read through attention, and how many kinds a head has.

Kissane et al. (2024, arXiv:2406.17759, sections 2.2, 3.2 and 4.1) attribute a feature's input to heads and to source
positions, sort features into families by reading examples, and call a head polysemantic if its features are unrelated.
Here a feature's kind follows from the attribution alone: the kind of source that raises its input most.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot, pad

from hopscope.core.seeds import generator
from hopscope.experiments.reports import Row, row
from hopscope.language.lens.estimates import number
from hopscope.probes.sparse_autoencoder import SparseAutoencoder

#: Kinds of source positions, the first that applies: the start token; the query's own position; the position after an
#: earlier copy of the query's token; such a copy itself; up to `NEAR` positions back; and any other.
KINDS = ("start", "self", "after a copy", "copy", "near", "far")
NEAR = 3
OFTEN = 10  # times a feature must be active for its kind to be judged
FEATURES = 10  # that a head must own for its number of kinds to be estimated
DEALS = 10  # random assignments of features to heads

Parts = Float[Tensor, "row head kind d_head"]


def sources(ids: Int[Tensor, "batch position"]) -> Int[Tensor, "batch query key"]:
    """The number of the kind of every source position, for every query."""
    key = torch.arange(ids.shape[1])
    query = key[:, None]
    copy = (ids[:, :, None] == ids[:, None]) & (key > 0)
    tests = (key == 0, key == query, pad(copy, (1, 0))[..., :-1], copy, query - key <= NEAR)
    found = torch.full(copy.shape, len(tests))
    for kind, met in reversed(list(enumerate(tests))):
        found = torch.where(met, kind, found)
    return found


def by_source(pattern: Tensor, v: Tensor, ids: Tensor) -> Parts:
    """Heads' outputs as sums over kinds of sources, without those at the start token.

    Args:
        pattern: attention; batch head query key.
        v: values; batch head key d_head.
        ids: the tokens by which sources are named; batch position.
    """
    named = one_hot(sources(ids), len(KINDS)).to(v.dtype)
    return torch.einsum("bhqk,bqkg,bhkd->bqhgd", pattern, named, v)[:, 1:].flatten(0, 1)


def owned(sae: SparseAutoencoder, parts: Parts) -> tuple[Int[Tensor, "feature"], Int[Tensor, "kind"]]:
    """The head that raises a feature's input most where the feature is active, and the kind of source in that head.

    What a head's part adds is compared with its mean over all rows. Both are −1 for features that are active in fewer
    than `OFTEN` rows.
    """
    active = (sae.encode(parts.sum(2).flatten(1)) > 0).to(parts.dtype)
    weights = active / active.sum(0).clamp(min=1) - 1 / len(parts)
    mean = torch.einsum("rf,rhgd->fhgd", weights, parts)
    read = torch.einsum("fhgd,hdf->fhg", mean, sae.W_enc.unflatten(0, (parts.shape[1], -1)))
    head = read.sum(2).argmax(1)
    kind = read[torch.arange(len(head)), head].argmax(1)
    often = active.sum(0) >= OFTEN
    return torch.where(often, head, -1), torch.where(often, kind, -1)


def effective(shares: Tensor) -> Tensor:
    """The effective number of kinds (Simpson's): 1 if all features are of one kind, n for n equally frequent kinds."""
    return 1 / shares.square().sum(-1)


def kind_rows(sae: SparseAutoencoder, parts: Parts, what: str) -> Iterator[Row]:
    """The shares of kinds, each head's effective number of kinds (95 % over features), and how far heads specialise.

    `specialised` is the lowest mean number of kinds per head, with features dealt to heads at random, minus their own.
    """
    head, kind = (one[one >= 0] for one in owned(sae, parts))
    kinds = one_hot(kind, len(KINDS)).double()
    yield row("features", "judged", len(kinds), other=what)
    yield from (row("share", name, number(of), other=what) for name, of in zip(KINDS, kinds.T, strict=True))
    for which in range(parts.shape[1]):
        some = kinds[head == which]
        yield row("owned", f"H{which}", len(some), other=what)
        if len(some) >= FEATURES:
            yield row("number of kinds", f"H{which}", number(some, effective), other=what)
    orders = [torch.randperm(len(head), generator=generator(0, "features dealt", deal)) for deal in range(DEALS)]
    own, *dealt = (mean_kinds(kinds, some) for some in (head, *(head[order] for order in orders)))
    yield row("mean kinds", "own", own, other=what)
    yield row("specialised", "heads", min(dealt) - own, other=what)


def mean_kinds(kinds: Float[Tensor, "feature kind"], head: Int[Tensor, "feature"]) -> float:
    """The mean effective number of kinds over heads with enough features; NaN if there is none."""
    some = [kinds[head == one].mean(0) for one, size in enumerate(head.bincount()) if size >= FEATURES]
    return float(torch.stack([effective(one) for one in some]).mean()) if some else float("nan")
