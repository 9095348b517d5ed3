"""Looped depth: the same layers run several times (Dehghani et al., 2019; Saunshi et al., ICLR 2025).

A model of `loops` has weights for `n_layers / loops` layers, named as those of the first loop. Whatever reads a model
counts layers over all loops: circuits, emergence and certificates see each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hopscope.models.transformer import Transformer


def looped(model: Transformer, loops: int, own_layers: int | None = None) -> Transformer:
    """The same weights in a model with another number of loops, in memory of their own.

    Args:
        model: whose weights.
        loops: how many times the layers are run, such as more often than in training.
        own_layers: for how many layers the new model has weights; where it has more than this one, they are copies.
    """
    shape = model.architecture
    own_layers = own_layers or shape.own_layers
    new = type(model)(
        shape.but(n_layers=own_layers * loops, loops=loops),
        n_positions=len(model.mask),
        d_output=model.W_U.shape[1],
        d_input=len(model.W_E) if model.b_E is not None else None,
        d_vocab=len(model.W_E) if model.b_E is None else None,
        learned_positions=model.W_pos is not None,
    )
    weights = model.state_dict()
    new.load_state_dict({name: weights[in_first_loop(name, shape.own_layers)] for name in new.state_dict()})
    return new.to(model.device).train(model.training)


def in_first_loop(name: str, own_layers: int) -> str:
    """A weight's name in the first loop: in loops of two layers that of `blocks.5.attn.W_O` is `blocks.1.attn.W_O`."""
    blocks, _, rest = name.partition(".")
    if blocks != "blocks":
        return name
    layer, _, weight = rest.partition(".")
    return f"blocks.{int(layer) % own_layers}.{weight}"
