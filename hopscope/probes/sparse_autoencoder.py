"""Sparse autoencoders: activations as sparse sums of many directions (Bricken et al., 2023).

They are trained as Kissane et al. (2024, arXiv:2406.17759, section 2, and their code) train them on attention outputs:
f = ReLU((z − b_d) W_e + b_e), ẑ = f W_d + b_d, with rows of W_d of norm 1 and the loss ‖z − ẑ‖² + l1 ‖f‖₁. Dead
features are resampled from activations with large errors.
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

BETAS = (0.0, 0.9999)  # Adam's, from their code
REVIVED = 0.2  # norm of a resampled feature's encoder, as a share of the live ones' (Bricken et al.)
WATCHED = 4096  # rows on which a feature that is never active counts as dead


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
    """An encoder and a decoder.

    Attributes:
        W_enc: (d, feature).
        W_dec: (feature, d), with rows of norm 1.
        b_enc: (feature,).
        b_dec: (d,), in units of the activations divided by `scale`.
        scale: the number that activations are divided by.
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
        """The activation of each feature, 0 or more."""
        return torch.relu((z / self.scale - self.b_dec) @ self.W_enc + self.b_enc)

    def decode(self, f: Features) -> Vectors:
        """The activations that are reconstructed from features."""
        return (f @ self.W_dec + self.b_dec) * self.scale

    def forward(self, z: Vectors) -> Vectors:
        """The reconstructed activations."""
        return self.decode(self.encode(z))

    def loss(self, z: Vectors, l1: float) -> Tensor:
        """Mean over vectors of the squared error plus `l1` times the sum of features."""
        f = self.encode(z)
        left = z / self.scale - f @ self.W_dec - self.b_dec
        return left.square().sum(1).mean() + l1 * f.sum(1).mean()

    @torch.no_grad()
    def project(self) -> None:
        """Remove from the decoder's gradient the part that would change its rows' norms."""
        assert self.W_dec.grad is not None
        self.W_dec.grad -= (self.W_dec.grad * self.W_dec).sum(1, keepdim=True) * self.W_dec

    @torch.no_grad()
    def normalise(self) -> None:
        """Rescale the decoder's rows to norm 1."""
        self.W_dec.div_(self.W_dec.norm(dim=1, keepdim=True))


def trained(z: Vectors, settings: SparseTraining) -> SparseAutoencoder:
    """An autoencoder trained on activations; equal arguments give equal weights. Raises BadInput for under two rows.

    Activations are divided by one number, so that their deviation from the mean has a mean square of 1 per dimension.
    """
    if len(z) < 2:
        raise BadInput(f"a sparse autoencoder learns from two vectors or more; got {len(z)}")
    sae = fresh(z, settings)
    optimizer = torch.optim.Adam(sae.parameters(), lr=settings.lr, betas=BETAS)
    random = generator(settings.seed, "batches of an autoencoder")
    for step in range(settings.steps):
        batch = z[torch.randint(len(z), (settings.batch,), generator=random)]
        sae.loss(batch, settings.l1).backward()
        sae.project()
        optimizer.step()
        optimizer.zero_grad()
        sae.normalise()
        if revival(step, settings):
            revive(sae, optimizer, z[torch.randint(len(z), (WATCHED,), generator=random)], random)
    return sae.requires_grad_(False)


def fresh(z: Vectors, settings: SparseTraining) -> SparseAutoencoder:
    """An untrained autoencoder with the activations' mean and scale."""
    random = generator(settings.seed, "weights of an autoencoder")
    sae = SparseAutoencoder(z.shape[1], round(settings.expansion * z.shape[1]), random)
    with torch.no_grad():
        sae.scale.copy_((z - z.mean(0)).square().mean().sqrt().clamp(min=1e-12))
        sae.b_dec.copy_(z.mean(0) / sae.scale)
    return sae


def revival(step: int, settings: SparseTraining) -> bool:
    """Whether dead features are resampled after this update: evenly spaced over the first half of training."""
    every = settings.steps // (2 * settings.revivals) if settings.revivals else 0
    return every > 0 and (step + 1) % every == 0 and (step + 1) // every <= settings.revivals


@torch.no_grad()
def revive(sae: SparseAutoencoder, optimizer: torch.optim.Adam, z: Vectors, random: torch.Generator) -> None:
    """Point dead features at activations, drawn with probability proportional to the square of their squared errors."""
    silent = (sae.encode(z) > 0).sum(0) == 0
    left = ((z - sae(z)) / sae.scale).square().sum(1)
    count = int(silent.sum())
    if not count or not float(left.sum()):
        return
    chosen = z[torch.multinomial(left.square(), count, replacement=True, generator=random)]
    towards = chosen / sae.scale - sae.b_dec
    towards /= towards.norm(dim=1, keepdim=True).clamp(min=1e-12)
    length = sae.W_enc[:, ~silent].norm(dim=0).mean() if (~silent).any() else torch.ones(())
    sae.W_dec[silent] = towards
    sae.W_enc[:, silent] = REVIVED * length * towards.T
    sae.b_enc[silent] = 0
    for weight, index in ((sae.W_dec, (silent,)), (sae.W_enc, (slice(None), silent)), (sae.b_enc, (silent,))):
        for name in ("exp_avg", "exp_avg_sq"):
            optimizer.state[weight][name][index] = 0


# Evaluation


def matched(truth: Float[Tensor, "known d"], learnt: Float[Tensor, "feature d"]) -> Float[Tensor, "known"]:
    """For each known direction the cosine (−1 to 1) of the feature matched to it, one to one; 0 if none is left.

    The most similar pair is matched first and removed, and so on. If known directions differ by more than twice the
    angle of a cosine, no other matching has more pairs above that cosine.
    """
    cosines = nn.functional.normalize(truth, dim=1) @ nn.functional.normalize(learnt, dim=1).T
    best = torch.zeros(len(truth))
    for _ in range(min(cosines.shape)):
        i, j = divmod(int(cosines.argmax()), cosines.shape[1])
        best[i] = cosines[i, j]
        cosines[i], cosines[:, j] = -torch.inf, -torch.inf
    return best


def explained(z: Vectors, again: Vectors) -> float:
    """The share of the activations' variance that a reconstruction keeps; negative if it is worse than the mean."""
    return 1 - float((z - again).square().sum() / (z - z.mean(0)).square().sum())


def attribution(sae: SparseAutoencoder, z: Vectors, n_heads: int) -> Float[Tensor, "feature head"]:
    """The mean contribution of each head to each feature's input where the feature is active, as shares of their sum.

    For activations that are all heads' outputs concatenated: a head's rows of W_e times its output (the paper's section
    2.2). Negative contributions count as 0; a feature that is never active has only zeros.
    """
    there = (sae.encode(z) > 0).float()
    centred = z / sae.scale - sae.b_dec
    heads = zip(centred.chunk(n_heads, 1), sae.W_enc.chunk(n_heads, 0), strict=True)
    parts = torch.stack([(there * (part @ rows)).sum(0) for part, rows in heads], 1).clamp(min=0)
    return parts / parts.sum(1, keepdim=True).clamp(min=1e-12)
