"""Whether two heads divide two parents between them, and the graphs that serve as controls."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.models.base import Model
from hopscope.theory.markov.graphs import Graph
from hopscope_studies.causal_structure.readings import mean_loss
from hopscope_studies.causal_structure.tasks.causal_sequences import LATENT, CausalSequences

ANOTHER = 1000  # added to a graph's seed for the control


@torch.no_grad()
def halves(model: Model, task: CausalSequences, seed: int, sequences: int) -> dict[str, float]:
    """Measures of how two heads of layer 0 share each child's two parents, by name.

    `divided`, `mass`: see `divided`. Each also `… another` (another graph's parents) and `… permuted` (each child is
    given the parents of the child before it). `apart`: total variation distance between the heads' attention. `alike`:
    expected loss (nats) if both heads attend as they do on average.
    """
    batch = task.sample(sequences, generator(seed, "causal structure", 0, model.device))
    _, cache = model(batch.inputs, at=task.query_positions, cache=["blocks.0.attn.hook_pattern"])
    pattern, parents = cache["pattern", 0].mean(0), task.latent.parents
    graphs = {
        "": task.latent,
        " another": Graph(LATENT[task.graph](task.length, task.graph_seed + ANOTHER)),
        " permuted": Graph((*parents[:3], *parents[2:-1])),
    }
    evened = {"blocks.0.attn.hook_pattern": lambda actual: actual.mean(1, keepdim=True).expand_as(actual)}
    outputs = model(batch.inputs, at=task.query_positions, replace=evened)
    found = {
        "apart": float((pattern[0] - pattern[1]).abs().sum(-1)[2:].mean() / 2),
        "alike": mean_loss(outputs, task.law(batch.draw)),
    }
    for words, graph in graphs.items():
        found |= {name + words: number for name, number in divided(pattern, graph).items()}
    return found


def divided(pattern: Float[Tensor, "head query key"], graph: Graph) -> dict[str, float]:
    """How two heads share two parents, if the same head has the first parent of every child.

    Of the two ways round the better one counts, for all children together, because layer 1 can compare parents only if
    each head reads the same one everywhere. The last position asks for the node after it, so it has that node's parents
    to read; its own are not measured.

    Returns:
        `divided`: the share of children at which each head attends most to its own parent. `mass`: mean attention of a
        head to its own parent.
    """
    readers: dict[int, tuple[int, ...]] = {
        child: pair for child, pair in enumerate(graph.parents[:-2]) if len(pair) == 2
    }
    readers[graph.length - 1] = graph.parents[-1]
    rows, pairs = pattern[:, list(readers)], torch.tensor(list(readers.values()), device=pattern.device).T
    ways = (pairs, pairs.flip(0))  # head child
    hits = [float((rows.argmax(-1) == way).all(0).float().mean()) for way in ways]
    masses = [float(rows.gather(-1, way[..., None]).mean()) for way in ways]
    return {"divided": max(hits), "mass": max(masses)}
