"""Known features and how many an autoencoder recovers: in the hand-set layer, and in small trained models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.models.base import Model
from hopscope.probes import sparse_autoencoder as sparse
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.attention_saes import by_hand as hands
from hopscope_studies.attention_saes.features import DRAWS, MOSTLY, at_once, principal
from hopscope_studies.attention_saes.prefixes import CONDITIONS, sequences

ALIKE = 0.9  # cosine from which a direction is recovered
ENOUGH = 20  # times a token must be attended to for its mean output to be known


def by_hand_report(seed: int, sequences_read: int, training: sparse.SparseTraining) -> dict[str, Any]:
    """A report on the hand-set layers: what is recovered, from which heads, and scores of heads by prefix."""
    model = hands.by_hand(seed)
    z, held = (hands.outputs(model, hands.drawn(sequences_read, 2 * seed + other)) for other in range(2))
    known = hands.directions(model)
    found = sparse.trained(z, training.but(seed=seed))
    owner = torch.arange(hands.N_HEADS).repeat_interleave(hands.N_TOKENS)
    return {
        "known": len(known),
        "d": z.shape[1],
        "true_l0": hands.true_l0(model, hands.drawn(sequences_read, 2 * seed + 1)),
        **compared(found, z, held, known, training.but(seed=seed)),
        "right_head": right_head(found, held, known, owner),
        "prefixes": by_prefix(hands.prefix_heads(), seed),
    }


def right_head(found: sparse.SparseAutoencoder, held: Tensor, known: Tensor, owner: Tensor) -> float:
    """The share of features matching a known direction that read mostly from its head."""
    cosines = torch.nn.functional.normalize(known, dim=1) @ found.W_dec.T
    best, feature = cosines.max(1)
    there = best >= ALIKE
    shares = sparse.attribution(found, held, len(owner.unique()))[feature]
    right = shares.gather(1, owner[:, None])[:, 0] > MOSTLY
    return float(right[there].double().mean()) if there.any() else 0.0


def compared(
    found: sparse.SparseAutoencoder, z: Tensor, held: Tensor, known: Tensor, training: sparse.SparseTraining
) -> dict[str, Any]:
    """What an autoencoder recovers, next to untrained and random dictionaries and to training on shuffled data."""
    cosines = sparse.matched(known, found.W_dec)
    mixed = sparse.trained(apart(z, training.seed), training)
    l0, features = at_once(found, held), len(found.b_enc)
    return {
        "features": features,
        "l0": l0,
        "dead": float(((found.encode(z) > 0).sum(0) == 0).double().mean()),
        "explained": sparse.explained(held, found(held)),
        "explained_by_components": sparse.explained(held, principal(z, max(round(l0), 1))(held)),
        "recovered": share(cosines),
        "cosine": float(cosines.mean()),
        "cosines": cosines.quantile(torch.tensor([0.1, 0.5, 0.9])).tolist(),
        "untrained": share(sparse.matched(known, sparse.fresh(z, training).W_dec)),
        "mixed": share(sparse.matched(known, mixed.W_dec)),
        "mixed_cosine": float(sparse.matched(known, mixed.W_dec).mean()),
        "components": share(sparse.matched(known, torch.linalg.eigh(z.T.cov()).eigenvectors.T)),
        "random": [share(sparse.matched(known, random_rows(z, features, draw))) for draw in range(DRAWS)],
        "random_cosine": [float(sparse.matched(known, random_rows(z, features, draw)).mean()) for draw in range(DRAWS)],
    }


def share(cosines: Tensor) -> float:
    """The share of known directions that are recovered."""
    return float((cosines >= ALIKE).double().mean())


def apart(z: Tensor, seed: int) -> Tensor:
    """Every coordinate permuted over rows independently: this keeps its distribution, but no direction."""
    random = generator(seed, "coordinates mixed")
    return torch.stack([column[torch.randperm(len(column), generator=random)] for column in z.T], 1)


def random_rows(z: Tensor, n: int, seed: int) -> Tensor:
    """Random directions with the activations' covariance: sums of activations with random weights."""
    centred = z - z.mean(0)
    rows = torch.randint(len(z), (n, 64), generator=generator(seed, "random rows"))
    signs = torch.randn(n, 64, generator=generator(seed, "weights of random rows"))
    return torch.einsum("nk,nkd->nd", signs, centred[rows])


def by_prefix(model: Model, seed: int) -> list[dict[str, Any]]:
    """The hand-set layer's heads with their orders, and their scores by prefix length."""
    some = sequences(torch.arange(hands.N_TOKENS), 64, generator(seed, "prefixes by hand"), length=32)
    rows = torch.arange(len(some.place))
    patterns = [model(ids, cache=[hands.PATTERN])[1][hands.PATTERN] for ids in some.ids]
    found = torch.stack([pattern[rows, :, -1, some.place] for pattern in patterns])
    return [
        {"head": f"L0H{head}", "order": order, "by_prefix": dict(zip(map(str, CONDITIONS), scores, strict=True))}
        for head, (order, scores) in enumerate(zip(hands.ORDERS, found.mean(1).T.tolist(), strict=True))
    ]


# Trained models


def toy_report(model: Model, task: RepeatedSegment, n: int, training: sparse.SparseTraining) -> dict[str, Any]:
    """A small model's second layer: its known directions are its mean outputs, by the token attended to most."""
    z, token = attended(model, task, n, "activations of a toy")
    held, _ = attended(model, task, n, "others of a toy")
    centre = z.mean(0)
    counts = torch.bincount(token, minlength=int(task.d_vocab))
    sums = torch.zeros(len(counts), z.shape[1]).index_add_(0, token, z - centre)
    known = (sums / counts.clamp(min=1)[:, None])[counts >= ENOUGH]
    found = sparse.trained(z, training)
    return {
        "known": len(known),
        "d": z.shape[1],
        "told_by_token": 1 - float((z - centre - (sums / counts.clamp(min=1)[:, None])[token]).square().sum()
                                   / (z - centre).square().sum()),
        **compared(found, z, held, known, training),
    }  # fmt: skip


@torch.no_grad()
def attended(model: Model, task: RepeatedSegment, n: int, purpose: str) -> tuple[Tensor, Tensor]:
    """The second layer's outputs where a token of the second copy is predicted, and the most attended token there."""
    batch = task.sample(n, generator(0, purpose))
    names = ["blocks.1.attn.hook_z", "blocks.1.attn.hook_pattern"]
    cache = model(batch.inputs, cache=names)[1]
    asked = torch.nn.functional.pad(task.copied(batch.draw), (0, 1))
    top = cache[names[1]][:, 0].argmax(-1)
    return cache[names[0]].flatten(2)[asked], batch.inputs.gather(1, top)[asked]
