"""One attention layer of a language model as sparse features: an autoencoder of its heads' outputs, and its loss.

Kissane et al. (2024, arXiv:2406.17759, sections 2 and 3). *Loss recovered* places the loss with reconstructed outputs
between the loss with outputs at zero (0) and the model's own loss (1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.experiments.reports import Row, row
from hopscope.language.lens.attention import Edit, Lens, Seen
from hopscope.language.lens.estimates import Number, beyond, number, over_needles
from hopscope.probes.sparse_autoencoder import SparseAutoencoder, SparseTraining, attribution, explained, fresh, trained
from hopscope_studies.attention_saes.kinds import by_source, kind_rows
from hopscope_studies.attention_saes.text import blocks, sha256

Watch = Callable[[str], None]
Blocks = Float[Tensor, "block position d"]

BATCH = 16
DRAWS = 10  # random dictionaries, and shuffles
SPARSE = 20  # features active at once (paper)
MOSTLY = 0.8  # share of a feature's reading that comes from one head


class Reached(Exception):
    """Ends a pass as soon as a layer's outputs are known."""


class Catch(Seen):
    """Keeps the values, patterns and outputs of all layers up to one, and ends the pass there."""

    def __init__(self, last: int):
        super().__init__()
        self.last, self.v = last, list[Tensor]()

    def inputs(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.v.append(v)
        return q, k, v

    def output(self, layer: int, z: Tensor) -> Tensor:
        super().output(layer, z)
        if layer == self.last:
            raise Reached
        return z


class Put(Edit):
    """Replaces one layer's outputs from the second position on; those at the start token stay."""

    def __init__(self, layer: int, z: Tensor):
        self.first = self.layer = layer
        self.z = z

    def output(self, layer: int, z: Tensor) -> Tensor:
        if layer != self.layer:
            return z
        return torch.cat([z[:, :1], self.z.unflatten(-1, z.shape[2:])], 1)


@torch.no_grad()
def caught(lens: Lens, ids: Tensor, last: int) -> Iterator[tuple[Tensor, Catch]]:
    """Batches of blocks, and what is caught of each up to a layer."""
    for some in ids.split(BATCH):
        seen = Catch(last)
        with suppress(Reached):
            lens.run(lens.embed(some), seen)
        yield some, seen


def outputs(lens: Lens, ids: Tensor, layer: int) -> Blocks:
    """All heads' outputs of a layer, concatenated, without those at the start token."""
    return torch.cat([seen.outputs[layer][:, 1:].flatten(2) for _, seen in caught(lens, ids, layer)])


@dataclass(frozen=True)
class Splice:
    """Held-out text, read up to a layer.

    Attributes:
        lens: the model.
        ids: block position.
        layer: the layer up to which it was read.
        streams: the residual stream before that layer; block position d_model.
        z: the layer's heads' outputs.
    """

    lens: Lens
    ids: Tensor
    layer: int
    streams: Tensor
    z: Blocks

    @classmethod
    @torch.no_grad()
    def of(cls, lens: Lens, ids: Tensor, layer: int) -> Splice:
        """Run held-out text up to a layer, and keep the stream and the outputs there."""
        streams = [lens.streams(some)[0][layer] for some in ids.split(BATCH)]
        return cls(lens, ids, layer, torch.cat(streams), outputs(lens, ids, layer))

    @torch.no_grad()
    def loss(self, z: Blocks | None = None) -> Float[Tensor, "block"]:
        """Cross-entropy (nats per token) of each block with these outputs in the layer's place, or with its own.

        The first two tokens do not count: predictions at the start token do not depend on the replaced outputs.
        """
        found = []
        for start in range(0, len(self.ids), BATCH):
            rows = slice(start, start + BATCH)
            edit = None if z is None else Put(self.layer, z[rows])
            logits = self.lens.run(self.streams[rows], edit, self.layer, all_positions=True)[:, 1:-1]
            losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), self.ids[rows, 2:], reduction="none")
            found.append(losses.mean(1))
        return torch.cat(found)


# Reconstructions to compare with


def principal(z: Tensor, count: int) -> Callable[[Tensor], Tensor]:
    """Reconstruction by the mean and the first `count` principal components."""
    mean = z.mean(0)
    _, vectors = torch.linalg.eigh((z - mean).T @ (z - mean))
    top = vectors[:, -count:]
    return lambda some: mean + (some - mean) @ top @ top.T


def random_dictionary(z: Tensor, n_features: int, active: int, seed: int) -> Callable[[Tensor], Tensor]:
    """Reconstruction by as many random directions as features: least squares on the `active` nearest to each vector.

    Directions are drawn with the activations' own covariance.
    """
    mean = z.mean(0)
    values, vectors = torch.linalg.eigh((z - mean).T @ (z - mean) / len(z))
    root = vectors * values.clamp(min=0).sqrt()
    drawn = torch.randn(n_features, z.shape[1], generator=generator(seed, "random dictionary")) @ root.T
    rows = drawn / drawn.norm(dim=1, keepdim=True)

    def again(some: Tensor) -> Tensor:
        flat = (some - mean).flatten(0, -2)
        found = [fitted(part, rows, active) for part in flat.split(1024)]
        return mean + torch.cat(found).view_as(some)

    return again


def fitted(z: Tensor, rows: Tensor, active: int) -> Tensor:
    """Least squares of each vector on the directions with which it has the largest inner products."""
    chosen = rows[(z @ rows.T).topk(active, dim=1).indices]  # vector direction d
    gram = chosen @ chosen.transpose(1, 2) + 1e-3 * torch.eye(active)
    weights = torch.linalg.solve(gram, torch.einsum("vkd,vd->vk", chosen, z))
    return torch.einsum("vk,vkd->vd", weights, chosen)


# The study of a layer


def layer_report(
    lens: Lens, layer: int, training: SparseTraining, tried: Sequence[float], counts: tuple[int, int], watch: Watch
) -> dict[str, Any]:
    """Train autoencoders on one half of the text, and measure one of them on the other half, next to controls.

    Args:
        lens: the model.
        layer: the layer whose heads' outputs are reconstructed.
        training: an autoencoder's training; its seed also decides which half is which.
        tried: weights of the L1 penalty. The smallest one is chosen at which fewer than `SPARSE` features are active at
            once in the training text; if there is none, the greatest.
        counts: numbers of blocks to train on and to measure on.
        watch: called with a description of each step.
    """
    half = training.seed % 2
    watch(f"reading {counts[0]} blocks of text up to layer {layer}")
    known = outputs(lens, blocks(lens.tokenizer, counts[0], half), layer).flatten(0, 1)
    watch(f"training autoencoders of {round(training.expansion * known.shape[1])} features")
    found = {l1: trained(known, training.but(l1=l1)) for l1 in sorted(tried)}
    sparse = [l1 for l1, one in found.items() if at_once(one, known) < SPARSE]
    l1 = min(sparse, default=max(found))
    watch(f"putting reconstructions in the layer's place in {counts[1]} blocks of other text")
    splice = Splice.of(lens, blocks(lens.tokenizer, counts[1], 1 - half), layer)
    return {
        "text": sha256(),
        "layer": layer,
        "vectors": len(known),
        "seen": training.steps * training.batch,
        "l1": l1,
        "tried": [{"l1": l1, **trial(one, known, splice)} for l1, one in found.items()],
        **told(found[l1], known, splice.z.flatten(0, 1), lens.n_heads),
        **recovered(found[l1], known, splice),
    }


def layer_kinds(
    lens: Lens, layers: Sequence[int], training: SparseTraining, counts: tuple[int, int], watch: Watch
) -> Iterator[Row]:
    """Rows on the kinds of features of several layers, by sources in other text than an autoencoder was trained on.

    Controls name sources after another block's tokens, and take features before training. `step` is the layer.
    """
    half = training.seed % 2
    text, other = (blocks(lens.tokenizer, n, which) for n, which in zip(counts, (half, 1 - half), strict=True))
    for at in layers:
        watch(f"reading {sum(counts)} blocks of text up to layer {at}, and training an autoencoder")
        known, held = outputs(lens, text, at).flatten(0, 1), list(caught(lens, other, at))
        sae = trained(known, training)
        own, foreign = (
            torch.cat([by_source(seen.patterns[at], seen.v[at], some.roll(by, 0)) for some, seen in held])
            for by in (0, 1)
        )
        z = own.sum(2).flatten(1)
        rows = [
            row("autoencoder", "l0", at_once(sae, z)),
            row("autoencoder", "explained", explained(z, sae(z))),
            *kind_rows(sae, own, "own"),
            *kind_rows(sae, foreign, "another's"),
            *kind_rows(fresh(known, training).requires_grad_(False), own, "untrained"),
        ]
        yield from ({**one, "step": at} for one in rows)


def at_once(found: SparseAutoencoder, z: Tensor) -> float:
    """The mean number of features active at once."""
    return float((found.encode(z) > 0).double().sum(-1).mean())


def trial(found: SparseAutoencoder, known: Tensor, splice: Splice) -> dict[str, Any]:
    """An autoencoder's sparsity on both halves of the text, and what it explains and recovers of the other half."""
    again = found(splice.z)
    clean, zero = splice.loss(), splice.loss(torch.zeros_like(splice.z))
    return {
        "trained_l0": at_once(found, known),
        "l0": at_once(found, splice.z),
        "explained": explained(splice.z.flatten(0, 1), again.flatten(0, 1)),
        "recovered": share(clean, zero, splice.loss(again)),
    }


def told(found: SparseAutoencoder, known: Tensor, held: Tensor, n_heads: int) -> dict[str, Any]:
    """An autoencoder's sparsity, dead features and explained variance, and the heads that its features read from."""
    shares, fired = attribution(found, held, n_heads), (found.encode(held) > 0).double().mean(0)
    alive = fired > 0
    mean = held.mean(0)
    top = shares[alive].max(1).values
    return {
        "d": held.shape[1],
        "features": len(fired),
        "l0": float(fired.sum()),
        "dead": float(((found.encode(known) > 0).sum(0) == 0).double().mean()),
        "silent": float((~alive).double().mean()),
        "dense": float((fired > 0.1).double().mean()),
        "explained": explained(held, found(held)),
        "explained_by_mean": explained(held, mean.expand_as(held)),
        "explained_by_components": explained(held, principal(known, max(round(float(fired.sum())), 1))(held)),
        "of_one_head": float((top > MOSTLY).double().mean()),
        "by_head": torch.bincount(shares[alive].argmax(1), minlength=n_heads).tolist(),
        "top_share": top.quantile(torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])).tolist(),
    }


def recovered(found: SparseAutoencoder, known: Tensor, splice: Splice) -> dict[str, Any]:
    """Losses with each reconstruction in place of the layer's outputs, and the recovered share, with intervals."""
    z, l0 = splice.z, max(round(at_once(found, splice.z)), 1)
    clean, zero = splice.loss(), splice.loss(torch.zeros_like(z))
    again = found(z)
    put = {"features": again, "mean": known.mean(0).expand_as(z), "components": principal(known, l0)(z)}
    for draw in range(DRAWS):
        put[f"random {draw}"] = random_dictionary(known, len(found.b_enc), l0, draw)(z)
        put[f"shuffled {draw}"] = shuffled(again, draw)
    losses = {name: splice.loss(one) for name, one in put.items()}
    return {
        "losses": {name: number(one) for name, one in {"clean": clean, "zero": zero, **losses}.items()},
        "cost_of_zero": number(zero - clean),
        "recovered": {name: share(clean, zero, one) for name, one in losses.items()},
        "beyond": {
            kind: below(losses["features"], [one for name, one in losses.items() if name.startswith(kind)])
            for kind in ("random", "shuffled", "components", "mean")
        },
    }


def shuffled(z: Blocks, seed: int) -> Blocks:
    """All vectors, permuted over positions and blocks."""
    flat = z.flatten(0, 1)
    return flat[torch.randperm(len(flat), generator=generator(seed, "shuffled activations"))].view_as(z)


def share(clean: Tensor, zero: Tensor, loss: Tensor) -> Number:
    """Loss recovered: 0 for outputs at zero, 1 for the layer itself."""
    rows = torch.stack([zero - loss, zero - clean], 1)
    return over_needles(lambda means: means[:, 0] / means[:, 1], rows, range(len(rows)))


def below(loss: Tensor, beside: list[Tensor]) -> Number:
    """By how much a loss is below the lowest of others (nats), which is found anew in every bootstrap sample."""
    return beyond(-loss, [-one for one in beside], range(len(loss)))
