"""Random automata and the strings that they accept (Akyürek et al., 2024, arXiv:2401.12973, section 3).

All states accept, and state 0 is the initial state. A batch of automata is three tensors: symbols and targets of the
edges of every state, and the number of these edges.
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
        symbols: the symbol of each edge; the edges of a state have different symbols.
        targets: the state that each edge leads to.
        degree: how many edges each state has; later entries are unused.
    """

    symbols: Int[Tensor, "batch state edge"]
    targets: Int[Tensor, "batch state edge"]
    degree: Int[Tensor, "batch state"]

    def law(self, states: Int[Tensor, "batch"], n_symbols: int) -> Float[Tensor, "batch symbol"]:
        """The distribution of the next symbol from given states, float64: all edges of a state are equally likely."""
        rows = torch.arange(len(states), device=states.device)
        degree = self.degree[rows, states][:, None]
        share = (torch.arange(self.symbols.shape[2], device=states.device) < degree) / degree.double()
        law = torch.zeros(len(states), n_symbols, dtype=torch.float64, device=states.device)
        return law.scatter_add_(1, self.symbols[rows, states], share)

    def step(
        self, states: Int[Tensor, "batch"], uniform: Float[Tensor, "batch"]
    ) -> tuple[Int[Tensor, "batch"], Int[Tensor, "batch"]]:
        """The symbol of an edge chosen by a uniform number in [0, 1), and the state that it leads to."""
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
    """n random automata; number of states and size of the alphabet are uniform in their ranges, ends included.

    Each state has one to `MOST_EDGES` edges, uniformly, with different symbols and different targets, none to itself.
    Symbols are from 0 to `n_symbols` − 1.
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
    """Uniform integers between two ends, both included."""
    return torch.randint(ends[0], ends[1] + 1, size, generator=generator, device=generator.device)


def some(allowed: Tensor, generator: torch.Generator) -> Int[Tensor, "batch state edge"]:
    """`MOST_EDGES` different indices, drawn from the allowed ones of each row."""
    race = torch.rand(allowed.shape, generator=generator, device=allowed.device)
    return torch.where(allowed, race, 2.0).argsort(-1)[..., :MOST_EDGES]
