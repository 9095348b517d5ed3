"""One hop or two, chosen by a tag, each with its own output head (after Geva et al., 2021, and Guo et al., 2025).

Geva et al. (arXiv:2104.06129) give one trunk several output heads, each trained on a task of its own, and study a
head's answers on another's inputs. The sequences are those of Guo et al. (2025, arXiv:2502.13913): chains of two pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer, TokenTask

#: Outputs, and the tags that ask for them, by number.
MIDDLE, END = 0, 1


@dataclass(frozen=True)
class TaggedHops(TokenTask):
    """Chains a b … b c in pairs, in any order; a tag; the a of one chain.

    ```
    b c  f g  a b  g k | one | a   ->  head `middle`: b
    b c  f g  a b  g k | two | a   ->  head `end`:    c
    ```

    The logits of head `middle` come first. The tag of a sequence says which head is asked. With `related` off,
    sequences of tag `one` have tokens of their own that no sequence of tag `two` has.
    """

    n_chains: int = setting(3, "N, the number of chains", low=2, high=64)
    n_symbols: int = setting(12, "number of different tokens of sequences of one kind", low=6, high=4096)
    share: float = setting(0.5, "share of the sequences that are tagged `one`", low=0, high=1)
    related: bool = setting(True, "whether both kinds of sequences are of the same tokens")
    ordered: bool = setting(False, "whether the first pair of a chain stands before its second, as with Guo et al.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_symbols < 3 * self.n_chains:
            raise BadInput(f"symbols must be at least {3 * self.n_chains}, three for each chain; got {self.n_symbols}")

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """The number of tokens: of tag `two`, of tag `one` if they differ, and the two tags."""
        return 2 * self.n_symbols + 2

    @property
    def n_positions(self) -> int:
        return 4 * self.n_chains + 2

    query_positions = slice(-1, None)
    hop_names = ("middle", "end")

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: any token; any token of the sequence; the right place in any chain; solved."""
        return {
            "any token": math.log(self.d_vocab),
            "any token of the sequence": math.log(3 * self.n_chains),
            "any chain": math.log(self.n_chains),
            "solved": 0.0,
        }

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """`tokens`, three per chain; `kind` of the pair at each place, 2c or 2c + 1; the `asked` chain; the `tag`."""
        device, n_pairs = generator.device, 2 * self.n_chains
        tokens = torch.rand(n, self.n_symbols, generator=generator, device=device).argsort(-1)[:, : 3 * self.n_chains]
        dealt = torch.rand(n, n_pairs, generator=generator, device=device).argsort(-1)
        places = dealt.unflatten(1, (self.n_chains, 2))  # the two pairs of each chain
        if self.ordered:
            places = places.sort(-1).values
        number = torch.arange(n_pairs, device=device).expand(n, -1)
        kind = torch.zeros_like(number).scatter(1, places.flatten(1), number)
        asked = torch.randint(self.n_chains, (n, 1), generator=generator, device=device)
        tag = (torch.rand(n, 1, generator=generator, device=device) >= self.share).long()
        moved = torch.where(tag == MIDDLE, 0 if self.related else self.n_symbols, 0)
        return {"tokens": tokens + moved, "kind": kind, "asked": asked, "tag": tag}

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        kind = draw["kind"]
        start = 3 * (kind // 2) + kind % 2
        pairs = draw["tokens"].gather(1, torch.stack([start, start + 1], -1).flatten(1))
        query = draw["tokens"].gather(1, 3 * draw["asked"])
        return torch.cat([pairs, 2 * self.n_symbols + draw["tag"], query], 1)

    def named(self, draw: Draw) -> Int[Tensor, "batch two"]:
        """Middle and end of the chain that is asked about, whatever the tag."""
        return draw["tokens"].gather(1, 3 * draw["asked"] + torch.tensor([1, 2], device=draw["asked"].device))

    def middles(self, draw: Draw) -> Int[Tensor, "batch chain"]:
        """The middles of all chains."""
        return draw["tokens"][:, 1::3]

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        tag, output = draw["tag"], torch.tensor([MIDDLE, END], device=draw["tag"].device)
        answer = self.named(draw).gather(1, tag)
        return torch.where(tag == output, answer, NOT_ASKED)[:, None]

    def loss(self, outputs: Float[Tensor, "batch query output"], targets: Int[Tensor, "batch query hop"]) -> Tensor:
        """The mean over sequences, each by the head that its tag asks."""
        logits = self.logits(outputs).movedim(-1, 1)
        return F.cross_entropy(logits, targets, ignore_index=NOT_ASKED)

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether the head that is asked is right."""
        right = self.logits(outputs).argmax(-1) == batch.targets
        return right.any(-1)[:, 0, None]

    def roles(self, draw: Draw) -> Roles:
        """The chain asked about is chain 0 and the others follow; the tag has no role."""
        kind, asked = draw["kind"], draw["asked"]
        chain = torch.where(kind // 2 == asked, 0, kind // 2 + (kind // 2 < asked).long())
        held = torch.full((len(kind), 5, self.n_positions), ABSENT, device=kind.device)
        held[:, 0, -1] = 0
        for row, (place, step) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1)), 1):
            held[:, row, place:-2:2] = torch.where(kind % 2 == step, chain, ABSENT)
        return Roles(("query", "key[1]", "value[1]", "key[2]", "value[2]"), held)

    def problem(self, draw: Draw, row: int) -> Problem:
        """Every pair is a fact of its step; the tag says what is asked."""
        tokens = [f"t{token}" for token in self.inputs(draw)[row].tolist()]
        steps = [1 + kind % 2 for kind in draw["kind"][row].tolist()]
        pairs = zip(tokens[:-2:2], tokens[1:-2:2], steps, strict=True)
        return Problem(tuple(Fact((a,), b, step) for a, b, step in pairs), (tokens[-1],))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """Pair by pair: the token after the query's, and the one after that; the tag says which is asked."""
        *shown, tag, query = inputs
        after = dict(zip(shown[::2], shown[1::2], strict=True))
        one, middle = tag == 2 * self.n_symbols + MIDDLE, after[query]
        return [[middle, None] if one else [None, after[middle]]]
