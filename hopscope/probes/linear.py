"""Linear probes: ridge regressions from sums over sequences, and how well they name a piece on others.

A probe names the candidate that is nearest to what it predicts; an accuracy has Wilson's interval, for answers that
depend on each other within a sequence. Why it is judged so says `hopscope.probes.reach`.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy
import torch
from jaxtyping import Float, Int
from pandas import DataFrame
from torch import Tensor

from hopscope.probes.pieces import Sought, piece_names, reach_of
from hopscope.problem.paths import role_name
from hopscope.tasks.retrieval import Retrieval

#: Ridge strengths to choose from, relative to the mean variance of a feature.
STRENGTHS = tuple(10.0**power for power in range(-6, 2))
LEVEL = 0.95  # of all intervals together


class Moments:
    """Sums over sequences from which a ridge regression follows: of features, targets and their products."""

    def __init__(self) -> None:
        self.n = 0
        self.sums: list[Tensor] = []

    def add(self, features: Float[Tensor, "row feature"], targets: Float[Tensor, "row target"]) -> None:
        """Take in some rows. Sums are float64: a variance is the small difference of large ones."""
        self.n += len(features)
        x, y = features.double(), targets.double()
        parts = [x.sum(0), y.sum(0), x.T @ x, x.T @ y, y.square().sum(0)]
        self.sums = [a + b for a, b in zip(self.sums, parts, strict=True)] if self.sums else parts

    def about(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean products about a centre: features with features, with targets, and the targets' squares."""
        sx, sy, xx, xy, yy = (part / self.n for part in self.sums)
        cross = xx - torch.outer(x, sx) - torch.outer(sx, x) + torch.outer(x, x)
        return cross, xy - torch.outer(x, sy) - torch.outer(sx, y) + torch.outer(x, y), yy - 2 * y * sy + y.square()


@dataclass(frozen=True)
class Probe:
    """The probes of one stream and place: for all pieces one linear map, each with its own ridge strength.

    Attributes:
        weight, bias: the map, from residual vectors to the distance of the targets from their mean.
        mean: of the targets, on the training set.
        slope: for each piece the regression of the prediction on the truth (0–1). A ridge regression that knows little
            stays near the mean, so the candidates are drawn together as much before the nearest is named: else it
            would name the shortest one, whatever it knows.
    """

    weight: Float[Tensor, "feature target"]
    bias: Float[Tensor, "target"]
    mean: Float[Tensor, "piece number"]
    slope: Float[Tensor, "piece"]

    @classmethod
    def fit(cls, train: Moments, select: Moments, d_piece: int) -> Probe:
        """Ridge regressions of every strength on the training set; per piece the one that errs least on the other."""
        x, y = train.sums[0] / train.n, train.sums[1] / train.n
        xx, xy, _ = train.about(x, y)
        # Features are brought to one variance, so that strengths mean the same in every stream; but not one that only
        # varies by rounding.
        spread = xx.diagonal().clamp(min=0).sqrt()
        scale = torch.where(spread > 1e-5 * x.abs().clamp(min=spread.max()), 1 / spread, 0.0)
        values, vectors = torch.linalg.eigh(xx * scale * scale[:, None])
        onto = vectors.T @ (xy * scale[:, None])
        shrunk = torch.stack([onto / (values.clamp(min=0)[:, None] + strength) for strength in STRENGTHS])
        weights = scale[:, None] * (vectors @ shrunk)  # strength feature target
        # Errors on the selection set follow from its moments, without looking at it again.
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
        """How far from its mean each piece is, by the probes."""
        return (features @ self.weight + self.bias).unflatten(-1, self.mean.shape)

    def name(
        self, predicted: Float[Tensor, "batch chain piece number"], aim: Sought
    ) -> Int[Tensor, "batch chain piece"]:
        """The candidate that is nearest to each prediction."""
        offered = aim.candidates - self.mean[:, None]
        alike = torch.einsum("bcpk,bpjk->bcpj", predicted, offered)
        return (alike - self.slope[:, None] * offered.square().sum(-1)[:, None] / 2).argmax(-1)


class Tally:
    """Answers on the held-out sequences, summed up: for every stream, place and piece."""

    def __init__(self, n_streams: int, n_pieces: int):
        self.n = 0
        #: Per sequence the share of right answers, and its square; squared errors, and squares.
        self.sums = numpy.zeros((4, n_streams, n_pieces, n_pieces))

    def add(self, stream: int, place: int, of_place: Probe, features: Tensor, aim: Sought) -> None:
        """Take in some sequences' answers from one stream and place."""
        predicted = of_place.predict(features)
        right = (of_place.name(predicted, aim) == aim.right[..., None]).double().mean(1)  # batch piece
        truth = aim.targets - of_place.mean
        error, square = ((a.double().square().sum((0, 1, 3))) for a in (predicted - truth, truth))
        sums = torch.stack([right.sum(0), right.square().sum(0), error, square])
        self.sums[:, stream, place] += sums.numpy(force=True)

    def table(self, task: Retrieval, causal: bool, tests: int | None) -> DataFrame:
        """The rows that `probe` returns."""
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
        mean: over sequences, of the share of a sequence's answers that are right (0–1).
        mean_square: of that share squared.
        n: number of sequences.
        n_chains: answers per sequence.
        tests: how many intervals are to cover together with probability `LEVEL`.
    """
    z = NormalDist().inv_cdf(1 - (1 - LEVEL) / (2 * tests))
    between = numpy.maximum(mean_square - mean**2, 0) / (n - 1)  # variance of the mean
    with numpy.errstate(divide="ignore", invalid="ignore"):
        independent = numpy.where(between > 0, mean * (1 - mean) / between, n)
    independent = numpy.clip(independent, n, n * n_chains)
    centre = (mean + z**2 / (2 * independent)) / (1 + z**2 / independent)
    half = z / (1 + z**2 / independent) * numpy.sqrt(mean * (1 - mean) / independent + (z / (2 * independent)) ** 2)
    return centre - half, centre + half
