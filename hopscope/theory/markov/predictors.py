"""What a sequence tells of what comes next, where its latent graph is known and its transition matrix is not.

With rows of the matrix from a Dirichlet law, and roots drawn evenly, counting is Bayes: the probability of t after s is
(count of s → t) + α over its sum (the law is conjugate). Where roots are drawn from the matrix' own stationary
distribution they tell of the matrix, too; the posterior is then integrated by importance sampling: matrices are drawn
from the posterior of the counts and weighed by the probability of the roots.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.theory.markov.chains import dirichlet, stationary
from hopscope.theory.markov.graphs import Graph

DRAWS = 512  # matrices per sequence by which a posterior is integrated
PIECE = 1 << 18  # matrices in memory at a time
SAME_WEIGHT = -1  # the number of no context


def contexts(tokens: Int[Tensor, "batch position"], graph: Graph, n_states: int) -> Int[Tensor, "batch node"]:
    """Of every node the states of its parents as one number, first parent first; SAME_WEIGHT for roots.

    Nodes of different numbers of parents do not share numbers: those of k parents begin behind those of k − 1.
    """
    found = []
    for parents in graph.parents:
        number = torch.zeros_like(tokens[:, 0])
        for parent in parents:
            number = number * n_states + tokens[:, parent]
        first = sum(n_states**k for k in range(1, len(parents)))
        found.append(number + first if parents else torch.full_like(number, SAME_WEIGHT))
    return torch.stack(found, 1)


def followers(tokens: Int[Tensor, "batch position"], graph: Graph, n_states: int) -> Bool[Tensor, "batch position"]:
    """Which tokens were drawn in the context of what is to be foretold."""
    context = contexts(tokens, graph, n_states)
    return context[:, :-1] == context[:, -1:]


def counted(
    tokens: Int[Tensor, "batch position"], graph: Graph, n_states: int, concentration: float
) -> Float[Tensor, "batch state"]:
    """What follows by counting: each state as often as it stood in this context, and α times more."""
    same = followers(tokens, graph, n_states)
    counts = (torch.nn.functional.one_hot(tokens, n_states) * same[..., None]).sum(1).double() + concentration
    return counts / counts.sum(-1, keepdim=True)


def integrated(
    tokens: Int[Tensor, "batch position"], graph: Graph, n_states: int, concentration: float, seed: int = 0
) -> Float[Tensor, "batch state"]:
    """The Bayes predictor where roots are drawn from the stationary distribution; the last position is an even draw.

    By importance sampling with `DRAWS` matrices a sequence; graphs of one parent each.
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
    """`integrated`, of as many sequences as fit into memory at a time."""
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
    """For n = 0, 1 … order: how often each token but `skip` followed the last n tokens earlier in the same sequence."""
    one_hot = torch.nn.functional.one_hot(tokens, n_tokens).double()
    if skip is not None:
        one_hot[..., skip] = 0.0
    yield one_hot.cumsum(1)
    length = tokens.shape[1]
    matched = torch.ones(1, length, length, dtype=torch.bool, device=tokens.device).tril(-1)
    same = tokens[:, :, None] == tokens[:, None]
    for _ in range(order):
        matched = matched & same
        same = torch.nn.functional.pad(same, (1, -1, 1, -1))  # of the tokens one before
        yield matched[:, :, :-1].double() @ one_hot[:, 1:]


def backed_off(
    tokens: Int[Tensor, "batch position"], order: int, n_tokens: int, skip: int | None = None
) -> Float[Tensor, "batch position token"]:
    """The in-context n-gram model of Akyürek et al. (2024): frequencies after the longest context that was seen before.

    Where not even the last token was: how often each token stood so far, and one more than that.
    """
    found: Tensor | None = None
    for counts in follower_counts(tokens, order, n_tokens, skip):
        if found is None:
            found = counts + 1.0
            if skip is not None:
                found[..., skip] = 0.0
            continue
        found = torch.where(counts.sum(-1, keepdim=True) > 0, counts, found)
    assert found is not None
    return found / found.sum(-1, keepdim=True)


def interpolated(
    tokens: Int[Tensor, "batch position"], order: int, n_tokens: int, skip: int | None = None, weight: float = 1.0
) -> Float[Tensor, "batch position token"]:
    """All orders together: each is its counts, and the order below as if it had been seen `weight` times.

    The lowest stands on an even guess of all tokens but `skip`.
    """
    found = torch.ones(*tokens.shape, n_tokens, dtype=torch.float64, device=tokens.device)
    if skip is not None:
        found[..., skip] = 0.0
    found = found / found.sum(-1, keepdim=True)
    for counts in follower_counts(tokens, order, n_tokens, skip):
        found = (counts + weight * found) / (counts.sum(-1, keepdim=True) + weight)
    return found
