"""Probes: which pieces of its chain a position holds after each layer, and which it may (Musat, ICLR 2025, section 5).

The paper's theorem 1 counts pieces of information: the symbols x_0 … x_D of a chain, and the places p_1 … p_D of its
pairs. Within its model of attention every position holds a contiguous run of them, which at most triples with each
layer. Here the pieces are looked for in trained models: a linear probe per residual stream, role and piece.

- **A probe is judged by naming.** A ridge regression predicts the symbol's numbers (of a pair: the code of its place);
  the prediction names one of the N candidates that the sequence offers for this piece, one per chain. Whoever knows
  nothing of the chain names the right one in 1/N of all cases: chains are exchangeable, and steps are shuffled
  independently of each other. So a piece counts as *decoded* when the accuracy's interval lies above 1/N.
- **R² alone misleads.** A head that spreads evenly over one step's N candidates finds them by place alone and follows
  no chain; but the mean of N independent symbols predicts each of them with R² = 1/N. A place p_k has no such floor:
  candidates are the same in every sequence, so their mean is a constant, and R² = 0.
- **A mask may tell chains apart.** Under a causal mask the first token of a pair sees the second tokens of the pairs
  before it, and never its own: what it sees there belongs to other chains. Whoever excludes some candidates names the
  right one more often than 1/N, and one who follows them less often, without holding anything of it. Cells that this
  can concern are marked `excludable`; what is decoded there is no breach of the reach.
- **Sequences are the units.** The N chains of a sequence share its candidates, and the model may tell one by excluding
  the others. So the interval is Wilson's, with the number of independent answers estimated from the variance between
  sequences (at least one per sequence, at most N), and simultaneous over all probes (Bonferroni).

What is decoded is there; what is not decoded may still be there, in a form that no linear map reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import cast

import numpy
import torch
from jaxtyping import Bool, Float, Int
from pandas import DataFrame
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.base import Model
from hopscope.models.transformer import MLP, Architecture, Block, Transformer
from hopscope.problem.paths import role_name
from hopscope.problem.shapes import parse_order
from hopscope.problem.symbols import position_code
from hopscope.tasks.base import Batch
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory.flow import Chain, reach

#: Ridge strengths to choose from, relative to the mean variance of a feature.
STRENGTHS = tuple(10.0**power for power in range(-6, 2))
LEVEL = 0.95  # of all intervals together
MOST_SHUFFLED = 6  # hops: with more, going through all orders of the steps takes too long
CHUNK = 1 << 24  # numbers of the residual streams that are held at a time


# What is looked for ----------------------------------------------------------------------------------------------


def piece_names(n_hops: int) -> list[str]:
    """A chain's pieces in their order along it: `x0`, `p1`, `x1`, `p2`, … `xD`; 2D + 1 of them."""
    return [f"p{(i + 1) // 2}" if i % 2 else f"x{i // 2}" for i in range(2 * n_hops + 1)]


@dataclass(frozen=True)
class Reach:
    """What the information-flow model, with many heads, lets every position hold after 0, 1, 2 … layers.

    Attributes:
        allowed: pieces of its own chain that a position may hold. Places are query, key[1], value[1], key[2] …
        excludable: pieces that it may not hold, but of which it may know that some candidates are not its own.
    """

    allowed: Bool[numpy.ndarray, "stream place piece"]
    excludable: Bool[numpy.ndarray, "stream place piece"]


def reach_of(task: Retrieval, n_layers: int, causal: bool) -> Reach:
    """The reach after 0 … n_layers layers. With shuffled steps a piece is allowed if some order of them allows it.

    Raises:
        BadInput: steps are shuffled, and there are more than `MOST_SHUFFLED`.
    """
    order = parse_order(task.order, task.n_hops)
    if order is None and task.n_hops > MOST_SHUFFLED and causal:
        raise BadInput(f"the reach in shuffled order is counted for at most {MOST_SHUFFLED} hops; got {task.n_hops}")
    steps = tuple(range(1, task.n_hops + 1))
    orders = [order or steps] if order or not causal else list(itertools.permutations(steps))
    each = [reach_along(Chain(task.n_hops, listed, causal), n_layers) for listed in orders]
    allowed = numpy.logical_or.reduce([one.allowed for one in each])
    excludable = numpy.logical_or.reduce([one.excludable for one in each])
    return Reach(allowed, excludable & ~allowed)


def reach_along(chain: Chain, n_layers: int) -> Reach:
    """The reach where the steps are presented in one order."""
    pieces = places = range(chain.last + 1)
    allowed = numpy.array(
        [[[low <= piece <= high for piece in pieces] for low, high in held] for held in reach(chain, n_layers)]
    )
    visible = numpy.array([[chain.sees(query, key) for key in places] for query in places])
    # key[k], at place 2k - 1, sees value[k] of chains presented before its own, and knows that none of them is its own.
    others = numpy.zeros_like(visible)
    if chain.causal:
        others[range(1, chain.last, 2), range(2, chain.last + 1, 2)] = True
    known = [allowed[0]]  # of some chain: one's own, or one that is known to be another
    for held in allowed[:-1]:
        attends = (visible & (held @ held.T)) | others
        known.append(attends @ known[-1])
    return Reach(allowed, numpy.stack(known) & ~allowed)


@dataclass(frozen=True)
class Sought:
    """Where to look in a batch, and for what.

    Attributes:
        positions: of each place along the chain (query, key[1] …), for each chain.
        candidates: for each piece what the chains have there: the symbols' numbers, or the codes of the pairs' places.
        right: which candidate is to be named, for each chain.
    """

    positions: Int[Tensor, "batch place chain"]
    candidates: Float[Tensor, "batch piece chain number"]
    right: Int[Tensor, "batch chain"]

    @property
    def targets(self) -> Float[Tensor, "batch chain piece number"]:
        """What the probes are to predict."""
        index = self.right[:, None, :, None].expand_as(self.candidates)
        return self.candidates.gather(2, index).transpose(1, 2)


def sought(task: Retrieval, batch: Batch, shuffled: torch.Generator | None = None) -> Sought:
    """The pieces of a batch; with a generator those of a chain drawn at random, which may be one's own."""
    n = task.n_chains
    chain, symbols = batch.roles.chain, batch.draw["symbols"]
    named = [batch.roles.index(role_name(place)) for place in range(2 * task.n_hops + 1)]
    chains = torch.arange(n, device=chain.device)
    positions = (chain[:, named, :, None] == chains).int().argmax(2)  # batch place chain
    number = torch.cat([task.sheet.query_symbols[:, None], task.sheet.answers], 1).to(symbols.device)  # chain hop
    held = symbols[:, number.T]  # batch hop chain number
    # The place of a pair is the code that its first token carries, at place 2k - 1 along the chain.
    codes = batch.inputs[..., task.d_symbol :]
    first = positions[:, 1::2].flatten(1)
    places = codes.gather(1, first[..., None].expand(-1, -1, codes.shape[-1])).unflatten(1, (-1, n))
    candidates = held.new_empty(len(held), 2 * task.n_hops + 1, n, task.d_symbol)
    candidates[:, 0::2], candidates[:, 1::2] = held, places
    right = chains.expand(len(held), n)
    if shuffled is not None:
        right = torch.rand(right.shape, generator=shuffled, device=shuffled.device).argsort(-1)
    return Sought(positions, candidates, right)


# Looking for it --------------------------------------------------------------------------------------------------


def probe(
    model: Model,
    task: Retrieval,
    n_train: int = 4000,
    n_select: int = 1000,
    n_test: int = 4000,
    seed: int = 0,
    *,
    shuffled: bool = False,
    tests: int | None = None,
) -> DataFrame:
    """Which pieces of its chain every position of a model holds, after every layer.

    All probes of one stream and role share one Gram matrix and one eigendecomposition; sequences are seen in chunks
    and forgotten.

    Args:
        model: reads the task's sequences.
        task: plain retrieval.
        n_train: sequences on which the probes are fitted,
        n_select: on which their ridge strength is chosen,
        n_test: and on which they are judged; at least 2 each.
        seed: of these sequences, which share nothing with training or with each other.
        shuffled: ask for the pieces of a randomly drawn chain instead: a control in which, by construction, nothing
            can be decoded.
        tests: over how many probes together the intervals are to hold; by default those of this call.

    Returns:
        A row per stream, role and piece: layer (layers passed; 0 is the embedding), role, piece, kind (`symbol` or
        `position`), accuracy (0–1), low and high (its interval), floor (1/N), r2 (on held-out sequences), r2_floor
        (1/N for a symbol, 0 for a position), allowed (by the information-flow model), excludable (see above) and
        decoded (low > floor). A breach of the reach is decoded and neither allowed nor excludable.

    Raises:
        BadInput: the task is not plain retrieval, or a number of sequences is below 2.
    """
    if not isinstance(task, Retrieval):
        raise BadInput(f"probes know the pieces of plain retrieval alone; got {getattr(task, 'name', lambda: task)()}")
    if min(n_train, n_select, n_test) < 2:
        raise BadInput(f"every set must have at least 2 sequences; got {n_train}, {n_select} and {n_test}")
    fitted = moments(model, task, n_train, seed, "train", shuffled)
    chosen = moments(model, task, n_select, seed, "select", shuffled)
    probes = [
        [Probe.fit(train, select, task.d_symbol) for train, select in zip(*places, strict=True)]
        for places in zip(fitted, chosen, strict=True)
    ]
    score = Score(len(probes), 2 * task.n_hops + 1)
    for streams, aim in seen(model, task, n_test, seed, "test", shuffled):
        score.n += len(aim.right)
        for layer, stream in enumerate(streams):
            for place, of_place in enumerate(probes[layer]):
                score.add(layer, place, of_place, at(stream, aim, place), aim)
    return score.table(task, model.architecture.causal, tests)


def seen(
    model: Model, task: Retrieval, n: int, seed: int, purpose: str, shuffled: bool
) -> Iterator[tuple[list[Float[Tensor, "batch position d_model"]], Sought]]:
    """Every residual stream on n sequences, from the embedding on, in chunks, with what is sought there."""
    n_layers, d_model = model.architecture.n_layers, model.architecture.d_model
    names = ["blocks.0.hook_resid_pre", *(f"blocks.{layer}.hook_resid_post" for layer in range(n_layers))]
    size = max(1, min(512, CHUNK // (task.n_positions * d_model * len(names))))
    random = generator(seed, f"probe {purpose}", 0, model.device)
    drawn = generator(seed, f"probe {purpose} shuffled", 0, model.device) if shuffled else None
    while n > 0:
        batch = task.sample(min(n, size), random)
        with torch.no_grad():
            cache = model(batch.inputs, cache=names, at=slice(0, 0))[1]
        yield [cache[name] for name in names], sought(task, batch, drawn)
        n -= size


def at(
    stream: Float[Tensor, "batch position d_model"], aim: Sought, place: int
) -> Float[Tensor, "batch chain d_model"]:
    """The residual vectors at one place along each chain."""
    index = aim.positions[:, place, :, None].expand(-1, -1, stream.shape[-1])
    return stream.gather(1, index)


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


def moments(model: Model, task: Retrieval, n: int, seed: int, purpose: str, shuffled: bool) -> list[list[Moments]]:
    """The moments of every stream and place, over n sequences."""
    n_places = 2 * task.n_hops + 1
    found = [[Moments() for _ in range(n_places)] for _ in range(model.architecture.n_layers + 1)]
    for streams, aim in seen(model, task, n, seed, purpose, shuffled):
        targets = aim.targets.flatten(0, 1).flatten(1)
        for stream, places in zip(streams, found, strict=True):
            for place, sums in enumerate(places):
                sums.add(at(stream, aim, place).flatten(0, 1), targets)
    return found


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


class Score:
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


# A breach, by hand -----------------------------------------------------------------------------------------------


def breach(task: Retrieval) -> Transformer:
    """A transformer that answers one hop in one layer, where two are needed: theorem 1's premise, broken on purpose.

    Lemma 1 leaves out heads that attend by absolute position alone. Here one head per token of the facts does: from
    everywhere it attends to that token, whatever is there, and copies its symbol. So the query comes to hold all N
    pairs and its own symbol side by side, and the MLP compares. With u a component of (query − key) and v + S > 0 one
    of the value, shifted,

        g(v + S + Mu) + g(v + S − Mu) − g(Mu) − g(−Mu) = 2(v + S) where u = 0, and v + S where M|u| is large,

    where g is the GELU, which far from 0 is max(0, ·). The sum over all pairs, less what every pair gives, is the value
    of the pair that matches. It errs where another key comes as close as (v + S)/M in that component.

    Raises:
        BadInput: the task has more than one hop, or steps that cannot be told by their place (pair codes).
    """
    if task.n_hops != 1 or task.position_code != "token":
        raise BadInput("the breach is built for one hop and a position code per token")
    n, k = task.n_chains, task.d_symbol
    shape = Architecture(
        n_layers=1, n_heads=2 * n, d_model=(2 * n + 3) * k, d_head=k, d_mlp=n * (2 * k + 2), layer_norm=False
    )
    model = Transformer.for_task(shape, task)
    answer = slice((2 * n + 2) * k, None)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.W_E[:, : 2 * k] = torch.eye(2 * k)
        model.W_U[answer] = torch.eye(k)
        attend_by_place(model, task)
        compare(model, n, k)
    return model.eval()


SHARP = 200.0  # scores' factor: a place t tokens away scores less by SHARP · (2 − cos t − cos t/10) at K = 4
STEEP = 2000.0  # M above
SHIFT = 6.0  # S above: hardly any standard normal number is so low


def attend_by_place(model: Transformer, task: Retrieval) -> None:
    """Head j attends to token j from everywhere, and copies its symbol into a register of its own.

    Of the values, at odd tokens, the negative is written into the answer's register too: what every pair gives.
    """
    k, attention = task.d_symbol, cast(Block, model.blocks[0]).attn
    own, place = slice(0, k), slice(k, 2 * k)
    codes = position_code(torch.arange(2 * task.n_chains), k, task.position_base)
    for j, code in enumerate(codes):
        attention.b_QKV[0, j] = SHARP * k**0.5 * code
        attention.W_QKV[1, j, place] = torch.eye(k)
        attention.W_QKV[2, j, own] = torch.eye(k)
        attention.W_O[j, :, (j + 2) * k : (j + 3) * k] = torch.eye(k)
        if j % 2:
            attention.W_O[j, :, -k:] = -torch.eye(k)


def compare(model: Transformer, n_pairs: int, k: int) -> None:
    """The MLP's neurons: of each pair one couple that compares, and one for every number of its value."""
    mlp = cast(MLP, cast(Block, model.blocks[0]).mlp)
    for pair in range(n_pairs):
        key, value = (2 * pair + 2) * k, (2 * pair + 3) * k
        for sign in (1, -1):
            couple = pair * (2 * k + 2) + (sign < 0) * (k + 1)
            neurons = slice(couple, couple + k + 1)
            mlp.W_in[0, neurons] = sign * STEEP
            mlp.W_in[key, neurons] = -sign * STEEP
            mlp.W_in[value : value + k, couple : couple + k] = torch.eye(k)
            mlp.b_in[couple : couple + k] = SHIFT
            mlp.W_out[couple : couple + k, -k:] = torch.eye(k)
            mlp.W_out[couple + k, -k:] = -1.0
    mlp.b_out[-k:] = -(n_pairs + 1) * SHIFT
