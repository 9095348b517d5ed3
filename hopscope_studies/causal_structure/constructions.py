"""Two hand-set disentangled transformers with equal answers, one with the graph in layer 0 and one in layer 1.

Both average the tokens of all children whose parents hold the asked token, and output c times that average. They differ
in where the graph is stored (the first is the paper's construction, section 2.3; the second is ours):

- *keys look*: in layer 0 each child attends to its parent; in layer 1 the query attends to children that
  read its token.
- *the query looks*: in layer 0 the query attends to every position with another token than its own, and so reads where
  these are; in layer 1 it avoids the children of those positions and attends to all others.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope_studies.causal_structure.models.disentangled_transformer import (
    DisentangledArchitecture,
    DisentangledTransformer,
    blocks,
)
from hopscope_studies.causal_structure.tasks.causal_sequences import CausalSequences

SHARP = 100.0  # a score that decides a softmax
ANSWER = 3.0  # c, near the best for V = 3, T = 12

WAYS = ("keys look", "the query looks")


@torch.no_grad()
def constructed(task: CausalSequences, way: str, answer: float = ANSWER) -> DisentangledTransformer:
    """A transformer of two layers of one head with its weights set by hand.

    Args:
        task: with one parent per child.
        way: one of `WAYS`.
        answer: c, what the average of tokens is multiplied by.
    """
    model = DisentangledArchitecture().build(task)
    at, adjacency = blocks(task.d_vocab, task.length), task.latent.adjacency.float()
    same = torch.eye(task.d_vocab)
    first, second = model.get_parameter("A0")[0], model.get_parameter("A1")[0]
    if way == "keys look":
        first[at["position"], at["position"]] = SHARP * adjacency
        second[at["token"], at["read token"]] = SHARP * same
    else:
        first[at["token"], at["token"]] = -SHARP * same
        second[at["read position"], at["position"]] = -SHARP * task.length * adjacency.T
    childless = torch.ones(task.length)
    childless[task.latent.children] = 0.0
    second[at["token"], at["position"]] = -SHARP * task.length * childless
    width = task.d_vocab + task.length
    model.W_U[2 * width : 2 * width + task.d_vocab] = answer * same
    return model


def second_layer_block(model: DisentangledTransformer) -> Float[Tensor, "parent child"]:
    """How much reading a position in layer 0 changes each position's score in layer 1: the query's graph."""
    at = blocks(model.d_vocab, model.n_positions)
    return model.get_parameter("A1")[0][at["read position"], at["position"]].detach()
