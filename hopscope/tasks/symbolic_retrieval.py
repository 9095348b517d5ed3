"""The retrieval problem on discrete tokens, with cross-entropy (after Musat, ICLR 2025, section 3.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw, FactSheet
from hopscope.problem.roles import chain_letter
from hopscope.problem.shapes import chain_shape
from hopscope.tasks.base import TokenTask
from hopscope.tasks.base_sheets import GUESS, SheetTask


@dataclass(frozen=True)
class SymbolicRetrieval(SheetTask, TokenTask):
    """Follow each query through D facts, as in `retrieval`, where every symbol is a token drawn afresh.

    The tokens of a sequence differ; which token plays which symbol is drawn for every sequence, so that only the
    context tells what follows what. Positions are embedded by the model.
    """

    n_hops: int = setting(2, "D, the number of retrieval steps per chain", low=1, high=256)
    d_vocab: int = setting(64, "number of different tokens", low=2, high=65536)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_vocab < self.sheet.n_symbols:
            raise BadInput(
                f"d-vocab must be at least {self.sheet.n_symbols}, the number of symbols in a sequence; "
                f"got {self.d_vocab}"
            )

    @cached_property
    def sheet(self) -> FactSheet:
        """N plain chains of D facts."""
        return FactSheet(
            self.n_chains, chain_shape(self.n_hops), self.order, lambda k, chain: f"{chain_letter(int(chain))}{k}"
        )

    @property
    def baselines(self) -> dict[str, float]:
        """Nats: all tokens equally likely; all symbols of the sequence; the N symbols of the right step; solved."""
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

    @property
    def hardest(self) -> int:
        return self.n_hops

    def at(self, difficulty: int) -> SymbolicRetrieval:
        if difficulty == self.n_hops:
            return self
        return self.but(n_hops=difficulty, order=self.order_of(difficulty))
