"""Two hops among distractors: chains of two pairs, other pairs, a query (Guo et al., 2025, arXiv:2502.13913)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, NO_CHAIN, Roles
from hopscope.tasks.base import TokenTask

#: In `Draw["kind"]` the first pair of chain c is 2c, the second 2c + 1, and a distractor has this number.
DISTRACTOR = -1


@dataclass(frozen=True)
class TwoHop(TokenTask):
    """Pairs of tokens; 2 to 2C of them form chains a b … b c, the first pair before the second; which c follows from a?

    ```
    d e  a b  h i  f g  b c  g k | a   ->  c        (two chains, a b c and f g k; d e and h i distract)
    ```

    All numbers of chains are equally likely. With `fewest` = C = half the pairs there are no distractors, as in the
    authors' script (`--pairs 10 --chains 5 --fewest 5`). All symbols differ except those that a chain shares, and which
    token stands for which symbol is drawn anew for each sequence. With `every_hop` b is asked, too, by its own logits.
    """

    n_pairs: int = setting(11, "pairs of tokens before the query", low=2, high=2048)
    n_chains: int = setting(4, "C, the greatest number of chains; each sequence draws 1 … C", low=1, high=256)
    d_vocab: int = setting(30, "number of different tokens", low=3, high=65536)  # type: ignore[assignment]
    fewest: int = setting(1, "least number of chains", low=1, high=256, since="0.2.0")
    every_hop: bool = setting(
        False, "whether the chain's middle is asked, too, as by an implicit curriculum; or its end alone", since="0.2.0"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if 2 * self.n_chains > self.n_pairs:
            raise BadInput(f"pairs must be at least {2 * self.n_chains}, two for each chain; got {self.n_pairs}")
        if self.fewest > self.n_chains:
            raise BadInput(f"fewest must be at most chains, {self.n_chains}; got {self.fewest}")
        if self.d_vocab < 2 * self.n_pairs - self.fewest:
            raise BadInput(
                f"d-vocab must be at least {2 * self.n_pairs - self.fewest}, for so many tokens differ with "
                f"{'one chain' if self.fewest == 1 else f'{self.fewest} chains'}; got {self.d_vocab}"
            )

    @property
    def n_positions(self) -> int:
        return 2 * self.n_pairs + 1

    query_positions = slice(-1, None)

    @property
    def hop_names(self) -> tuple[str, ...]:
        return ("x1", "x2") if self.every_hop else ("x2",)

    @cached_property
    def baselines(self) -> dict[str, float]:  # type: ignore[override]
        """Of x2, in nats: all tokens; ends of pairs that begin no other pair; ends of chains; solved."""
        counts = range(self.fewest, self.n_chains + 1)
        return {
            "any token": math.log(self.d_vocab),
            "any end": fmean(math.log(self.n_pairs - c) for c in counts),
            "any end of a chain": fmean(math.log(c) for c in counts),
            "solved": 0.0,
        }

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """`tokens` of the symbols; `chains`, their number; `kind` of each pair; `asked`, the chain asked about."""
        device = generator.device
        tokens = torch.rand(n, self.d_vocab, generator=generator, device=device).argsort(-1)
        chains = torch.randint(self.fewest, self.n_chains + 1, (n, 1), generator=generator, device=device)
        # The first 2·chains places of a shuffle belong to chains, two each, the earlier one first.
        dealt = torch.rand(n, self.n_pairs, generator=generator, device=device).argsort(-1)
        twos = dealt[:, : 2 * self.n_chains].unflatten(1, (self.n_chains, 2)).sort(-1).values
        number = torch.arange(2 * self.n_chains, device=device)
        kind = torch.full((n, self.n_pairs), DISTRACTOR, device=device)
        kind.scatter_(1, twos.flatten(1), torch.where(number < 2 * chains, number, DISTRACTOR))
        share = torch.rand(n, 1, generator=generator, device=device)
        return {"tokens": tokens, "chains": chains, "kind": kind, "asked": (share * chains).long()}

    def symbols(self, draw: Draw) -> Int[Tensor, "batch pair two"]:
        """Symbol numbers of every pair: chain c has 3c, 3c + 1, 3c + 2; distractors have the following numbers."""
        kind, chain = draw["kind"], draw["kind"] // 2
        linked = kind != DISTRACTOR
        rank = (~linked).cumsum(1) - 1  # a distractor's index among distractors
        start = torch.where(linked, 3 * chain + kind % 2, 3 * draw["chains"] + 2 * rank)
        return torch.stack([start, start + 1], -1)

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        shown = torch.cat([self.symbols(draw).flatten(1), 3 * draw["asked"]], 1)
        return draw["tokens"].gather(1, shown)

    def read(self, tokens: list[int]) -> Draw:
        *shown, query = tokens
        pairs = list(zip(shown[::2], shown[1::2], strict=True))
        chains = [(i, j) for j, (b, _) in enumerate(pairs) for i, (_, shared) in enumerate(pairs[:j]) if shared == b]
        starts = [pairs[first][0] for first, _ in sorted(chains)]
        linked = [place for chain in sorted(chains) for place in chain]
        if query not in starts:
            raise BadInput("the query must begin a pair whose other token begins a later pair")
        few, most = self.fewest, self.n_chains
        counted = few <= len(chains) <= most
        if not counted or len(set(shown)) + len(chains) < len(shown) or len(set(linked)) < len(linked):
            allowed = f"{few} to {most}" if few < most else f"{most}"
            raise BadInput(f"there may be {allowed} chains of two pairs, and all other tokens must differ")
        kind = [linked.index(place) if place in linked else DISTRACTOR for place in range(len(pairs))]
        used = [token for first, second in sorted(chains) for token in (*pairs[first], pairs[second][1])]
        used += [token for place, pair in enumerate(pairs) if kind[place] == DISTRACTOR for token in pair]
        rest = sorted(set(range(self.d_vocab)) - set(used))
        draw = {"tokens": used + rest, "chains": [len(chains)], "kind": kind, "asked": [starts.index(query)]}
        return {name: torch.tensor([values]) for name, values in draw.items()}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        symbols = torch.cat([3 * draw["asked"] + 1, 3 * draw["asked"] + 2], 1)[:, self.asked_hops]
        return draw["tokens"].gather(1, symbols)[:, None]

    def roles(self, draw: Draw) -> Roles:
        """The chain asked about is chain 0, the others follow; a distractor has key[1] and value[1] in no chain."""
        kind, asked = draw["kind"], draw["asked"]
        chain = torch.where(kind // 2 == asked, 0, kind // 2 + (kind // 2 < asked).long())
        chain = torch.where(kind == DISTRACTOR, NO_CHAIN, chain)
        first = (kind % 2 == 0) | (kind == DISTRACTOR)
        held = torch.full((len(kind), 5, self.n_positions), ABSENT, device=kind.device)
        held[:, 0, -1] = 0
        for row, (place, of_step) in enumerate(((0, first), (1, first), (0, ~first), (1, ~first)), 1):
            held[:, row, place:-1:2] = torch.where(of_step, chain, ABSENT)
        return Roles(("query", "key[1]", "value[1]", "key[2]", "value[2]"), held)

    def problem(self, draw: Draw, row: int) -> Problem:
        tokens = [f"t{token}" for token in self.inputs({k: v[row : row + 1] for k, v in draw.items()})[0].tolist()]
        steps = [2 if kind != DISTRACTOR and kind % 2 else 1 for kind in draw["kind"][row].tolist()]
        pairs = zip(tokens[:-1:2], tokens[1::2], steps, strict=True)
        return Problem(tuple(Fact((a,), b, step) for a, b, step in pairs), (tokens[-1],))

    @property
    def asked_hops(self) -> slice:
        return slice(0 if self.every_hop else 1, None)
