"""Predictors of the next token if the latent graph is known and the transition matrix is not.

If rows of the matrix have a Dirichlet prior and roots are uniform, counting is the Bayes predictor: the probability of
t after s is (count of s → t) + α, normalised (the prior is conjugate). If roots are drawn from the matrix's own
stationary distribution, they carry information about the matrix, too. The posterior is then integrated by importance
sampling: matrices are drawn from the posterior given the counts, and weighted by the probability of the roots.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.theory.markov.chains import dirichlet, stationary
from hopscope.theory.markov.graphs import Graph

DRAWS = 512  # matrices per sequence for importance sampling
PIECE = 1 << 18  # matrices in memory at a time
SAME_WEIGHT = -1  # the context number of roots


def contexts(tokens: Int[Tensor, "batch position"], graph: Graph, n_states: int) -> Int[Tensor, "batch node"]:
    """The states of each node's parents, encoded as one integer, first parent first; SAME_WEIGHT for roots.

    Nodes with different numbers of parents share no integer: those of k parents follow those of k − 1.
    """
    columns = []
    for parents in graph.parents:
        number = torch.zeros_like(tokens[:, 0])
        for parent in parents:
            number = number * n_states + tokens[:, parent]
        first = sum(n_states**k for k in range(1, len(parents)))
        columns.append(number + first if parents else torch.full_like(number, SAME_WEIGHT))
    return torch.stack(columns, 1)


def followers(tokens: Int[Tensor, "batch position"], graph: Graph, n_states: int) -> Bool[Tensor, "batch position"]:
    """Which tokens were drawn in the same context as the token to be predicted."""
    context = contexts(tokens, graph, n_states)
    return context[:, :-1] == context[:, -1:]


def counted(
    tokens: Int[Tensor, "batch position"], graph: Graph, n_states: int, concentration: float
) -> Float[Tensor, "batch state"]:
    """The prediction by counting: how often each state followed this context, plus α (`concentration`), normalised."""
    same = followers(tokens, graph, n_states)
    counts = (torch.nn.functional.one_hot(tokens, n_states) * same[..., None]).sum(1).double() + concentration
    return counts / counts.sum(-1, keepdim=True)


def integrated(
    tokens: Int[Tensor, "batch position"], graph: Graph, n_states: int, concentration: float, seed: int = 0
) -> Float[Tensor, "batch state"]:
    """The Bayes predictor if roots are drawn from the stationary distribution and the last position uniformly.

    It uses importance sampling with `DRAWS` matrices per sequence. Graphs must have at most one parent per node.
    """
    random = generator(seed, "posterior", 0, tokens.device)
    per_piece = max(1, PIECE // DRAWS)
    return torch.cat([posterior(part, graph, n_states, concentration, random) for part in tokens.split(per_piece)])


def posterior(
    tokens: Int[Tensor, "batch position"],
    graph: Graph,
    n_states: int,
    concentration: float,
    random: torch.Generator,
) -> Float[Tensor, "batch state"]:
    """`integrated` for as many sequences as fit into memory."""
    n = len(tokens)
    counts = torch.zeros(n, n_states, n_states, dtype=torch.float64, device=tokens.device)
    for node in graph.children:
        flat = tokens[:, graph.parents[node][0]] * n_states + tokens[:, node]
        counts.view(n, -1).scatter_add_(1, flat[:, None], torch.ones_like(flat[:, None], dtype=torch.float64))
    rows = dirichlet((counts + concentration)[:, None], (n, DRAWS, n_states, n_states), random)
    roots = [node for node in range(graph.length - 1) if not graph.parents[node]]
    law = stationary(rows)  # batch draw state
    likely = law.gather(2, tokens[:, None, roots].expand(n, DRAWS, len(roots))).clamp(min=1e-300).log().sum(-1)
    weights = likely.softmax(-1)
    here = tokens[:, -1, None, None, None].expand(n, DRAWS, 1, n_states)
    return (weights[..., None] * rows.gather(2, here)[:, :, 0]).sum(1)


def follower_counts(
    tokens: Int[Tensor, "batch position"], order: int, n_tokens: int, skip: int | None = None
) -> Iterator[Float[Tensor, "batch position token"]]:
    """For n = 0, 1 … order: how often each token but `skip` has followed the last n tokens so far in the sequence."""
    one_hot = torch.nn.functional.one_hot(tokens, n_tokens).double()
    if skip is not None:
        one_hot[..., skip] = 0.0
    yield one_hot.cumsum(1)
    length = tokens.shape[1]
    matched = torch.ones(1, length, length, dtype=torch.bool, device=tokens.device).tril(-1)
    same = tokens[:, :, None] == tokens[:, None]
    for _ in range(order):
        matched = matched & same
        same = torch.nn.functional.pad(same, (1, -1, 1, -1))  # the tokens one position earlier
        yield matched[:, :, :-1].double() @ one_hot[:, 1:]


def backed_off(
    tokens: Int[Tensor, "batch position"], order: int, n_tokens: int, skip: int | None = None
) -> Float[Tensor, "batch position token"]:
    """The in-context n-gram model of Akyürek et al. (2024): frequencies after the longest context seen before.

    If not even the last token was seen before: how often each token occurred so far, plus 1.
    """
    counts_by_order = follower_counts(tokens, order, n_tokens, skip)
    counted = next(counts_by_order) + 1.0
    if skip is not None:
        counted[..., skip] = 0.0
    for counts in counts_by_order:
        counted = torch.where(counts.sum(-1, keepdim=True) > 0, counts, counted)
    return counted / counted.sum(-1, keepdim=True)


def interpolated(
    tokens: Int[Tensor, "batch position"], order: int, n_tokens: int, skip: int | None = None, weight: float = 1.0
) -> Float[Tensor, "batch position token"]:
    """All orders together: the counts of each order, plus the prediction of the order below times `weight`.

    Below order 0 stands a uniform prediction of all tokens but `skip`.
    """
    law = torch.ones(*tokens.shape, n_tokens, dtype=torch.float64, device=tokens.device)
    if skip is not None:
        law[..., skip] = 0.0
    law = law / law.sum(-1, keepdim=True)
    for counts in follower_counts(tokens, order, n_tokens, skip):
        law = (counts + weight * law) / (counts.sum(-1, keepdim=True) + weight)
    return law
