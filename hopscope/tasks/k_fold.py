"""k-fold composition of permutations, half in context, half in the weights (Wang, Nichani et al., 2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.core import catalogue
from hopscope.core.seeds import generator as seeded
from hopscope.core.settings import BadInput, setting
from hopscope.curricula.base import Curriculum
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import Relations, pointing
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import Batch, BestAnswer, TokenTask


@dataclass(frozen=True)
class KFold(TokenTask):
    """The context shows k permutations of N symbols; before each of them, a fixed hidden permutation is applied.

    ```
    k = 2, N = 3:   s1(0) s1(1) s1(2)   s2(0) s2(1) s2(2)       position (a, b) holds s_a(b), and asks about b from a on
    h hops from (a, b):  s_(a+h-1) p_(a+h-1) … s_a p_a (b)      in a circle: behind the last permutation is the first
    ```

    The shown permutations s are drawn for each sequence; the hidden ones p belong to the task (`hidden` is their seed).
    Every position is a query; without `cyclic`, only those of the first permutation are. 1, 2, 4, … k hops are asked,
    each by its own logits; a curriculum chooses which of them a batch trains. A position must see later ones: train
    with `--no-causal`.
    """

    n_hops: int = setting(4, "k, permutations in a sequence, and the greatest number of hops asked", low=1, high=64)
    n_symbols: int = setting(5, "N, the symbols that are permuted", low=2, high=256)
    hidden: int = setting(1, "seed of the hidden permutations, which are not shown; 0: there are none", low=0)
    cyclic: bool = setting(True, "whether every position is a query, in a circle; else only the first permutation's")
    counts: str = setting("doubling", "numbers of hops asked: 1, 2, 4, … k, or all to k", choices=("doubling", "all"))
    curriculum: str = setting("implicit", "implicit: every number of hops is trained in every batch; else one of them")
    trained: int | None = setting(None, "number of hops that is trained if it is one; default k", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trained is not None and self.trained not in self.difficulties:
            raise BadInput(f"trained must be one of {', '.join(map(str, self.difficulties))}; got {self.trained}")
        _ = self.taught_by  # raises for an unknown name

    @property
    def taught_by(self) -> Curriculum:
        return catalogue.find("curricula", self.curriculum)()

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        return self.n_symbols

    @property
    def n_positions(self) -> int:
        return self.n_hops * self.n_symbols

    @property
    def query_positions(self) -> slice:
        return slice(0, self.n_positions if self.cyclic else self.n_symbols)

    @cached_property
    def hop_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"k={k}" for k in self.difficulties)

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all symbols equally likely; a solved task."""
        return {"any symbol": math.log(self.n_symbols), "solved": 0.0}

    @cached_property
    def permutations(self) -> Int[Tensor, "hop symbol"]:
        """The hidden permutations, the same in every sequence."""
        if not self.hidden:
            return torch.arange(self.n_symbols).expand(self.n_hops, -1)
        random = seeded(self.hidden, "hidden permutations")
        return torch.rand(self.n_hops, self.n_symbols, generator=random).argsort(-1)

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        shape = (n, self.n_hops, self.n_symbols)
        return {"shown": torch.rand(shape, generator=generator, device=generator.device).argsort(-1)}

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        return draw["shown"].flatten(1)

    def read(self, tokens: list[int]) -> Draw:
        shown = torch.tensor(tokens).view(1, self.n_hops, self.n_symbols)
        if not torch.equal(shown.sort(-1).values, torch.arange(self.n_symbols).expand_as(shown)):
            raise BadInput(f"every {self.n_symbols} symbols in a row must be a permutation, each symbol once")
        return {"shown": shown}

    def once(self, draw: Draw) -> Int[Tensor, "batch hop symbol"]:
        """Where one hop leads: s_a(p_a(b))."""
        return draw["shown"].gather(2, self.permutations.to(draw["shown"].device).expand_as(draw["shown"]))

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        once = self.once(draw)
        reached = [once]  # after 1, 2, … hops from (a, b)
        for h in range(1, self.n_hops):
            reached.append(once.roll(-h, 1).gather(2, reached[-1]))
        asked = [reached[h - 1] for h in self.difficulties]
        return torch.stack(asked, -1).flatten(1, 2)[:, self.query_positions]

    def loss(
        self, outputs: Float[Tensor, "batch query output"], targets: Int[Tensor, "batch query hop"]
    ) -> Float[Tensor, ""]:
        """The loss over all numbers of hops, or of the one that is trained; `hop_losses` always has all."""
        losses = self.hop_losses(outputs, targets)
        if self.taught_by.asks_every_hop:
            return losses.mean()
        return losses[self.difficulties.index(self.trained or self.n_hops)]

    @property
    def hardest(self) -> int:
        return self.n_hops

    @cached_property
    def difficulties(self) -> tuple[int, ...]:  # type: ignore[override]
        """The numbers of hops that are asked."""
        numbers = range(1, self.n_hops + 1)
        return tuple(h for h in numbers if self.counts == "all" or h & (h - 1) == 0 or h == self.n_hops)

    def at(self, difficulty: int) -> KFold:
        """The same sequences, with another number of hops trained."""
        return self if difficulty == (self.trained or self.n_hops) else self.but(trained=difficulty)

    def roles(self, draw: Draw) -> Roles:
        """The N chains from the first permutation. `key[j]` is where hop j is asked, `value[j]` shows where it leads.

        One token states a fact: its position is the key, its content the value. `query` is key[1].
        """
        once, hidden = self.once(draw), self.permutations.to(draw["shown"].device)
        n, k, symbols = once.shape
        chain = torch.full((n, 2 * k, self.n_positions), ABSENT, device=once.device)
        names, at = [], torch.arange(symbols, device=once.device).expand(n, -1)  # batch chain: the symbol before hop j
        numbers = at.clone()
        for j in range(k):
            names += [f"key[{j + 1}]" if j else "query", f"value[{j + 1}]"]
            chain[:, 2 * j].scatter_(1, j * symbols + at, numbers)
            chain[:, 2 * j + 1].scatter_(1, j * symbols + hidden[j][at], numbers)
            at = once[:, j].gather(1, at)
        return Roles(tuple(names), chain)

    def searched_roles(self, batch: Batch) -> Relations:
        """From every position, in a circle: `value[j]` shows where hop j leads, `key[j]` is where it is asked."""
        once, hidden = self.once(batch.draw), self.permutations.to(batch.draw["shown"].device)
        n, k, symbols = once.shape
        fold = torch.arange(k, device=once.device).repeat_interleave(symbols).expand(n, -1)  # of every position
        symbol = torch.arange(symbols, device=once.device).repeat(k).expand(n, -1)
        matches: dict[str, tuple[Tensor, Tensor]] = {}
        for j in range(1, k + 1):
            matches |= {f"key[{j}]": (fold, symbol), f"value[{j}]": (fold, hidden[fold, symbol])}
            symbol = once.flatten(1).gather(1, fold * symbols + symbol)
            fold = (fold + 1) % k
        asks = torch.zeros(self.n_positions, dtype=torch.bool, device=once.device)
        asks[self.query_positions] = True
        places = {name: at for name, at in (("query", asks), ("each", ~asks)) if bool(at.any())}
        chain = torch.stack([torch.where(at, 0, ABSENT) for at in places.values()])
        pointers = {name: pointing(a * symbols + b, self.n_positions, 0) for name, (a, b) in matches.items()}
        return Relations(tuple(places), chain.expand(n, -1, -1), pointers)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact `b@a → c@a'` for every position: symbol b before permutation a becomes c before the next."""
        facts = []
        for a, (shown, hidden) in enumerate(zip(draw["shown"][row].tolist(), self.permutations.tolist(), strict=True)):
            after = (a + 1) % self.n_hops
            facts += [Fact((f"{b}@{a}",), f"{shown[hidden[b]]}@{after}", a + 1) for b in range(self.n_symbols)]
        queries = [fact.premises[0] for fact in facts][self.query_positions]
        return Problem(tuple(facts), tuple(queries))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """Follow the permutations hop by hop. The oracle's rounds do not apply, because facts in a circle recur."""
        n, hidden = self.n_symbols, self.permutations.tolist()
        shown = [inputs[a * n : (a + 1) * n] for a in range(self.n_hops)]

        def reached(a: int, symbol: int) -> list[int]:
            after = []
            for hop in range(self.n_hops):
                place = (a + hop) % self.n_hops
                symbol = shown[place][hidden[place][symbol]]
                after.append(symbol)
            return after

        answers = [reached(a, b) for a in range(self.n_hops) for b in range(n)][self.query_positions]
        return [[after[h - 1] for h in self.difficulties] for after in answers]

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {f"{b}@{a}": torch.tensor(b) for a in range(self.n_hops) for b in range(self.n_symbols)}
