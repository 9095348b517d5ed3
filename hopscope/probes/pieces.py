"""The pieces of a chain: which of them the information-flow model lets a position hold, and their values in a batch.

Pieces are the symbols x_0 … x_D and the places p_1 … p_D, as in theorem 1 (Musat, ICLR 2025, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.problem.paths import role_name
from hopscope.tasks.base import Batch
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory.flow import Chain, reach
from hopscope.theory.shapes import orders


def piece_names(n_hops: int) -> list[str]:
    """A chain's 2D + 1 pieces in their order along it: `x0`, `p1`, `x1`, `p2`, … `xD`."""
    return [f"p{(i + 1) // 2}" if i % 2 else f"x{i // 2}" for i in range(2 * n_hops + 1)]


@dataclass(frozen=True)
class Reach:
    """What the information-flow model, with many heads, lets every position hold after 0, 1, 2 … layers.

    Attributes:
        allowed: pieces of its own chain that a position may hold. Places are query, key[1], value[1], key[2] …
        excludable: pieces that it may not hold, but for which it may know that some candidates are not its own.
    """

    allowed: Bool[numpy.ndarray, "stream place piece"]
    excludable: Bool[numpy.ndarray, "stream place piece"]


def reach_of(task: Retrieval, n_layers: int, causal: bool) -> Reach:
    """The reach after 0 … n_layers layers. With shuffled steps a piece is allowed if any order of them allows it.

    Raises:
        BadInput: steps are shuffled, and there are more of them than `hopscope.theory.shapes.MOST_SHUFFLED`.
    """
    tried = orders(task.sheet.steps, "causal" if causal else "none", task.order)
    reaches = [reach_along(Chain(task.n_hops, order, causal), n_layers) for order in tried]
    allowed = numpy.logical_or.reduce([reach.allowed for reach in reaches])
    excludable = numpy.logical_or.reduce([reach.excludable for reach in reaches])
    return Reach(allowed, excludable & ~allowed)


def reach_along(chain: Chain, n_layers: int) -> Reach:
    """The reach for one order of the steps."""
    pieces = places = range(chain.last + 1)
    allowed = numpy.array(
        [[[low <= piece <= high for piece in pieces] for low, high in held] for held in reach(chain, n_layers)]
    )
    visible = numpy.array([[chain.sees(query, key) for key in places] for query in places])
    # key[k], at place 2k − 1, sees value[k] of chains presented before its own, and knows that these are other chains.
    others = numpy.zeros_like(visible)
    if chain.causal:
        others[range(1, chain.last, 2), range(2, chain.last + 1, 2)] = True
    known = [allowed[0]]  # of its own chain, or of one that is known to be another
    for held in allowed[:-1]:
        attends = (visible & (held @ held.T)) | others
        known.append(attends @ known[-1])
    return Reach(allowed, numpy.stack(known) & ~allowed)


@dataclass(frozen=True)
class Pieces:
    """Positions of the pieces in a batch, and the candidates to name.

    Attributes:
        positions: the position of each place along the chain (query, key[1] …), for each chain.
        candidates: each piece's values, one per chain: symbols' vectors, or the codes of the pairs' places.
        right: the index of the right candidate, for each chain.
    """

    positions: Int[Tensor, "batch place chain"]
    candidates: Float[Tensor, "batch piece chain number"]
    right: Int[Tensor, "batch chain"]

    @property
    def targets(self) -> Float[Tensor, "batch chain piece number"]:
        """The values that the probes are to predict."""
        index = self.right[:, None, :, None].expand_as(self.candidates)
        return self.candidates.gather(2, index).transpose(1, 2)


def pieces_of(task: Retrieval, batch: Batch, shuffled: torch.Generator | None = None) -> Pieces:
    """The pieces of a batch; with a generator, those of a randomly drawn chain, which may be the position's own."""
    n = task.n_chains
    chain, symbols = batch.roles.chain, batch.draw["symbols"]
    named = [batch.roles.index(role_name(place)) for place in range(2 * task.n_hops + 1)]
    chains = torch.arange(n, device=chain.device)
    positions = (chain[:, named, :, None] == chains).int().argmax(2)  # batch place chain
    number = torch.cat([task.sheet.query_symbols[:, None], task.sheet.answers], 1).to(symbols.device)  # chain hop
    held = symbols[:, number.T]  # batch hop chain number
    # The place of a pair is the code at its first token, at place 2k − 1 along the chain.
    codes = batch.inputs[..., task.d_symbol :]
    first = positions[:, 1::2].flatten(1)
    places = codes.gather(1, first[..., None].expand(-1, -1, codes.shape[-1])).unflatten(1, (-1, n))
    candidates = held.new_empty(len(held), 2 * task.n_hops + 1, n, task.d_symbol)
    candidates[:, 0::2], candidates[:, 1::2] = held, places
    right = chains.expand(len(held), n)
    if shuffled is not None:
        right = torch.rand(right.shape, generator=shuffled, device=shuffled.device).argsort(-1)
    return Pieces(positions, candidates, right)
