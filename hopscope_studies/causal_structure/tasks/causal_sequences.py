"""Sequences with a latent graph: each position depends on its parents (Nichani et al., 2024, arXiv:2402.14735).

The graph is the same in all sequences, the transition matrix is drawn anew for each. A model that knows the graph can
count what followed the last token's state. The graph can be found, because no earlier position shares more χ² mutual
information with a token than its parent does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import Match, Relations, back, same_token
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import BestAnswer
from hopscope.tasks.base_sources import SourceTask, expected_loss, floor_sample
from hopscope.theory.markov.chains import chosen, dirichlet, stationary
from hopscope.theory.markov.graphs import GRAPHS, Graph, Parents
from hopscope.theory.markov.predictors import counted, followers, integrated

FORCE_DRAWS = 500  # matrices per sequence in the plain integration


def drawn_and_before(length: int, seed: int) -> Parents:
    """The parents of node i are node i − 1 and another earlier node, drawn; nodes 0 and 1 are roots.

    In the authors' graph of two parents the other parent is node (i − 1) // 2. Drawn, it gives independent graphs.
    """
    random = generator(seed, "latent graph")
    drawn = [int(torch.randint(node - 1, (), generator=random)) for node in range(2, length + 1)]
    return ((), (), *((other, node - 1) for node, other in enumerate(drawn, start=2)))


LATENT = {**GRAPHS, "drawn_and_before": drawn_and_before}


@dataclass(frozen=True)
class CausalSequences(SourceTask):
    """Tokens s_0 … s_(T−1) over a latent graph; the next token is asked.

    ```
    graph    0 → 2, 0 → 3, 2 → 5, 3 → 6 … ; T − 1 → what is asked
    matrix   rows from Dirichlet(α), drawn for each sequence; s_i ~ row of its parent's token
    ```

    Roots are drawn from the matrix' stationary distribution, as in the paper, or evenly. The last position is drawn
    uniformly unless it has parents. Places are `query` (the last position), `child` (has parents) and `root`. Paths
    lead to relations: `itself`, `parent` (with several, `parent[1]` …), `sibling`, `same-token`, `other-token`, and
    `child-of-same-token`: positions whose parents hold the same tokens as the parents of the asked token.
    """

    d_vocab: int = setting(3, "number of states, V (paper: 10, and 3 for many graphs)", low=2, high=1024)
    length: int = setting(12, "number of positions, T (paper: 20)", low=3, high=1024)
    concentration: float = setting(0.1, "α of the Dirichlet law of rows; small: few followers each", low=1e-3)
    graph: str = setting(
        "tree", "latent graph: drawn at random, a chain, pairs, or two parents each", choices=tuple(LATENT)
    )
    graph_seed: int = setting(0, "of a random graph", low=0)
    roots: str = setting("stationary", "how positions without parents are drawn", choices=("stationary", "uniform"))

    ideal_over = "even"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.latent.most_parents > 1 and self.roots == "stationary":
            raise BadInput(f"a graph of several parents, {self.graph}, has no stationary law; choose roots=uniform")

    @cached_property
    def latent(self) -> Graph:
        """The latent graph, the same in all sequences."""
        return Graph(LATENT[self.graph](self.length, self.graph_seed))

    query_positions = slice(-1, None)

    # Sequences -----------------------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        device, V = generator.device, self.d_vocab
        kernels = {
            k: dirichlet(self.concentration, (n, V**k, V), generator)
            for k in sorted({len(parents) for parents in self.latent.parents} - {0})
        }
        even = torch.full((n, V), 1 / V, dtype=torch.float64, device=device)
        root = stationary(kernels[1]) if self.roots == "stationary" else even
        uniform = torch.rand(n, len(self.latent.parents), generator=generator, device=device, dtype=torch.float64)
        tokens: list[Tensor] = []
        law = even
        for node, parents in enumerate(self.latent.parents):
            law = even if node == self.length - 1 else root
            if parents:
                context = torch.zeros(n, dtype=torch.long, device=device)
                for parent in parents:
                    context = context * V + tokens[parent]
                law = kernels[len(parents)][torch.arange(n, device=device), context]
            tokens.append(chosen(law, uniform[:, node]))
        return {"tokens": torch.stack(tokens, 1), "law": law}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return draw["tokens"][:, -1:, None]

    def law(self, draw: Draw) -> Float[Tensor, "batch query vocab"]:
        return draw["law"][:, None]

    def foretold(self, inputs: Int[Tensor, "batch position"]) -> Float[Tensor, "batch query vocab"]:
        """The Bayes predictor: by counting if roots are uniform, else integrated over matrices."""
        predictor = integrated if self.roots == "stationary" else counted
        return predictor(inputs, self.latent, self.d_vocab, self.concentration)[:, None]

    def counted(self, inputs: Int[Tensor, "batch position"]) -> Float[Tensor, "batch query vocab"]:
        """The paper's reference: counts + α, which ignores the information in the roots."""
        return counted(inputs, self.latent, self.d_vocab, self.concentration)[:, None]

    @property
    def floors(self) -> dict[str, float]:
        """As for every source, with `counted`, the loss of the paper's reference."""
        return super().floors | {"counted": counted_floor(self)}

    @property
    def solved_below(self) -> float:
        """A tenth of the way from the paper's reference to chance (ours): two attention layers cannot reach Bayes."""
        counted = self.floors["counted"]
        return counted + 0.1 * (self.chance - counted)

    # Positions -----------------------------------------------------------------------------------------------

    def roles(self, draw: Draw) -> Roles:
        tokens = self.inputs(draw)
        n, device = self.length, tokens.device
        places = {"query": [n - 1], "child": [i for i in self.latent.children if i < n - 1]}
        places["root"] = sorted({*range(n)} - {*places["query"], *places["child"]})
        held = {name: at for name, at in places.items() if at}
        chain = torch.full((len(held), n), ABSENT, device=device)
        for row, at in enumerate(held.values()):
            chain[row, at] = 0
        return Relations(tuple(held), chain.expand(len(tokens), -1, -1), self.matches(tokens))

    def matches(self, tokens: Int[Tensor, "batch position"]) -> dict[str, Match]:
        """For each relation, which positions stand in it to which."""
        n, most = self.length, self.latent.most_parents
        found = {"itself": back(0)(n, tokens)}
        for place in range(most):
            match = torch.zeros(n, n, dtype=torch.bool, device=tokens.device)
            for child in self.latent.children:
                match[child, self.latent.parents[child][place]] = True
            found["parent" if most == 1 else f"parent[{place + 1}]"] = match
        found |= {
            "sibling": self.siblings.to(tokens.device),
            "same-token": same_token(tokens),
            "other-token": tokens[:, :, None] != tokens[:, None],
            "child-of-same-token": followers(tokens, self.latent, self.d_vocab)[:, None],
        }
        return {name: match.expand(len(tokens), n, n) for name, match in found.items()}

    @property
    def siblings(self) -> Bool[Tensor, "position position"]:
        """Which positions have parents in common."""
        shared = self.latent.adjacency.float() @ self.latent.adjacency.float().T > 0
        return shared & ~torch.eye(self.length, dtype=torch.bool)

    # In plain Python -----------------------------------------------------------------------------------------

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact for every child, from its parents' places and tokens; the query is the last position."""
        tokens = self.inputs(draw)[row].tolist()
        facts = [
            Fact(tuple(f"{p}:{tokens[p]}" for p in parents), f"{node}:{tokens[node]}")
            for node, parents in enumerate(self.latent.parents[:-1])
            if parents
        ]
        return Problem(tuple(facts), (f"{self.length - 1}:{tokens[-1]}",))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """The Bayes predictor in plain float64: counts if roots are uniform, else an average over sampled matrices."""
        parents, V = self.latent.parents, self.d_vocab
        asked = tuple(inputs[p] for p in parents[-1])
        counts = numpy.full(V, self.concentration)
        for node, of in enumerate(parents[:-1]):
            if len(of) == len(asked) and tuple(inputs[p] for p in of) == asked:
                counts[inputs[node]] += 1
        found = counts / counts.sum() if self.roots == "uniform" else self.weighed(inputs)
        return [[dict(enumerate(found.tolist()))]]

    def weighed(self, inputs: list[int]) -> numpy.ndarray:
        """Matrices drawn from the posterior given the counts alone, weighted by the probability of the roots."""
        V, random = self.d_vocab, numpy.random.default_rng(0)
        seen = numpy.full((V, V), self.concentration)
        roots = []
        for node, of in enumerate(self.latent.parents[:-1]):
            if of:
                seen[inputs[of[0]], inputs[node]] += 1
            elif node < self.length - 1:
                roots.append(inputs[node])
        rows = numpy.stack([random.dirichlet(row, FORCE_DRAWS) for row in seen], 1) + 1e-9
        rows /= rows.sum(-1, keepdims=True)
        # μ·rows = μ and Σ μ = 1, added up: μ (1 − rows + ones) = (1, …, 1)
        law = numpy.linalg.solve((numpy.eye(V) - rows + 1).swapaxes(1, 2), numpy.ones((FORCE_DRAWS, V, 1)))[..., 0]
        law = law.clip(1e-300)
        weights = numpy.prod(law[:, roots], axis=1) if roots else numpy.ones(FORCE_DRAWS)
        return (weights[:, None] * rows[:, inputs[-1]]).sum(0) / weights.sum()

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {str(token): torch.tensor(token) for token in range(self.d_vocab)}


@cache
def counted_floor(task: CausalSequences) -> float:
    """The loss of the paper's reference, on the sequences of the other floors."""
    batch = floor_sample(task)
    return float(expected_loss(task.counted(batch.inputs), task.law(batch.draw)).mean())
