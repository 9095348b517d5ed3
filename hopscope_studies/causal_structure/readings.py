"""Measurements of a trained model of causal sequences: losses beside their floors, and where it stores the graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.interventions.patterns import null, visible
from hopscope.models.base import Model, Replacements
from hopscope.tasks.base import Batch
from hopscope.tasks.base_sources import expected_loss, expected_loss_of_logits
from hopscope.theory.markov.graphs import Graph, shuffled
from hopscope_studies.causal_structure.constructions import second_layer_block
from hopscope_studies.causal_structure.models.disentangled_transformer import DisentangledTransformer
from hopscope_studies.causal_structure.tasks.causal_sequences import CausalSequences

SEQUENCES = 4096  # on which losses are compared, sequence by sequence


@torch.no_grad()
def at_the_end(model: Model, task: CausalSequences, seed: int, sequences: int = SEQUENCES) -> dict[str, float]:
    """Numbers by name, all on the same fresh sequences.

    Expected losses: `loss`, of the model; `bayes`, of the Bayes predictor; `counted`, of the paper's reference;
    `children blind` and `query blind`, of the model if these positions attend evenly in layer 0. `layer 0`: mean
    attention of children to a parent, for the head that has most. `layer 0 first`: the share of children whose most
    attended position is a parent. `layer 1 first`: the share of children whose parent, read in layer 0, changes their
    score in layer 1 most (models of one head). `split`: the share of children whose parents are the most attended
    positions of two different heads. Measures of the graph also come as `… shuffled`: against a graph of other parents.
    """
    batch = task.sample(sequences, generator(seed, "causal structure", 0, model.device))
    law = task.law(batch.draw)
    outputs, cache = model(batch.inputs, at=task.query_positions, cache=["blocks.0.attn.hook_pattern"])
    found = {
        "loss": mean_loss(outputs, law),
        "bayes": float(expected_loss(task.foretold(batch.inputs), law).mean()),
        "counted": float(expected_loss(task.counted(batch.inputs), law).mean()),
    }
    for name, places in (("children", task.latent.children), ("query", [task.length - 1])):
        found[f"{name} blind"] = mean_loss(blind(model, batch, places), law)
    pattern = cache["pattern", 0].mean(0)
    for words, graph in (("", task.latent), (" shuffled", shuffled(task.latent, seed))):
        found |= {name + words: number for name, number in graph_in(model, pattern, graph).items()}
    return found


def mean_loss(outputs: Float[Tensor, "batch query vocab"], law: Float[Tensor, "batch query vocab"]) -> float:
    """Expected loss over the law, mean over sequences."""
    return float(expected_loss_of_logits(outputs, law).mean())


def blind(model: Model, batch: Batch, places: list[int]) -> Tensor:
    """Outputs when the heads of layer 0 attend evenly at some positions."""
    even = null("uniform", visible(batch.task.n_positions, causal=True))

    def evened(actual: Tensor) -> Tensor:
        changed = actual.clone()
        changed[:, :, places] = even[places].to(actual)
        return changed

    replace: Replacements = {"blocks.0.attn.hook_pattern": evened}
    outputs: Tensor = model(batch.inputs, at=batch.task.query_positions, replace=replace)
    return outputs


def graph_in(model: Model, pattern: Float[Tensor, "head query key"], graph: Graph) -> dict[str, float]:
    """Measures of how much of a graph is in layer 0's mean pattern and in layer 1's scores."""
    children, adjacency = graph.children, graph.adjacency[graph.children]
    rows = pattern[:, children]
    on_parents = (rows * adjacency).sum(-1).mean(1)
    best = int(on_parents.argmax())
    found = {
        "layer 0": float(on_parents[best]),
        "layer 0 first": share(rows[best], graph, lambda row, child: int(row.argmax())),
    }
    if graph.most_parents > 1 and len(rows) >= graph.most_parents:
        named = rows.argmax(-1).T.tolist()  # child head
        sets = [set(graph.parents[child]) <= set(of) for child, of in zip(children, named, strict=True)]
        found["split"] = sum(sets) / len(sets)
    if isinstance(model, DisentangledTransformer) and model.architecture.n_heads == 1:
        columns = second_layer_block(model).mT[children]
        found["layer 1 first"] = share(columns, graph, outstanding)
    return found


def share(rows: Float[Tensor, "child position"], graph: Graph, named: Callable[[Tensor, int], int]) -> float:
    """The share of children for which `named` picks a parent from their row."""
    right = [named(row, child) in graph.parents[child] for row, child in zip(rows, graph.children, strict=True)]
    return sum(right) / len(right)


def outstanding(row: Float[Tensor, "position"], child: int) -> int:
    """The earlier position whose number lies farthest from the median of all, above or below."""
    return int((row[:child] - row.median()).abs().argmax())
