"""The base of formulations with plain chains: N chains of D facts, in the order of appendix A (Musat, ICLR 2025).

The facts stand in D blocks, deepest first. A block holds the facts of one hop of all chains, in random order. Which
symbol of a block belongs to which chain is random, too. The paper states neither and gives one example of each
formulation; in all twelve pairs of neighbouring blocks of these, both look random.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from hopscope.formulations.base import Formulation, Question
from hopscope.formulations.base_draw import Draw
from hopscope.formulations.base_words import Statement, Word, compose, written
from hopscope.problem.oracle import Fact


class ChainFormulation(Formulation):
    """Chains that share no symbol: x_0, which is asked about, leads in D hops to the answer x_D."""

    #: Whether a statement's conclusion comes before its premise.
    conclusion_first: ClassVar[bool] = False

    @abstractmethod
    def symbols(self, k: int) -> tuple[str, ...]:
        """The symbols x_k of the N chains: for k = 0 in the order of the chains, for answers in the paper's order."""

    @abstractmethod
    def template(self, k: int) -> str:
        """The wording of fact k, with `{}` for each of its two symbols."""

    @abstractmethod
    def closing(self) -> tuple[str, str]:
        """The closing line and the stem, with `{}` for the symbol that is asked about."""

    def inflected(self, symbol: str, k: int, is_premise: bool) -> str:
        """A symbol as fact k spells it."""
        return symbol

    @property
    def chance(self) -> float:
        return 1 / self.n_chains

    def question(self, seed: int, index: int) -> Question:
        draw = Draw(self.name(), self.identifying(), seed, index)
        chains = self.chains(draw)
        statements = [
            self.statement(k, chains[c][k - 1], chains[c][k], c)
            for k in range(self.n_hops, 0, -1)
            for c in draw.permutation(self.n_chains)
        ]
        asked = draw.below(self.n_chains)
        return compose(
            self,
            seed,
            index,
            statements,
            closing=self.closing(),
            query=chains[asked][:1],
            asked=asked,
            chain=chains[asked],
            acceptable=self.symbols(self.n_hops),
        )

    def chains(self, draw: Draw) -> list[tuple[str, ...]]:
        """The symbols x_0 … x_D of every chain."""
        columns = [self.symbols(0)]
        for k in range(1, self.n_hops + 1):
            symbols = self.symbols(k)
            columns.append(tuple(symbols[i] for i in draw.permutation(self.n_chains)))
        return list(zip(*columns, strict=True))

    def statement(self, k: int, premise: str, conclusion: str, chain: int) -> Statement:
        """Fact k of a chain."""
        key = Word(self.inflected(premise, k, True), f"key[{k}]", chain)
        value = Word(self.inflected(conclusion, k, False), f"value[{k}]", chain)
        words = (value, key) if self.conclusion_first else (key, value)
        return Statement(Fact((premise,), conclusion, k), written(self.template(k), *words))
