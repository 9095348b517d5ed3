"""Kingdoms: who has the illness that follows from what they eat, believe and live in? (Musat, ICLR 2025, 4 and A.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.core.settings import setting
from hopscope.formulations.base_chain import ChainFormulation
from hopscope.formulations.base_names import PEOPLE, listed

#: Kinds of names, from the answer outward; the first four of each are the paper's.
KINDS = (
    PEOPLE[:10],
    listed("Silvania Novaria Aurora Florinia Valoria Montania Ostaria Petronia Eldoria Marinia"),
    listed(
        "celestianism harmonianism elysianism luminism stellarism verdantism solarianism crystallism tidalism emberism"
    ),
    listed("beef pork lamb chicken duck goose turkey rabbit salmon venison"),
    listed("Astralyte Nephryon Zephyrium Virellium Quorvite Lumarine Thalorite Obridium Keltrium Pyrosine"),
    listed("Chronogy Aetherflux Somnosis Synthemia Vertalgia Noctemia Glaciosis Tremoria Calidysis Ossiflux"),
)
#: Wordings of the link between one kind and the next, and the verb of a question about it.
LINKS = (
    ("{} lives in {}.", "lives in"),
    ("{} believe in {}.", "believes in"),
    ("{} eat {}.", "eats"),
    ("{} contains {}.", "consumes"),
    ("{} causes {}.", "has"),
)


@dataclass(frozen=True)
class Kingdoms(ChainFormulation):
    """N people live in kingdoms; each kingdom has a belief, each belief a food, each food a substance, each an illness.

    ```
    Bob lives in Silvania.                     conclusion  premise
    Alice lives in Novaria.
    Silvanians believe in celestianism.        value[1]    key[1]
    Novarians believe in harmonianism.
    Who believes in harmonianism? Say directly the name without other words.
    ```

    Every statement is retrieved from its end to its beginning. With D hops the question is about the D-th link: who
    lives in, believes in, eats, consumes (ours) or has something. Names are the first N of their kind.
    """

    conclusion_first: ClassVar[bool] = True

    n_hops: int = setting(5, "links from the person to what is asked about, D (A.3: 5)", low=1, high=len(LINKS))
    n_chains: int = setting(4, "chains, and people to choose from, N (A.3: 4)", low=2, high=len(KINDS[0]))

    def symbols(self, k: int) -> tuple[str, ...]:
        return KINDS[self.n_hops - k][: self.n_chains]

    def template(self, k: int) -> str:
        return LINKS[self.n_hops - k][0]

    def closing(self) -> tuple[str, str]:
        verb = LINKS[self.n_hops - 1][1]
        ask = f"Who {verb} {{}}? Say directly the name without other words."
        return ask, f"The person who {verb} {{}} is"

    def inflected(self, symbol: str, k: int, is_premise: bool) -> str:
        """The spelling in a sentence: Novarians for Novaria, Luminists for luminism, Beef at its beginning."""
        if is_premise:
            return symbol
        if symbol in KINDS[1]:
            return f"{symbol}ns"
        if symbol in KINDS[2]:
            return f"{symbol.capitalize().removesuffix('m')}ts"
        return symbol.capitalize()
