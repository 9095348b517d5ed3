"""Latent graphs: which earlier positions each position depends on, and the mutual information of any two positions.

After Nichani, Damian & Lee (2024, arXiv:2402.14735, section 2): position i of a sequence is drawn given its parents
p(i) < i; a position without parents is a root. A graph has one more node than a sequence: the token to be predicted.
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
    """The parents of every node, all of them earlier nodes; the last node is the token that follows the sequence.

    Raises:
        BadInput: parents of a node are not distinct earlier nodes.
    """

    parents: Parents

    def __post_init__(self) -> None:
        for node, parents in enumerate(self.parents):
            if not all(0 <= parent < node for parent in parents) or len(set(parents)) < len(parents):
                raise BadInput(f"parents must be different earlier nodes; node {node} has {parents}")

    @property
    def length(self) -> int:
        """Number of positions of a sequence."""
        return len(self.parents) - 1

    @property
    def most_parents(self) -> int:
        """The largest number of parents of a node."""
        return max(map(len, self.parents))

    @property
    def children(self) -> list[int]:
        """Positions that have parents, in order; the last node is not among them."""
        return [node for node in range(self.length) if self.parents[node]]

    @cached_property
    def adjacency(self) -> Bool[Tensor, "position position"]:
        """True where the second position is a parent of the first."""
        matrix = torch.zeros(self.length, self.length, dtype=torch.bool)
        for node in self.children:
            matrix[node, list(self.parents[node])] = True
        return matrix

    def line(self, node: int) -> list[int]:
        """A node of a forest, its parent, and so on up to the root."""
        return [node, *(self.line(self.parents[node][0]) if self.parents[node] else [])]


def chain(length: int, seed: int) -> Parents:
    """The parent of each position is the one before: an ordinary Markov chain."""
    return ((), *((node - 1,) for node in range(1, length - 1)), (), (length - 1,))


def pairs(length: int, seed: int) -> Parents:
    """The parent of positions 1, 3, 5 … is the one before: pairs as in induction. The last position is a root."""
    inner = (((node - 1,) if node % 2 else ()) for node in range(length - 1))
    return (*inner, (), (length - 1,))


def tree(length: int, seed: int) -> Parents:
    """Each position's parent is drawn uniformly from earlier positions and none (the authors' `single_parent.py`)."""
    random = generator(seed, "latent graph")
    drawn = [int(torch.randint(-1, node, (), generator=random)) if node else -1 for node in range(length - 1)]
    return (*((parent,) if parent >= 0 else () for parent in drawn), (), (length - 1,))


def two_parents(length: int, seed: int) -> Parents:
    """The parents of node i are nodes (i − 1) // 2 and i − 1, for the last node, too; nodes 0 and 1 are roots."""
    return ((), (), *(((node - 1) // 2, node - 1) for node in range(2, length + 1)))


#: Graphs by name; each is a function of the sequence's length and a seed.
GRAPHS: dict[str, Callable[[int, int], Parents]] = {
    "chain": chain,
    "pairs": pairs,
    "tree": tree,
    "two_parents": two_parents,
}


def shuffled(graph: Graph, seed: int) -> Graph:
    """A control for measures of `graph`: the same children with other parents.

    They are drawn uniformly from earlier positions that are not parents of the child; if there are none, it is 0.
    """
    random = generator(seed, "shuffled graph")
    parents = list(graph.parents)
    for node in graph.children:
        others = [other for other in range(node) if other not in graph.parents[node]] or [0]
        drawn = torch.randint(len(others), (len(graph.parents[node]),), generator=random).tolist()
        parents[node] = tuple(dict.fromkeys(others[place] for place in drawn))
    return Graph(tuple(parents))


def marginals(rows: Rows, graph: Graph, root: Float[Tensor, "*batch state"]) -> list[Float[Tensor, "*batch state"]]:
    """The distribution of each position of a forest whose roots are drawn from `root`."""
    laws: list[Tensor] = []
    for parents in graph.parents[: graph.length]:
        laws.append((laws[parents[0]][..., None, :] @ rows)[..., 0, :] if parents else root)
    return laws


def information(
    rows: Rows, graph: Graph, root: Float[Tensor, "*batch state"]
) -> Float[Tensor, "*batch position position"]:
    """The exact χ² mutual information of every two positions of a forest; 0 on the diagonal.

    Two positions depend on each other only through their lowest common ancestor c:
    p(x, y) = Σ p(c) p(x | c) p(y | c).

    Args:
        rows: transition matrices.
        graph: with at most one parent per node.
        root: the distribution of roots. As in the paper the last position is drawn uniformly, so it is independent of
            the others unless it has a parent.

    Raises:
        BadInput: some node has several parents.
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
