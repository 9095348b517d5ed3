"""The retrieval problem on discrete tokens, with cross-entropy (after Musat, ICLR 2025, section 3.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.tasks.base import TokenTask
from hopscope.tasks.base_sheets import GUESS, ChainTask


@dataclass(frozen=True)
class SymbolicRetrieval(ChainTask, TokenTask):
    """Follow each query through D facts, as in `retrieval`, with tokens as symbols.

    The tokens of a sequence differ. Which token stands for which symbol is drawn for every sequence, so only the
    context shows what follows what. The model embeds positions.
    """

    d_vocab: int = setting(64, "number of different tokens", low=2, high=65536)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_vocab < self.sheet.n_symbols:
            raise BadInput(
                f"d-vocab must be at least {self.sheet.n_symbols}, the number of symbols in a sequence; "
                f"got {self.d_vocab}"
            )

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all tokens; all symbols of the sequence; the N symbols of the right step; a solved task."""
        return {
            "any token": math.log(self.d_vocab),
            "any symbol of the sequence": math.log(self.sheet.n_symbols),
            GUESS: math.log(self.n_chains),
            "solved": 0.0,
        }

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        noise = torch.rand(n, self.d_vocab, generator=generator, device=generator.device)
        return {"tokens": noise.argsort(-1)[:, : self.sheet.n_symbols], **self.sheet.draw(n, generator)}

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        return draw["tokens"].gather(1, self.sheet.symbols(draw))

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        asked = self.asked(draw)
        return draw["tokens"].gather(1, asked.flatten(1)).view_as(asked)

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return dict(zip(self.sheet.names, draw["tokens"][row], strict=True))
