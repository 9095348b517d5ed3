"""Linear probes: ridge regressions, and how often they name the right piece on held-out sequences.

A probe names the candidate that is nearest to its prediction. An accuracy has Wilson's interval, adjusted for answers
that depend on each other within a sequence. `hopscope.probes.reach` explains why.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy
import torch
from jaxtyping import Float, Int
from pandas import DataFrame
from torch import Tensor

from hopscope.core.intervals import wilson
from hopscope.probes.pieces import Pieces, piece_names, reach_of
from hopscope.problem.paths import role_name
from hopscope.tasks.retrieval import Retrieval

#: Ridge strengths to choose from, relative to the mean variance of the features.
STRENGTHS = tuple(10.0**power for power in range(-6, 2))
LEVEL = 0.95  # simultaneous coverage of all intervals


class Moments:
    """Sums over sequences that determine a ridge regression: of features, of targets, and of their products."""

    def __init__(self) -> None:
        self.n = 0
        self.sums: list[Tensor] = []

    def add(self, features: Float[Tensor, "row feature"], targets: Float[Tensor, "row target"]) -> None:
        """Add some rows. Sums are float64, because a variance is a small difference of large numbers."""
        self.n += len(features)
        x, y = features.double(), targets.double()
        parts = [x.sum(0), y.sum(0), x.T @ x, x.T @ y, y.square().sum(0)]
        self.sums = [a + b for a, b in zip(self.sums, parts, strict=True)] if self.sums else parts

    def about(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean products about centres x and y: features with features, features with targets, and squared targets."""
        sx, sy, xx, xy, yy = (part / self.n for part in self.sums)
        cross = xx - torch.outer(x, sx) - torch.outer(sx, x) + torch.outer(x, x)
        return cross, xy - torch.outer(x, sy) - torch.outer(sx, y) + torch.outer(x, y), yy - 2 * y * sy + y.square()


@dataclass(frozen=True)
class Probe:
    """The probes of one stream and place: one linear map for all pieces, each piece with its own ridge strength.

    Attributes:
        weight, bias: the map from residual vectors to the targets' difference from their mean.
        mean: of the targets on the training set.
        slope: for each piece, the slope of the prediction as a function of the truth (0–1). A ridge regression that
            knows little predicts values near the mean. So candidates are moved towards the mean by the same factor
            before the nearest is named; otherwise the candidate closest to the mean would always be named.
    """

    weight: Float[Tensor, "feature target"]
    bias: Float[Tensor, "target"]
    mean: Float[Tensor, "piece number"]
    slope: Float[Tensor, "piece"]

    @classmethod
    def fit(cls, train: Moments, select: Moments, d_piece: int) -> Probe:
        """Ridge regressions of every strength on the training set; each piece takes the best on the selection set."""
        x, y = train.sums[0] / train.n, train.sums[1] / train.n
        xx, xy, _ = train.about(x, y)
        # Features are scaled to one variance, so that strengths mean the same in every stream, except features that
        # vary only by rounding.
        spread = xx.diagonal().clamp(min=0).sqrt()
        scale = torch.where(spread > 1e-5 * x.abs().clamp(min=spread.max()), 1 / spread, 0.0)
        values, vectors = torch.linalg.eigh(xx * scale * scale[:, None])
        onto = vectors.T @ (xy * scale[:, None])
        shrunk = torch.stack([onto / (values.clamp(min=0)[:, None] + strength) for strength in STRENGTHS])
        weights = scale[:, None] * (vectors @ shrunk)  # strength feature target
        # Errors on the selection set follow from its moments.
        xx, xy, yy = select.about(x, y)
        shared = (weights * xy).sum(1).unflatten(-1, (-1, d_piece)).sum(-1)  # strength piece
        squared = (weights * (xx @ weights)).sum(1).unflatten(-1, (-1, d_piece)).sum(-1)
        best = (squared - 2 * shared).argmin(0)
        slope = shared.gather(0, best[None])[0] / yy.unflatten(0, (-1, d_piece)).sum(-1)
        columns = best.repeat_interleave(d_piece)[None, None].expand(1, len(x), -1)
        weight = weights.gather(0, columns)[0].float()
        bias = -(x.float() @ weight)
        return cls(weight, bias, y.unflatten(0, (-1, d_piece)).float(), slope.clamp(0, 1).float())

    def predict(self, features: Float[Tensor, "batch chain feature"]) -> Float[Tensor, "batch chain piece number"]:
        """The predicted difference of each piece from its mean."""
        return (features @ self.weight + self.bias).unflatten(-1, self.mean.shape)

    def name(
        self, predicted: Float[Tensor, "batch chain piece number"], pieces: Pieces
    ) -> Int[Tensor, "batch chain piece"]:
        """The index of the candidate nearest to each prediction."""
        offered = pieces.candidates - self.mean[:, None]
        alike = torch.einsum("bcpk,bpjk->bcpj", predicted, offered)
        return (alike - self.slope[:, None] * offered.square().sum(-1)[:, None] / 2).argmax(-1)


class Tally:
    """Sums of the answers on held-out sequences, for every stream, place and piece."""

    def __init__(self, n_streams: int, n_pieces: int):
        self.n = 0
        #: Share of right answers per sequence, and its square; squared errors, and squared targets.
        self.sums = numpy.zeros((4, n_streams, n_pieces, n_pieces))

    def add(self, stream: int, place: int, of_place: Probe, features: Tensor, pieces: Pieces) -> None:
        """Add the answers of some sequences at one stream and place."""
        predicted = of_place.predict(features)
        right = (of_place.name(predicted, pieces) == pieces.right[..., None]).double().mean(1)  # batch piece
        truth = pieces.targets - of_place.mean
        error, square = ((a.double().square().sum((0, 1, 3))) for a in (predicted - truth, truth))
        sums = torch.stack([right.sum(0), right.square().sum(0), error, square])
        self.sums[:, stream, place] += sums.numpy(force=True)

    def table(self, task: Retrieval, causal: bool, tests: int | None) -> DataFrame:
        """The table that `probe` returns."""
        share, squares, error, square = self.sums
        low, high = interval(share / self.n, squares / self.n, self.n, task.n_chains, tests or share.size)
        within = reach_of(task, len(share) - 1, causal)
        rows = []
        for layer, place, piece in numpy.ndindex(share.shape):
            here = (layer, place, piece)
            rows.append(
                {
                    "layer": layer,
                    "role": role_name(place),
                    "piece": piece_names(task.n_hops)[piece],
                    "kind": "position" if piece % 2 else "symbol",
                    "accuracy": share[here] / self.n,
                    "low": low[here],
                    "high": high[here],
                    "floor": 1 / task.n_chains,
                    "r2": 1 - error[here] / square[here],
                    "r2_floor": 0.0 if piece % 2 else 1 / task.n_chains,
                    "allowed": bool(within.allowed[here]),
                    "excludable": bool(within.excludable[here]),
                    "decoded": bool(low[here] > 1 / task.n_chains),
                }
            )
        return DataFrame(rows)


def interval(
    mean: Float[numpy.ndarray, "*cell"],
    mean_square: Float[numpy.ndarray, "*cell"],
    n: int,
    n_chains: int,
    tests: int = 1,
) -> tuple[Float[numpy.ndarray, "*cell"], Float[numpy.ndarray, "*cell"]]:
    """Wilson's interval of an accuracy, for answers that depend on each other within a sequence.

    Args:
        mean: mean over sequences of the share of a sequence's answers that are right (0–1).
        mean_square: mean of that share squared.
        n: number of sequences.
        n_chains: answers per sequence.
        tests: the number of intervals that together cover with probability `LEVEL` (Bonferroni).
    """
    z = NormalDist().inv_cdf(1 - (1 - LEVEL) / (2 * tests))
    between = numpy.maximum(mean_square - mean**2, 0) / (n - 1)  # variance of the mean
    with numpy.errstate(divide="ignore", invalid="ignore"):
        independent = numpy.where(between > 0, mean * (1 - mean) / between, n)
    independent = numpy.clip(independent, n, n * n_chains)
    low, high = numpy.vectorize(wilson)(mean * independent, independent, z)
    return low, high
