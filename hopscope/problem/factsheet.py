"""A fact sheet: chains of facts laid out as one sequence of symbol numbers (Musat, ICLR 2025, section 6).

The shape of the chains is a directed acyclic graph, `a>x a>y xy>z`: a leads to x and to y, and x and y together lead
to z. A plain chain of D hops is `0>1 1>2 …`. Every sequence repeats the shape for N chains. The facts of one step stand
together, shuffled across chains; the queries follow, also shuffled. The task that renders the sheet decides what a
symbol is: a Gaussian vector, a token, a word.

For a fact with several premises, *all* combinations of premises across chains are listed, each with a conclusion of its
own. So each single premise occurs in several facts, and a model that ignores one can only guess.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, NO_CHAIN, Roles
from hopscope.problem.shapes import Step, parse_order

Draw = dict[str, Tensor]

PADDING = -1  # in `fact_symbols`, where facts differ in length
LONGEST = 4096  # positions of a sequence


@dataclass(frozen=True)
class FactSheet:
    """N chains of one shape, and the random order of their facts and queries in a sequence.

    Symbols are numbered 0 … n_symbols − 1: for each variable, its value in each chain. A variable that is concluded
    from several premises has one value for each combination of theirs.

    Attributes:
        n_chains: N, the number of chains and of queries.
        steps: the shape.
        order: the order of the steps in a sequence, as `parse_order` reads it.
        name: makes a symbol's name from its variable and value.
    """

    n_chains: int
    steps: tuple[Step, ...]
    order: str
    name: Callable[[str, str], str] = lambda variable, value: variable + value

    def __post_init__(self) -> None:
        parse_order(self.order, len(self.steps))
        sizes = {self.query: self.n_chains}  # counted before any value is made: there may be millions
        for step in self.steps:
            sizes[step.conclusion] = math.prod(sizes[p] for p in step.premises)
        n_facts = sum(sizes[step.conclusion] for step in self.steps)
        if n_facts * 2 > LONGEST:
            raise BadInput(
                f"{self.n_chains} chains of this shape need {n_facts} facts, more than fit into {LONGEST} positions; "
                "ask for fewer chains or a simpler shape"
            )

    @cached_property
    def values(self) -> dict[str, list[tuple[int, ...]]]:
        """Each variable's values. A value is the tuple of chains that it depends on, one per root premise."""
        values: dict[str, list[tuple[int, ...]]] = {self.query: [(c,) for c in range(self.n_chains)]}
        for step in self.steps:
            combinations = itertools.product(*(values[p] for p in step.premises))
            values[step.conclusion] = [tuple(c for value in combined for c in value) for combined in combinations]
        return values

    @property
    def query(self) -> str:
        """The variable that is asked about."""
        return self.steps[0].premises[0]

    @cached_property
    def number(self) -> dict[tuple[str, tuple[int, ...]], int]:
        """The symbol number of each variable's values."""
        return {key: n for n, key in enumerate((v, value) for v in self.values for value in self.values[v])}

    @property
    def n_symbols(self) -> int:
        return len(self.number)

    @cached_property
    def names(self) -> list[str]:
        """Readable names of the symbols, by number: `x2` belongs to chain 2, `z1.2` combines two chains."""
        return [
            self.name(v, ".".join(map(str, value)) if len(set(value)) > 1 else str(value[0]))
            for v, value in self.number
        ]

    @cached_property
    def facts(self) -> list[tuple[int, tuple[int, ...], int]]:
        """Every fact as (step from 1, its symbols with the conclusion last, its chain or NO_CHAIN)."""
        facts = []
        for k, step in enumerate(self.steps, 1):
            for combined in itertools.product(*(self.values[p] for p in step.premises)):
                value = tuple(c for premise in combined for c in premise)
                symbols = [self.number[key] for key in zip(step.premises, combined, strict=True)]
                chain = value[0] if len(set(value)) == 1 else NO_CHAIN
                facts.append((k, (*symbols, self.number[step.conclusion, value]), chain))
        return facts

    @cached_property
    def answers(self) -> Int[Tensor, "chain hop"]:
        """Symbol numbers of each chain's conclusions, one per step."""
        found = {(chain, k): symbols[-1] for k, symbols, chain in self.facts}
        steps = range(1, len(self.steps) + 1)
        return torch.tensor([[found[chain, k] for k in steps] for chain in range(self.n_chains)])

    @property
    def query_symbols(self) -> Int[Tensor, "chain"]:
        """The symbol number of each chain's query."""
        return torch.arange(self.n_chains)  # the query variable is numbered first

    @property
    def n_positions(self) -> int:
        """Length of the sequence: N(2D + 1) for plain chains."""
        return sum(len(symbols) for _, symbols, _ in self.facts) + self.n_chains

    @cached_property
    def fact_symbols(self) -> Int[Tensor, "fact token"]:
        """Symbol numbers of each fact, padded with `PADDING` where facts differ in length."""
        return pad([symbols for _, symbols, _ in self.facts])

    @cached_property
    def ragged(self) -> bool:
        """Whether facts differ in length."""
        return bool((self.fact_symbols == PADDING).any())

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """A random order of `facts` and of `queries` for each of n sequences."""
        device = generator.device
        order = parse_order(self.order, len(self.steps))
        if order is None:
            rank = torch.rand(n, len(self.steps), generator=generator, device=device).argsort(-1)
        else:
            rank = torch.tensor([order.index(k) for k in range(1, len(order) + 1)], device=device).expand(n, -1)
        of_step = torch.tensor([k - 1 for k, _, _ in self.facts], device=device)
        # Ranks are integers and the noise is below one, so facts are shuffled only within their step.
        noise = torch.rand(n, len(self.facts), generator=generator, device=device, dtype=torch.float64)
        queries = torch.rand(n, self.n_chains, generator=generator, device=device)
        return {"facts": (rank[:, of_step] + noise).argsort(-1).short(), "queries": queries.argsort(-1).short()}

    def spread(
        self, draw: Draw, per_fact: Int[Tensor, "fact token"], per_query: Int[Tensor, "query"]
    ) -> Int[Tensor, "batch position"]:
        """Lay out along each sequence one number per token of every fact, then one per query."""
        facts = per_fact.to(draw["facts"].device)[draw["facts"].long()].flatten(1)  # batch fact·token
        if self.ragged:
            keep = self.fact_symbols.to(facts.device)[draw["facts"].long()].flatten(1) != PADDING
            facts = facts[keep].view(len(facts), int((self.fact_symbols != PADDING).sum()))
        return torch.cat([facts, per_query.to(facts.device)[draw["queries"].long()]], 1)

    def symbols(self, draw: Draw) -> Int[Tensor, "batch position"]:
        """The sequences, as symbol numbers."""
        return self.spread(draw, self.fact_symbols, self.query_symbols)

    def presented(self, draw: Draw) -> Int[Tensor, "batch position"]:
        """For each position the rank, in order of presentation, of its fact or query."""
        n, n_facts = draw["facts"].shape
        arity = (self.fact_symbols != PADDING).sum(1).to(draw["facts"].device)[draw["facts"].long()]
        ranks = torch.arange(n_facts, device=arity.device).repeat(n)
        ranks = ranks.repeat_interleave(arity.flatten()).view(n, int((self.fact_symbols != PADDING).sum()))
        queries = torch.arange(n_facts, n_facts + self.n_chains, device=arity.device).expand(n, -1)
        return torch.cat([ranks, queries], 1)

    def asked(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        """Symbol numbers of the answers to each query, in the order of the queries in the sequence."""
        return self.answers.to(draw["queries"].device)[draw["queries"].long()]

    @cached_property
    def role_names(self) -> tuple[str, ...]:
        """`query`, then the keys and the value of each step; the second key of step k is `key[k,2]`."""
        names = ["query"]
        for k, step in enumerate(self.steps, 1):
            many = len(step.premises) > 1
            names += [f"key[{k},{p}]" if many else f"key[{k}]" for p in range(1, len(step.premises) + 1)]
            names.append(f"value[{k}]")
        return tuple(names)

    def roles(self, draw: Draw) -> Roles:
        """The role of every position; facts that combine premises of different chains have no chain."""
        first, role_of = 1, {}
        for k, step in enumerate(self.steps, 1):
            role_of[k] = range(first, first := first + len(step.premises) + 1)
        per_fact = pad([tuple(role_of[k]) for k, _, _ in self.facts])
        chains = pad([(chain,) * len(symbols) for _, symbols, chain in self.facts])
        role = self.spread(draw, per_fact, torch.zeros(self.n_chains, dtype=torch.long))
        chain = self.spread(draw, chains, torch.arange(self.n_chains))
        held = role[:, None, :] == torch.arange(len(self.role_names), device=role.device)[:, None]
        return Roles(self.role_names, torch.where(held, chain[:, None, :], ABSENT))

    def problem(self, draw: Draw, row: int) -> Problem:
        """One sequence as a problem with symbol names, for the oracle."""
        facts = []
        for index in draw["facts"][row].tolist():
            step, symbols, _ = self.facts[index]
            *premises, conclusion = (self.names[s] for s in symbols)
            facts.append(Fact(tuple(premises), conclusion, step))
        queries = self.query_symbols[draw["queries"][row].long().cpu()].tolist()
        return Problem(tuple(facts), tuple(self.names[s] for s in queries))


def pad(rows: list[tuple[int, ...]]) -> Int[Tensor, "row column"]:
    """Rows of numbers as one rectangle, filled with `PADDING`."""
    width = max(map(len, rows))
    return torch.tensor([row + (PADDING,) * (width - len(row)) for row in rows])
