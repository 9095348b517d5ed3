"""Latent graphs: which earlier positions each position depends on, and how much any two positions share.

After Nichani, Damian & Lee (2024, arXiv:2402.14735, section 2): position i of a sequence is drawn given its parents
p(i) < i; one without parents is a root. A graph has one node more than a sequence: the last is what is to be foretold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.theory.markov.chains import Rows, chi_square

Parents = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Graph:
    """Parents of every node, all of them earlier nodes; the last node is no position but what follows the sequence."""

    parents: Parents

    def __post_init__(self) -> None:
        for node, parents in enumerate(self.parents):
            if not all(0 <= parent < node for parent in parents) or len(set(parents)) < len(parents):
                raise BadInput(f"parents must be different earlier nodes; node {node} has {parents}")

    @property
    def length(self) -> int:
        """Positions of a sequence."""
        return len(self.parents) - 1

    @property
    def most_parents(self) -> int:
        """The greatest number of parents."""
        return max(map(len, self.parents))

    @property
    def children(self) -> list[int]:
        """Positions that have parents, in order; the last node is not among them."""
        return [node for node in range(self.length) if self.parents[node]]

    @cached_property
    def adjacency(self) -> Bool[Tensor, "position position"]:
        """True where the second position is a parent of the first."""
        found = torch.zeros(self.length, self.length, dtype=torch.bool)
        for node in self.children:
            found[node, list(self.parents[node])] = True
        return found

    def line(self, node: int) -> list[int]:
        """A node of a forest, its parent, its parent's parent … to the root."""
        return [node, *(self.line(self.parents[node][0]) if self.parents[node] else [])]


def chain(length: int, seed: int) -> Parents:
    """Each position follows from the one before: an ordinary Markov chain."""
    return ((), *((node - 1,) for node in range(1, length - 1)), (), (length - 1,))


def pairs(length: int, seed: int) -> Parents:
    """Positions 1, 3, 5 … follow from the one before them: pairs as in induction. The sequence's last is a root."""
    inner = (((node - 1,) if node % 2 else ()) for node in range(length - 1))
    return (*inner, (), (length - 1,))


def tree(length: int, seed: int) -> Parents:
    """Each position's parent is drawn evenly among the earlier ones and `none` (the authors' `single_parent.py`)."""
    random = generator(seed, "latent graph")
    drawn = [int(torch.randint(-1, node, (), generator=random)) if node else -1 for node in range(length - 1)]
    return (*((parent,) if parent >= 0 else () for parent in drawn), (), (length - 1,))


def two_parents(length: int, seed: int) -> Parents:
    """Position i follows from positions (i − 1) // 2 and i − 1 together, and so does what comes last."""
    return ((), (), *(((node - 1) // 2, node - 1) for node in range(2, length + 1)))


#: By name; each is a function of the sequence's length and of a seed.
GRAPHS: dict[str, Callable[[int, int], Parents]] = {
    "chain": chain,
    "pairs": pairs,
    "tree": tree,
    "two_parents": two_parents,
}


def shuffled(graph: Graph, seed: int) -> Graph:
    """Other parents for the same children, drawn evenly among earlier positions but their own; where there is none, 0.

    It is what a measure of `graph` must not find.
    """
    random = generator(seed, "shuffled graph")
    parents = list(graph.parents)
    for node in graph.children:
        others = [other for other in range(node) if other not in graph.parents[node]] or [0]
        drawn = torch.randint(len(others), (len(graph.parents[node]),), generator=random).tolist()
        parents[node] = tuple(dict.fromkeys(others[place] for place in drawn))
    return Graph(tuple(parents))


def marginals(rows: Rows, graph: Graph, root: Float[Tensor, "*batch state"]) -> list[Float[Tensor, "*batch state"]]:
    """The law of each position of a forest whose roots are drawn from `root`."""
    found: list[Tensor] = []
    for parents in graph.parents[: graph.length]:
        found.append((found[parents[0]][..., None, :] @ rows)[..., 0, :] if parents else root)
    return found


def information(
    rows: Rows, graph: Graph, root: Float[Tensor, "*batch state"]
) -> Float[Tensor, "*batch position position"]:
    """χ² mutual information between every two different positions of a forest, exactly; 0 on the diagonal.

    Two positions depend on each other through their nearest common ancestor c alone:
    p(x, y) = Σ p(c) p(x | c) p(y | c).

    Args:
        rows: transition matrices.
        graph: with at most one parent each.
        root: the law of roots. As in the paper the last position is an even draw, so it says nothing of the others
            unless it has a parent.

    Raises:
        BadInput: some position has several parents.
    """
    if graph.most_parents > 1:
        raise BadInput("information between positions is computed for graphs of one parent each; this has several")
    laws = marginals(rows, graph, root)
    shared = torch.zeros(*root.shape[:-1], graph.length, graph.length, dtype=rows.dtype)
    for node in range(graph.length):
        for other in range(node):
            above, below = graph.line(node), graph.line(other)
            common = next((ancestor for ancestor in above if ancestor in below), None)
            if common is not None:
                far, near = (torch.linalg.matrix_power(rows, line.index(common)) for line in (above, below))
                joint = far.mT @ (laws[common][..., None] * near)
                shared[..., node, other] = shared[..., other, node] = chi_square(joint)
    return shared
