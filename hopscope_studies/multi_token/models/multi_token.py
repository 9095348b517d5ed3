"""A transformer that predicts several tokens: one last layer for each, on a shared trunk (Gloeckle et al., 2024).

arXiv:2404.19737, section 2: a shared trunk, n independent heads of one transformer layer each, and one unembedding for
all of them. With n = 1 it is the plain transformer, weight for weight and bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.models.base import Tap
from hopscope.models.base_layers import Block
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.base import Task


@dataclass(frozen=True)
class MultiTokenArchitecture(Architecture):
    """The shape of a transformer whose last n layers are heads that all read the same trunk.

    The task asks for n outputs at once, one hop each; the first is the one that the plain model would be asked for.
    With equal seeds the trunk and the first head start with the same weights, whatever n is.
    """

    n_futures: int = setting(1, "n, how many things are foretold, each by a last layer of its own", low=1, high=64)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_layers < self.n_futures:
            raise BadInput(
                f"layers must be at least futures, for each of them takes one; got {self.n_layers} and {self.n_futures}"
            )

    @property
    def trunk(self) -> int:
        """The number of layers of the shared trunk."""
        return self.n_layers - self.n_futures

    def build(self, task: Task, generator: torch.Generator | None = None) -> Transformer:
        asked = len(task.hop_names)
        if self.n_futures > 1 and (asked != self.n_futures or task.d_output % asked):
            raise BadInput(f"futures must be 1, or what {task.name()} asks for at once, {asked}; got {self.n_futures}")
        return MultiTokenTransformer.for_task(self, task, generator)


class MultiTokenTransformer(Transformer):
    """Embedding, trunk, heads side by side, final LayerNorm, unembedding; arguments are those of `Transformer`.

    Head i is layer `trunk + i` in the names of activations. The outputs of the heads are concatenated.
    """

    architecture: MultiTokenArchitecture

    def __init__(
        self,
        architecture: MultiTokenArchitecture,
        *,
        d_output: int,
        learned_positions: bool = False,
        generator: torch.Generator | None = None,
        **sizes: Any,
    ):
        n, trunk = architecture.n_futures, architecture.trunk
        super().__init__(architecture, d_output=d_output // n, learned_positions=learned_positions, **sizes)
        self.starts_at_layers &= n == 1
        code = architecture.code(carried=not learned_positions)
        for layer in range(trunk + 1, architecture.n_layers):  # all heads are at the same depth
            self.blocks[layer] = Block(architecture, trunk, code, sizes["n_positions"])
        if generator is not None:
            self.initialise(generator)

    def write_scale(self, name: str) -> float:
        """The scale of a plain model with one layer more than the trunk."""
        if not name.endswith(("W_O", "W_out")):
            return 1.0
        trunk = self.architecture.trunk
        depth = min(int(name.split(".")[1]), trunk) + 1
        return {"gpt2": (2 * (trunk + 1)) ** -0.5, "early_layers": 1 / depth}.get(self.architecture.init, 1.0)

    def run_blocks(
        self, layers: range, resid: Tensor, tap: Tap | None, tokens: Tensor | None, at: slice | None, sparing: bool
    ) -> Float[Tensor, "batch position ... d_model"]:
        """The stream after the only head; with several, after each: (batch, position, head, d_model)."""
        if self.architecture.n_futures == 1:
            return super().run_blocks(layers, resid, tap, tokens, at, sparing)
        if layers != range(self.architecture.n_layers):
            raise BadInput("a model that foretells several tokens has layers side by side: it runs as a whole alone")
        shared = super().run_blocks(layers[: self.architecture.trunk], resid, tap, tokens, None, sparing)
        heads = layers[self.architecture.trunk :]
        return torch.stack([self.run_block(head, shared, tap, tokens, at, sparing) for head in heads], 2)

    def unembed(
        self, resid: Float[Tensor, "batch position ... d_model"], tap: Tap | None = None
    ) -> Float[Tensor, "batch position d_output"]:
        outputs = super().unembed(resid, tap)
        return outputs if self.architecture.n_futures == 1 else outputs.flatten(2)

    def read_off(
        self, stream: Float[Tensor, "batch position d_model"], at: slice | None
    ) -> Float[Tensor, "batch position d_output"]:
        if self.architecture.n_futures > 1:
            raise BadInput("a stream does not tell which of several heads reads it; leave deep-supervision at 0")
        return super().read_off(stream, at)
