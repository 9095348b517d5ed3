"""Sparse autoencoders: activations as sums of few directions out of many (Bricken et al., 2023).

As they are trained on attention outputs (Kissane et al., 2024, arXiv:2406.17759, section 2, and their code):
f = ReLU(W_e (z − b_d) + b_e), ẑ = W_d f + b_d, the rows of W_d of norm 1, loss ‖z − ẑ‖² + l1 ‖f‖₁. Features that have
become silent are drawn anew from what is worst explained.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, Settings, setting

Vectors = Float[Tensor, "row d"]
Features = Float[Tensor, "row feature"]

BETAS = (0.0, 0.9999)  # of Adam (the code)
REVIVED = 0.2  # length of a revived feature's encoder, as a share of the living ones' (Bricken et al.)
WATCHED = 4096  # rows by which it is seen which features are silent


@dataclass(frozen=True)
class SparseTraining(Settings):
    """How an autoencoder is trained."""

    expansion: float = setting(4.0, "features per dimension", low=0.1, high=256)
    l1: float = setting(2.0, "weight of the sum of the features, of activations with a mean square of 1", low=0)
    lr: float = setting(5e-3, "Adam's step, for so few updates (paper: 0.0012 for 24,000)", low=0)
    batch: int = setting(512, "vectors per update (paper: 4096)", low=1)
    steps: int = setting(1500, "updates", low=0)
    revivals: int = setting(4, "times at which silent features are drawn anew, in the first half", low=0, high=100)
    seed: int = setting(0, "of initial weights and batches", low=0)


class SparseAutoencoder(nn.Module):
    """Encoder and decoder.

    Attributes:
        W_enc: d feature.
        W_dec: feature d; rows of length 1.
        b_enc: feature.
        b_dec: d, in units of the activations divided by `scale`.
        scale: what activations are divided by.
    """

    def __init__(self, d: int, n_features: int, generator: torch.Generator):
        super().__init__()
        bound = (6 / d) ** 0.5  # Kaiming's uniform draw
        self.W_enc = nn.Parameter(bound * (2 * torch.rand(d, n_features, generator=generator) - 1))
        drawn = bound * (2 * torch.rand(n_features, d, generator=generator) - 1)
        self.W_dec = nn.Parameter(drawn / drawn.norm(dim=1, keepdim=True))
        self.b_enc, self.b_dec = nn.Parameter(torch.zeros(n_features)), nn.Parameter(torch.zeros(d))
        self.register_buffer("scale", torch.ones(()))
        self.scale: Tensor

    def encode(self, z: Vectors) -> Features:
        """How strongly each feature is present, from 0."""
        return torch.relu((z / self.scale - self.b_dec) @ self.W_enc + self.b_enc)

    def decode(self, f: Features) -> Vectors:
        """The activations that features stand for."""
        return (f @ self.W_dec + self.b_dec) * self.scale

    def forward(self, z: Vectors) -> Vectors:
        """The activations, reconstructed."""
        return self.decode(self.encode(z))

    def loss(self, z: Vectors, l1: float) -> Tensor:
        """Mean over vectors of what is left, squared, and of the features' sum."""
        f = self.encode(z)
        left = z / self.scale - f @ self.W_dec - self.b_dec
        return left.square().sum(1).mean() + l1 * f.sum(1).mean()

    @torch.no_grad()
    def project(self) -> None:
        """Take from the decoder's gradient what would change its rows' lengths."""
        assert self.W_dec.grad is not None
        self.W_dec.grad -= (self.W_dec.grad * self.W_dec).sum(1, keepdim=True) * self.W_dec

    @torch.no_grad()
    def normalise(self) -> None:
        """Rows of the decoder of length 1 again."""
        self.W_dec.div_(self.W_dec.norm(dim=1, keepdim=True))


def trained(z: Vectors, settings: SparseTraining) -> SparseAutoencoder:
    """An autoencoder of some activations. Equal arguments give equal weights. Raises BadInput for fewer than two rows.

    Activations are divided by one number, after which their distance from their mean has a mean square of 1 per
    dimension.
    """
    if len(z) < 2:
        raise BadInput(f"a sparse autoencoder learns from two vectors or more; got {len(z)}")
    found = fresh(z, settings)
    optimizer = torch.optim.Adam(found.parameters(), lr=settings.lr, betas=BETAS)
    random = generator(settings.seed, "batches of an autoencoder")
    for step in range(settings.steps):
        batch = z[torch.randint(len(z), (settings.batch,), generator=random)]
        found.loss(batch, settings.l1).backward()
        found.project()
        optimizer.step()
        optimizer.zero_grad()
        found.normalise()
        if revival(step, settings):
            revive(found, optimizer, z[torch.randint(len(z), (WATCHED,), generator=random)], random)
    return found.requires_grad_(False)


def fresh(z: Vectors, settings: SparseTraining) -> SparseAutoencoder:
    """One that has learnt nothing yet but the mean and the spread of activations."""
    random = generator(settings.seed, "weights of an autoencoder")
    found = SparseAutoencoder(z.shape[1], round(settings.expansion * z.shape[1]), random)
    with torch.no_grad():
        found.scale.copy_((z - z.mean(0)).square().mean().sqrt().clamp(min=1e-12))
        found.b_dec.copy_(z.mean(0) / found.scale)
    return found


def revival(step: int, settings: SparseTraining) -> bool:
    """Whether silent features are drawn anew after this update: evenly spaced over the first half."""
    every = settings.steps // (2 * settings.revivals) if settings.revivals else 0
    return every > 0 and (step + 1) % every == 0 and (step + 1) // every <= settings.revivals


@torch.no_grad()
def revive(found: SparseAutoencoder, optimizer: torch.optim.Adam, z: Vectors, random: torch.Generator) -> None:
    """Point silent features at activations, drawn in proportion to the square of what is left of them."""
    silent = (found.encode(z) > 0).sum(0) == 0
    left = ((z - found(z)) / found.scale).square().sum(1)
    count = int(silent.sum())
    if not count or not float(left.sum()):
        return
    chosen = z[torch.multinomial(left.square(), count, replacement=True, generator=random)]
    towards = chosen / found.scale - found.b_dec
    towards /= towards.norm(dim=1, keepdim=True).clamp(min=1e-12)
    length = found.W_enc[:, ~silent].norm(dim=0).mean() if (~silent).any() else torch.ones(())
    found.W_dec[silent] = towards
    found.W_enc[:, silent] = REVIVED * length * towards.T
    found.b_enc[silent] = 0
    for weight, index in ((found.W_dec, (silent,)), (found.W_enc, (slice(None), silent)), (found.b_enc, (silent,))):
        for name in ("exp_avg", "exp_avg_sq"):
            optimizer.state[weight][name][index] = 0


# What it comes to


def matched(truth: Float[Tensor, "known d"], found: Float[Tensor, "feature d"]) -> Float[Tensor, "known"]:
    """For each known direction the cosine (−1 to 1) of the direction that is its own, one to one; 0 of what has none.

    The two most alike are paired first, and taken out. Where known directions are further apart than twice the angle
    of a cosine, no other pairing has more pairs above it.
    """
    cosines = nn.functional.normalize(truth, dim=1) @ nn.functional.normalize(found, dim=1).T
    best = torch.zeros(len(truth))
    for _ in range(min(cosines.shape)):
        i, j = divmod(int(cosines.argmax()), cosines.shape[1])
        best[i] = cosines[i, j]
        cosines[i], cosines[:, j] = -torch.inf, -torch.inf
    return best


def explained(z: Vectors, again: Vectors) -> float:
    """Share of the variance of activations that a reconstruction keeps; below 0 if it is worse than the mean."""
    return 1 - float((z - again).square().sum() / (z - z.mean(0)).square().sum())


def attribution(found: SparseAutoencoder, z: Vectors, n_heads: int) -> Float[Tensor, "feature head"]:
    """Of every feature the mean part of each head in what it reads where it is present, as shares of their sum.

    Of activations that are all heads' outputs one behind the other: W_e's rows of a head times its output (the paper's
    section 2.2). Parts below 0 count 0; a feature that is never present has none.
    """
    there = (found.encode(z) > 0).float()
    centred = z / found.scale - found.b_dec
    heads = zip(centred.chunk(n_heads, 1), found.W_enc.chunk(n_heads, 0), strict=True)
    parts = torch.stack([(there * (part @ rows)).sum(0) for part, rows in heads], 1).clamp(min=0)
    return parts / parts.sum(1, keepdim=True).clamp(min=1e-12)
