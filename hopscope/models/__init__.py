"""Transformers after the GPT-2 recipe, whose activations are read and replaced by arguments of the forward pass."""

from hopscope.models.transformer import Architecture, Cache, Transformer

__all__ = ["Architecture", "Cache", "Transformer"]
