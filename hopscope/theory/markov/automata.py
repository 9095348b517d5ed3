"""Random automata and the strings that they accept (Akyürek et al., 2024, arXiv:2401.12973, section 3).

All states accept, the first is state 0. A batch of automata is three tensors: of every state the symbols and targets of
its edges, and how many of them there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

MOST_EDGES = 3


@dataclass(frozen=True)
class Automata:
    """Deterministic automata, one per row of a batch.

    Attributes:
        symbols: what each edge of each state reads; different ones for the edges of a state.
        targets: where it leads.
        degree: how many edges a state has; those beyond are void.
    """

    symbols: Int[Tensor, "batch state edge"]
    targets: Int[Tensor, "batch state edge"]
    degree: Int[Tensor, "batch state"]

    def law(self, states: Int[Tensor, "batch"], n_symbols: int) -> Float[Tensor, "batch symbol"]:
        """What a walk reads next, float64: every edge of a state is as likely as its others."""
        rows = torch.arange(len(states), device=states.device)
        degree = self.degree[rows, states][:, None]
        share = (torch.arange(self.symbols.shape[2], device=states.device) < degree) / degree.double()
        found = torch.zeros(len(states), n_symbols, dtype=torch.float64, device=states.device)
        return found.scatter_add_(1, self.symbols[rows, states], share)

    def step(
        self, states: Int[Tensor, "batch"], uniform: Float[Tensor, "batch"]
    ) -> tuple[Int[Tensor, "batch"], Int[Tensor, "batch"]]:
        """The symbol read on an edge taken at random, and the state that it leads to."""
        rows = torch.arange(len(states), device=states.device)
        degree = self.degree[rows, states]
        edge = (uniform * degree).long().clamp(max=degree - 1)
        return self.symbols[rows, states, edge], self.targets[rows, states, edge]


def random_automata(
    n: int,
    generator: torch.Generator,
    *,
    states: tuple[int, int] = (4, 12),
    alphabet: tuple[int, int] = (4, 18),
    n_symbols: int = 18,
) -> Automata:
    """n automata, each with its own number of states and its own alphabet, both even in their ranges.

    Each state has one to three edges, evenly, with different symbols and different targets, none to itself.
    """
    device, most = generator.device, states[1]
    n_states = even(states, (n,), generator)
    size = even(alphabet, (n,), generator)
    known = torch.rand(n, n_symbols, generator=generator, device=device).argsort(-1).argsort(-1) < size[:, None]
    degree = even((1, MOST_EDGES), (n, most), generator)
    symbols = some(known[:, None].expand(-1, most, -1), generator)
    numbers = torch.arange(most, device=device)
    reachable = (numbers < n_states[:, None])[:, None] & (numbers != numbers[:, None])
    return Automata(symbols, some(reachable, generator), degree)


def even(ends: tuple[int, int], size: tuple[int, ...], generator: torch.Generator) -> Int[Tensor, "..."]:
    """Whole numbers, even between two ends, both included."""
    return torch.randint(ends[0], ends[1] + 1, size, generator=generator, device=generator.device)


def some(allowed: Tensor, generator: torch.Generator) -> Int[Tensor, "batch state edge"]:
    """`MOST_EDGES` different numbers among the allowed ones of each row."""
    race = torch.rand(allowed.shape, generator=generator, device=allowed.device)
    return torch.where(allowed, race, 2.0).argsort(-1)[..., :MOST_EDGES]
