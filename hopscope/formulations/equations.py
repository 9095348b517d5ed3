"""Equations: `a = 3`, `b = a`, `c = b`, what is c? (Musat, ICLR 2025, sections 4 and A.1)."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.core.settings import BadInput, setting
from hopscope.formulations.base_chain import ChainFormulation
from hopscope.formulations.base_names import LETTERS


@dataclass(frozen=True)
class Equations(ChainFormulation):
    """N variables are given numbers; D − 1 times, N new variables are given the values of the previous N.

    ```
    b = 0        premise  conclusion
    a = 1
    c = b        key[1]   value[1]
    d = a
    What is the value of c? Say directly only the numeric value, without any other words.
    ```

    Variables are letters in alphabetical order, N to a block, without gaps; A … Z follow z.
    The numbers are 0 … N − 1.
    """

    n_hops: int = setting(5, "equations from what is asked to its number, D (A.1: 5)", low=1, high=26)
    n_chains: int = setting(4, "chains, and numbers to choose from, N (A.1: 4)", low=2, high=52)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_hops * self.n_chains > len(LETTERS):
            raise BadInput(
                f"equations have letters for {len(LETTERS)} variables, and {self.n_hops} hops of {self.n_chains} "
                f"chains need {self.n_hops * self.n_chains}; ask for fewer hops or chains"
            )

    def symbols(self, k: int) -> tuple[str, ...]:
        if k == self.n_hops:
            return tuple(map(str, range(self.n_chains)))
        start = (self.n_hops - 1 - k) * self.n_chains
        return LETTERS[start : start + self.n_chains]

    def template(self, k: int) -> str:
        return "{} = {}"

    def closing(self) -> tuple[str, str]:
        ask = "What is the value of {}? Say directly only the numeric value, without any other words."
        return ask, "print({})\n# output:"
