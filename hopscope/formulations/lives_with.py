"""Lives with: Alice lives in Berlin, Bob lives with Alice, where does Bob live? (Musat, ICLR 2025, 4 and A.2)."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.core.settings import BadInput, setting
from hopscope.formulations.base_chain import ChainFormulation
from hopscope.formulations.base_names import PEOPLE, listed

#: The first four, Amsterdam to Delhi, are the paper's.
CITIES = listed(
    """
    Amsterdam Berlin Cairo Delhi Edinburgh Florence Geneva Havana Istanbul Jakarta Kyoto Lisbon Madrid Nairobi Oslo
    Paris Quito Rome Seoul Tokyo Utrecht Vienna Warsaw Yokohama Zurich
    """
)


@dataclass(frozen=True)
class LivesWith(ChainFormulation):
    """N people live in cities; D − 1 times, N others live with the previous N.

    ```
    Bob lives in Amsterdam           premise  conclusion
    Alice lives in Berlin
    Charlie lives with Bob           key[1]   value[1]
    David lives with Alice
    Where does Charlie live? Say directly only the name of the city, without any other words.
    ```

    People are named in alphabetical order, N to a block, one name for each letter (A.2: Alice … Tom); a second alphabet
    follows Zach. The cities are the first N.
    """

    n_hops: int = setting(5, "facts from the person who is asked about to the city, D (A.2: 5)", low=1, high=26)
    n_chains: int = setting(4, "chains, and cities to choose from, N (A.2: 4)", low=2, high=len(CITIES))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_hops * self.n_chains > len(PEOPLE):
            raise BadInput(
                f"lives_with has names for {len(PEOPLE)} people, and {self.n_hops} hops of {self.n_chains} "
                f"chains need {self.n_hops * self.n_chains}; ask for fewer hops or chains"
            )

    def symbols(self, k: int) -> tuple[str, ...]:
        if k == self.n_hops:
            return CITIES[: self.n_chains]
        start = (self.n_hops - 1 - k) * self.n_chains
        return PEOPLE[start : start + self.n_chains]

    def template(self, k: int) -> str:
        return "{} lives in {}" if k == self.n_hops else "{} lives with {}"

    def closing(self) -> tuple[str, str]:
        ask = "Where does {} live? Say directly only the name of the city, without any other words."
        return ask, "{} lives in"
