"""A segment of random tokens, pasted twice into random tokens (Song, Xu and Zhong, 2024, arXiv:2408.09503, section 3).

Settings are those of the authors' code (JiajunSong629/ood-generalization-via-composition, synthetic-experiments).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations

import numpy
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import NOT_ASKED, BestAnswer
from hopscope.tasks.base_one_answer import OneAnswerTask

BAYES_SAMPLE = 1024  # sequences for estimating the Bayes loss


@dataclass(frozen=True)
class RepeatedSegment(OneAnswerTask):
    """Random tokens, into which one segment is pasted twice; the second copy is to be continued.

    ```
    c f [a b e d] g a c [a b e d] f   ->   after the second a b: e, then d
    ```

    All tokens are independent, the segment's too. The segment's length and its two places are uniformly distributed.
    The first `skipped` tokens of the second copy are not asked, because nothing shows yet that it has begun. Other
    sequences for the same model, with longer segments or other frequencies of tokens, are those of `but(…)`.
    """

    length: int = setting(32, "number of tokens (paper: 64)", low=4, high=4096)
    d_vocab: int = setting(64, "number of different tokens (code: 32 or 64)", low=2, high=65536)  # type: ignore[assignment]
    shortest: int = setting(6, "least length of a segment (code: 10)", low=2, high=2048)
    longest: int = setting(9, "greatest length of a segment (code: 19)", low=2, high=2048)
    frequencies: str = setting(
        "zipf",
        "frequencies of tokens: uniform; zipf, 1/(i + 2.7); two_level, four tokens with 1/8 each and equal others",
        choices=("uniform", "zipf", "two_level"),
    )
    skipped: int = setting(2, "tokens of the second copy that are not asked (code: 4)", low=1, high=1024)
    pool: int = setting(0, "number of different segments in all sequences; 0: a fresh one in each", low=0, high=1 << 20)
    pool_share: float = setting(1.0, "share of the sequences whose segment is from the pool", low=0, high=1)
    pool_seed: int = setting(0, "of the pool", low=0)
    asked: str = setting(
        "copy", "the tokens that the loss covers: the second copy, or all (paper)", choices=("copy", "all")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest < self.shortest:
            raise BadInput(f"longest must be at least shortest, {self.shortest}; got {self.longest}")
        if self.skipped >= self.shortest:
            raise BadInput(f"skipped must be below shortest, {self.shortest}; got {self.skipped}")
        if self.length < 2 * self.longest + 2:
            raise BadInput(f"length must be at least {2 * self.longest + 2}, to hold two copies; got {self.length}")
        if self.frequencies == "two_level" and self.d_vocab <= 4:
            raise BadInput(f"d-vocab must be above 4 for two_level frequencies; got {self.d_vocab}")

    query_positions = slice(0, -1)
    asked_hops = slice(0, 1)

    @property
    def hop_names(self) -> tuple[str, ...]:
        """`copy`, the second copy except for its beginning; if all is asked also `rest`, everything else."""
        return ("copy",) if self.asked == "copy" else ("rest", "copy")

    @cached_property
    def probabilities(self) -> Float[Tensor, "token"]:
        """The probability of each token that is not copied."""
        if self.frequencies == "uniform":
            return torch.full((self.d_vocab,), 1 / self.d_vocab)
        if self.frequencies == "zipf":
            weights = 1 / (torch.arange(1, self.d_vocab + 1) + 2.7)
            return weights / weights.sum()
        rest = torch.full((self.d_vocab - 4,), 0.5 / (self.d_vocab - 4))
        return torch.cat([torch.full((4,), 0.125), rest])

    # Sequences -----------------------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        segments, lengths = self.segments(n, generator)
        room = self.length - 2 * lengths  # both copies begin somewhere in it, at different places
        uniform = torch.rand(n, 2, generator=generator, device=generator.device)
        one = (uniform[:, 0] * room).long()
        other = (one + 1 + (uniform[:, 1] * (room - 1)).long()) % room
        first, second = torch.minimum(one, other), torch.maximum(one, other) + lengths
        starts = torch.stack([first, second], 1)
        tokens = self.free_tokens((n, self.length), generator)
        offsets = torch.arange(self.length, device=tokens.device) - starts[..., None]  # batch copy position
        for offset in offsets.unbind(1):
            inside = (offset >= 0) & (offset < lengths[:, None])
            pasted = segments.gather(1, offset.clamp(0, self.longest - 1))
            tokens = torch.where(inside, pasted, tokens)
        return {"tokens": tokens, "starts": starts, "lengths": lengths}

    def free_tokens(self, shape: tuple[int, int], generator: torch.Generator) -> Int[Tensor, "row place"]:
        """Independent tokens with these probabilities."""
        edges = self.probabilities.double().cumsum(0)[:-1].to(generator.device)
        uniform = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
        return torch.searchsorted(edges, uniform, right=True)

    def segments(self, n: int, generator: torch.Generator) -> tuple[Int[Tensor, "batch place"], Int[Tensor, "batch"]]:
        """Segments and their lengths; tokens beyond the length are ignored."""
        fresh, fresh_lengths = self.fresh_segments(n, generator)
        if not self.pool:
            return fresh, fresh_lengths
        segments, lengths = (part.to(generator.device) for part in self.pooled)
        which = torch.randint(self.pool, (n,), generator=generator, device=generator.device)
        known = torch.rand(n, generator=generator, device=generator.device) < self.pool_share
        return torch.where(known[:, None], segments[which], fresh), torch.where(known, lengths[which], fresh_lengths)

    def fresh_segments(
        self, n: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "batch place"], Int[Tensor, "batch"]]:
        span = (self.shortest, self.longest + 1)
        lengths = torch.randint(*span, (n,), generator=generator, device=generator.device)
        return self.free_tokens((n, self.longest), generator), lengths

    @cached_property
    def pooled(self) -> tuple[Int[Tensor, "segment place"], Int[Tensor, "segment"]]:
        """The pool, always the same for equal settings."""
        return self.fresh_segments(self.pool, generator(self.pool_seed, "pool"))

    def offsets(self, draw: Draw) -> Int[Tensor, "batch position"]:
        """The number of tokens of the second copy before each position; negative before the copy."""
        places = torch.arange(self.length, device=draw["tokens"].device)
        return places - draw["starts"][:, 1:]

    def copied(self, draw: Draw) -> Bool[Tensor, "batch query"]:
        """Whether the next token belongs to the asked part of the second copy."""
        following = self.offsets(draw)[:, 1:]
        return (following >= self.skipped) & (following < draw["lengths"][:, None])

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        copied, following = self.copied(draw), draw["tokens"][:, 1:]
        kinds = {"copy": copied, "rest": ~copied}
        return torch.stack([torch.where(kinds[name], following, NOT_ASKED) for name in self.hop_names], 2)

    def roles(self, draw: Draw) -> Roles:
        """A chain for each asked token: the query before it, `key[1]` in the first copy, `value[1]` after that."""
        offset = self.offsets(draw)
        chain = F.pad(torch.where(self.copied(draw), offset[:, :-1], ABSENT), (0, 1), value=ABSENT)
        lag = draw["starts"][:, 1:] - draw["starts"][:, :1]
        places = torch.arange(self.length, device=offset.device)
        later = lag + places  # of each position, the corresponding place in the second copy
        key = torch.where(later < self.length, chain.gather(1, later.clamp(max=self.length - 1)), ABSENT)
        value = F.pad(key[:, :-1], (1, 0), value=ABSENT)
        return Roles(("query", "key[1]", "value[1]"), torch.stack([chain, key, value], 1))

    # Losses --------------------------------------------------------------------------------------------------

    @property
    def entropy(self) -> float:
        """The entropy, in nats, of a token that is not copied."""
        return float(-torch.special.xlogy(self.probabilities, self.probabilities).sum())

    @cached_property
    def copied_share(self) -> float:
        """Expected share of the asked tokens among all predicted tokens."""
        return ((self.shortest + self.longest) / 2 - self.skipped) / (self.length - 1)

    @cached_property
    def floor(self) -> float:  # type: ignore[override]
        """0 in the second copy; over all tokens the entropy of the rest, as if the copy's beginning were visible."""
        return 0.0 if self.asked == "copy" else (1 - self.copied_share) * self.entropy

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all tokens equally likely; tokens by their frequencies; a solved task."""
        frequencies = {} if self.frequencies == "uniform" else {"frequencies of tokens": self.entropy}
        return {"any token": math.log(self.d_vocab), **frequencies, "solved": self.floor}

    # In plain Python -----------------------------------------------------------------------------------------

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact from every place of the first copy to the next, and a query for each asked token."""
        tokens, (first, second) = draw["tokens"][row].tolist(), draw["starts"][row].tolist()
        names = [f"t{token}@{place}" for place, token in enumerate(tokens)]
        asked = [place + 1 - second for place, here in enumerate(self.copied(draw)[row].tolist()) if here]
        queries = tuple(names[first + offset - 1] for offset in asked)
        return Problem(tuple(Fact((names[first + k - 1],), names[first + k]) for k in asked), queries)

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {f"t{token}@{place}": token for place, token in enumerate(draw["tokens"][row])}

    @cached_property
    def placements(self) -> Int[numpy.ndarray, "placement number"]:
        """All possible triples of first start, second start and length."""
        return numpy.array(
            [
                (first, second + length, length)
                for length in range(self.shortest, self.longest + 1)
                for first, second in combinations(range(self.length - 2 * length), 2)
            ]
        )

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """Bayes' rule over all placements of the copies, from the tokens up to each position.

        For the second copy it is the answer given that the next token is asked. A model that has learnt the pool may
        know more.
        """
        tokens, p = numpy.array(inputs), self.probabilities.double().numpy()
        first, second, lengths = self.placements.T
        places = numpy.arange(self.length)
        inside = (places >= second[:, None]) & (places < (second + lengths)[:, None])
        source = tokens[(places - (second - first)[:, None]).clip(0)]  # the token that a copy would have here
        with numpy.errstate(divide="ignore"):  # log 0 = −∞: no copy
            logs = numpy.where(inside, numpy.log((source == tokens) / p[tokens]), 0.0).cumsum(1)
        evidence = numpy.exp(logs - logs.max(0).clip(-1e300)) * self.prior[:, None]  # no copy may be possible
        asked = inside & (places >= (second + self.skipped)[:, None])
        hops = [
            mixture(evidence[:, :-1] * here, source[:, 1:], inside[:, 1:], p).tolist()
            for here in self.heard(asked[:, 1:])
        ]
        return [[dict(enumerate(best)) for best in of_hops] for of_hops in zip(*hops, strict=True)]

    @cached_property
    def prior(self) -> Float[numpy.ndarray, "placement"]:
        """The relative prior of each placement: lengths are drawn first, all equally likely."""
        return 1 / numpy.array([math.comb(self.length - 2 * length, 2) for length in self.placements[:, 2]])

    def heard(self, asked: Bool[numpy.ndarray, "placement place"]) -> list[Bool[numpy.ndarray, "placement place"]]:
        """For each hop, the placements that remain possible given whether the next token is asked."""
        return [asked] if self.asked == "copy" else [numpy.ones_like(asked)] * 2

    @property
    def bayes_loss(self) -> float:
        """The loss of `brute_force`, estimated on a fixed sample."""
        return least_loss(self)


@cache
def least_loss(task: RepeatedSegment) -> float:
    """The loss in nats of `brute_force` on a fixed sample, computed once for equal tasks because it is slow."""
    draw = task.draw(BAYES_SAMPLE, generator(0, "floor"))
    surprises = []
    for tokens, targets in zip(draw["tokens"].tolist(), task.targets(draw).tolist(), strict=True):
        for target, best in zip(targets, task.brute_force(tokens), strict=True):
            surprises += [-math.log(b[t]) for t, b in zip(target, best, strict=True) if t != NOT_ASKED]  # type: ignore[index]
    return float(numpy.mean(surprises))


def mixture(
    weights: Float[numpy.ndarray, "placement place"],
    source: Int[numpy.ndarray, "placement place"],
    copied: Bool[numpy.ndarray, "placement place"],
    free: Float[numpy.ndarray, "token"],
) -> Float[numpy.ndarray, "place token"]:
    """Each next token's probabilities: the source's token under placements that copy here, else free tokens."""
    n_places, n_tokens = weights.shape[1], len(free)
    cells = numpy.arange(n_places) * n_tokens + source
    copies = numpy.bincount(cells.ravel(), (weights * copied).ravel(), n_places * n_tokens)
    mass = copies.reshape(n_places, n_tokens) + (weights * ~copied).sum(0)[:, None] * free
    total = weights.sum(0)[:, None]
    return numpy.where(total > 0, mass / numpy.where(total > 0, total, 1), free)
