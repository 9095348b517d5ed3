"""Common bridges in a language model: do previous-token heads write into the subspaces that induction heads read?

After Song et al. (2024, arXiv:2408.09503, section 4). For every pair of a head and one of an earlier layer, we take the
overlap of the directions in which the earlier head's W_OV writes most with those that the later head's W_QK asks keys
for most. Pairs of heads with high scores are compared with pairs of random heads of the same layers, and with randomly
rotated subspaces. Intervals are 95 %, from a bootstrap over both kinds of heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.experiments.reports import Row, row
from hopscope.language.lens.ablation import Head, in_same_layers, short, top_heads
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import Number, agreement, mean_of
from hopscope_studies.composition import bridge
from hopscope_studies.composition.language.weights import asked_of_keys, output_value, query_key, written

RANK = 10  # of the subspaces (paper)
RANKS = (RANK, 5, 20)
CHOSEN = 8  # heads of each kind, or a quarter of all where there are fewer
DRAWS = 20  # random sets of heads, and rotations
SHUFFLES = 10  # of W_OV
RESAMPLED = 1000


class Pairs:
    """Overlaps of all pairs of heads.

    Args:
        lens: the model.
        rank: of the subspaces.
        distances: from a query to the key that it should find.
    """

    def __init__(self, lens: Lens, rank: int, distances: Sequence[int]):
        self.heads, self.rank = lens.heads, rank
        self.written, self.asked = written(lens, lens.heads, rank), asked_of_keys(lens, lens.heads, rank, distances)
        layers = torch.tensor([layer for layer, _ in lens.heads])
        self.may = layers[:, None] > layers[None]  # later earlier
        self.overlaps = overlaps(self.asked, self.written)

    def index(self, heads: Sequence[Head]) -> list[int]:
        """The indices of heads in the list of all heads."""
        return [self.heads.index(head) for head in heads]

    def between(self, later: Sequence[Head], earlier: Sequence[Head]) -> Tensor:
        """Overlaps of pairs, of shape (later, earlier); NaN if the second head is not in an earlier layer."""
        rows, columns = self.index(later), self.index(earlier)
        found = self.overlaps[rows][:, columns].clone()
        found[~self.may[rows][:, columns]] = torch.nan
        return found

    def places(self, later: Sequence[Head], earlier: Sequence[Head]) -> Tensor:
        """For each pair (later, earlier), the share of all earlier heads that overlap less with the later head."""
        all_of = self.between(later, self.heads)
        pairs = self.between(later, earlier)
        below = (all_of[:, None, :] < pairs[:, :, None]).float().sum(-1)  # what is NaN is not below
        shares = below / ((~all_of.isnan()).float().sum(1) - 1).clamp(min=1)[:, None]
        return torch.where(pairs.isnan(), torch.nan, shares)


def overlaps(asked: Tensor, wrote: Tensor) -> Tensor:
    """The overlap of each later head with each earlier head; shape (later, earlier)."""
    return torch.stack([bridge.overlap(one, wrote) for one in asked])


def over_heads(pairs: Tensor, seed: int = 0) -> Number:
    """The mean over pairs with its interval, from a bootstrap over both kinds of heads; NaN counts as no pair."""
    random = generator(seed, "heads")
    rows, columns = (torch.randint(size, (RESAMPLED, size), generator=random) for size in pairs.shape)
    drawn = pairs[rows[:, :, None], columns[:, None, :]].flatten(1).nanmean(1)
    low, high = drawn.nanquantile(torch.tensor([0.025, 0.975])).tolist()
    return {"mean": float(pairs.nanmean()), "low": low, "high": high}


def turned_at_random(pairs: Pairs, later: Sequence[Head], earlier: Sequence[Head], seed: int) -> Iterator[float]:
    """Mean overlaps after a random rotation of everything that is written, for several rotations."""
    asked, wrote = pairs.asked[pairs.index(later)], pairs.written[pairs.index(earlier)]
    allowed = pairs.may[pairs.index(later)][:, pairs.index(earlier)]
    width = asked.shape[1]
    for draw in range(DRAWS):
        rotation = bridge.random_directions(width, width, generator(seed, "rotation", draw))
        yield float(overlaps(asked, rotation @ wrote)[allowed].mean())


def bridge_rows(
    lens: Lens, induction: Tensor, previous: Tensor, distances: Sequence[int], ranks: Sequence[int], seed: int
) -> Iterator[Row]:
    """All rows on bridges, some of them only at the first rank; scores (layer, head) are those of the choosing half."""
    size = min(CHOSEN, induction.numel() // 4)
    later, earlier = top_heads(induction, size), top_heads(previous, size)
    yield row("chosen", "induction", size, other=" ".join(map(short, later)))
    yield row("chosen", "previous", size, other=" ".join(map(short, earlier)))
    yield from (row("score: induction", short(head), float(induction[head])) for head in later)
    yield from (row("score: previous", short(head), float(previous[head])) for head in earlier)
    for rank in ranks:
        pairs = Pairs(lens, rank, distances)
        yield from pair_rows(pairs, later, earlier, seed)
        for draw, value in enumerate(turned_at_random(pairs, later, earlier, seed)):
            yield row("overlap", f"turned {draw}", value, step=rank)
        yield row("overlap", "in theory", bridge.random_match(pairs.asked.shape[1], rank), step=rank)
        if rank == ranks[0]:
            yield from place_rows(pairs, induction, previous, later, earlier)
    yield from diagonal_rows(lens, later, earlier, distances, seed)


def pair_rows(pairs: Pairs, later: list[Head], earlier: list[Head], seed: int) -> Iterator[Row]:
    """The mean overlap of pairs, and of each later head with its best earlier one; the same for random heads."""
    found = pairs.between(later, earlier)
    yield row("overlap", "induction on previous", over_heads(found), step=pairs.rank)
    yield row("best overlap", "induction on previous", mean_of(best(found), range(len(found))), step=pairs.rank)
    for draw in range(DRAWS):
        others = [in_same_layers(heads, pairs.heads, 1000 * seed + draw) for heads in (later, earlier)]
        for name, one in (("random", others[0]), ("random earlier", later)):
            found = pairs.between(one, others[1])
            yield row("overlap", f"{name} {draw}", float(found.nanmean()), step=pairs.rank)
            yield row("best overlap", f"{name} {draw}", float(best(found).mean()), step=pairs.rank)


def best(pairs: Tensor) -> Tensor:
    """Each later head's highest overlap with an earlier head, (later,); 0 if no head is earlier."""
    return pairs.nan_to_num(0).max(1).values


def place_rows(
    pairs: Pairs, induction: Tensor, previous: Tensor, later: list[Head], earlier: list[Head]
) -> Iterator[Row]:
    """Rows on previous-token heads' rank among earlier heads, on best partners, and on rank correlations."""
    yield row("place", "previous among all earlier", over_heads(pairs.places(later, earlier)))
    for head, found in zip(later, pairs.between(later, pairs.heads), strict=True):
        at = int(found.nan_to_num(-1).argmax())
        yield row("best", short(head), float(found[at]), other=short(pairs.heads[at]))
        yield row("score: previous", short(pairs.heads[at]), float(previous[pairs.heads[at]]), other="best")
    behind = [head for head in pairs.heads if head[0] > min(layer for layer, _ in earlier) and head not in earlier]
    mean = pairs.between(behind, earlier).nanmean(1)
    yield row("ranks", "overlap and induction", agreement(mean, torch.stack([induction[head] for head in behind])))


def diagonal_rows(
    lens: Lens, later: Sequence[Head], earlier: Sequence[Head], distances: Sequence[int], seed: int
) -> Iterator[Row]:
    """Diagonal scores of W_QK W_OVᵀ for the pairs, for random heads of the same layers, and with W_OV shuffled."""
    yield row("diagonal", "induction on previous", over_heads(diagonals(lens, later, earlier, distances)))
    for draw in range(SHUFFLES):
        one, other = (in_same_layers(heads, lens.heads, 1000 * seed + draw) for heads in (later, earlier))
        yield row("diagonal", f"random {draw}", float(diagonals(lens, one, other, distances).nanmean()))

        def shuffled(output: Tensor, draw: int = draw) -> Tensor:
            return output[torch.randperm(len(output), generator=generator(seed, "shuffle", draw))]

        found = diagonals(lens, later, earlier, distances, shuffled)
        yield row("diagonal", f"shuffled {draw}", float(found.nanmean()))


def diagonals(
    lens: Lens,
    later: Sequence[Head],
    earlier: Sequence[Head],
    distances: Sequence[int],
    change: Callable[[Tensor], Tensor] = lambda output: output,
) -> Tensor:
    """Every pair's diagonal score (later, earlier), with W_OV's output changed; NaN if `earlier` is not earlier."""
    found = torch.full((len(later), len(earlier)), torch.nan)
    for i, head in enumerate(later):
        queries, keys = query_key(lens, head, distances)
        for j, before in enumerate(earlier):
            if before[0] < head[0]:
                values, output = output_value(lens, before)
                composed = queries @ (keys.T @ change(output)) @ values.T  # `bridge.composed`, at less cost
                found[i, j] = bridge.diagonal_score(composed)
    return found
