"""The base of tasks made of a fact sheet: shuffled chains of facts, then queries (Musat, ICLR 2025, section 6)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.core import catalogue
from hopscope.core.settings import BadInput, setting
from hopscope.curricula.base import Curriculum
from hopscope.problem.factsheet import Draw, FactSheet
from hopscope.problem.oracle import Problem
from hopscope.problem.roles import Roles, chain_letter
from hopscope.problem.shapes import NAMED_ORDERS, chain_shape
from hopscope.problem.symbols import position_code, position_shift, take
from hopscope.tasks.base import Task, VectorTask

GUESS = "right step, no chain followed"  # baseline of a model that finds the step but takes a random chain's fact


@dataclass(frozen=True)
class SheetTask(Task):
    """A task whose sequences are a fact sheet: the facts of N chains, then the N queries."""

    n_chains: int = setting(4, "N, the number of interleaved chains, and of queries", low=1, high=256)
    order: str = setting(
        "deepest_first",
        "order of the steps: deepest_first (section 3.1), nearest_first, shuffled (in each sequence), or 3,1,2 …",
    )
    curriculum: str = setting(
        "implicit", "implicit: every hop is asked (section 7); mixture, cumulative, staged, layerwise, none: the last"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # Both raise for what they cannot read, so that a bad setting is reported when it is made.
        _ = self.taught_by, self.sheet

    @cached_property
    def taught_by(self) -> Curriculum:
        return catalogue.find("curricula", self.curriculum)()

    @property
    @abstractmethod
    def sheet(self) -> FactSheet:
        """The layout and the shuffling of the chains."""

    @property
    def asked_hops(self) -> slice:
        """Which of a chain's successors the targets hold."""
        return slice(0 if self.taught_by.asks_every_hop else -1, None)

    @property
    def n_positions(self) -> int:
        return self.sheet.n_positions

    @property
    def query_positions(self) -> slice:
        return slice(-self.n_chains, None)

    @cached_property
    def hop_names(self) -> tuple[str, ...]:
        names = tuple(f"{'x' if s.conclusion.isdecimal() else ''}{s.conclusion}" for s in self.sheet.steps)
        return names[self.asked_hops]

    def roles(self, draw: Draw) -> Roles:
        return self.sheet.roles(draw)

    def problem(self, draw: Draw, row: int) -> Problem:
        return self.sheet.problem(draw, row)

    @property
    def learnt_below(self) -> float:
        """A hop counts as learnt below two thirds of the loss of `GUESS`, which knows the step but follows no chain.

        At N = 4 vectors that is 0.5, as in the paper's section 7.2; at N = 2, where `GUESS` costs 0.5, it is 1/3. With
        one chain the right step is the answer, and the threshold is that of other tasks.
        """
        return 2 * self.baselines[GUESS] / 3 or super().learnt_below

    def asked(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        """Symbol numbers of the right answers."""
        return self.sheet.asked(draw)[..., self.asked_hops]


@dataclass(frozen=True)
class ChainTask(SheetTask):
    """A fact sheet of N plain chains of D facts."""

    n_hops: int = setting(2, "D, the number of retrieval steps per chain", low=1, high=256)

    @cached_property
    def sheet(self) -> FactSheet:
        """N plain chains of D facts."""
        name = lambda k, chain: f"{chain_letter(int(chain))}{k}"  # noqa: E731
        return FactSheet(self.n_chains, chain_shape(self.n_hops), self.order, name)

    @property
    def hardest(self) -> int:
        return self.n_hops

    def at(self, difficulty: int) -> ChainTask:
        if difficulty == self.n_hops:
            return self
        return self.but(n_hops=difficulty, order=self.order_of(difficulty))

    def order_of(self, difficulty: int) -> str:
        """The order in which the first `difficulty` steps are presented; of a list, the other steps are dropped."""
        if self.order in NAMED_ORDERS:
            return self.order
        return ",".join(step for step in self.order.split(",") if int(step) <= difficulty)


@dataclass(frozen=True)
class SheetVectorTask(SheetTask, VectorTask):
    """A fact sheet whose symbols are Gaussian vectors, fresh in every sequence, next to a position code.

    A position holds its symbol's K numbers, then the K numbers of its position code.
    """

    d_symbol: int = setting(4, "K, the dimension of a symbol and of the position code; even", low=2, high=256)
    position_code: str = setting(
        "token",
        "what the position code counts: token; pair; token_and_before, each token's code beside that of the one before",
        choices=("token", "pair", "token_and_before"),
    )
    position_base: float = setting(
        10_000.0, "position t turns by t·base^(-2i/K): RoPE's 10000 gives t and t/100 at K = 4, 100 t and t/10", low=1
    )

    inputs_carry_position = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_symbol % 2:
            raise BadInput(f"d-symbol must be even, one sine and one cosine per frequency; got {self.d_symbol}")

    @property
    def d_input(self) -> int:  # type: ignore[override]
        return (3 if self.position_code == "token_and_before" else 2) * self.d_symbol

    @property
    def baselines(self) -> dict[str, float]:
        """A Gaussian symbol has variance 1; predicting the mean of N of them costs 1 − 1/N."""
        return {"predict zero": 1.0, GUESS: 1 - 1 / self.n_chains, "solved": 0.0}

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        shape = (n, self.sheet.n_symbols, self.d_symbol)
        symbols = torch.randn(shape, generator=generator, device=generator.device)
        return {"symbols": symbols, **self.sheet.draw(n, generator)}

    def inputs(self, draw: Draw) -> Float[Tensor, "batch position feature"]:
        symbols = take(draw["symbols"], self.sheet.symbols(draw))
        places = torch.arange(self.n_positions, device=symbols.device)
        if self.position_code == "pair":
            places = self.sheet.presented(draw)
        counted = [places, places - 1] if self.position_code == "token_and_before" else [places]
        codes = [position_code(place, self.d_symbol, self.position_base).expand_as(symbols) for place in counted]
        return torch.cat([symbols, *codes], -1)

    def position_features(self, steps: int = 0) -> Float[Tensor, "d_input d_code"] | None:
        if self.position_code == "pair":
            return None
        read = torch.zeros(self.d_input, self.d_symbol)
        read[self.d_symbol : 2 * self.d_symbol] = position_shift(steps, self.d_symbol, self.position_base)
        return read

    def targets(self, draw: Draw) -> Float[Tensor, "batch query output"]:
        answers = take(draw["symbols"], self.asked(draw).flatten(1))
        return answers.view(len(answers), self.n_chains, self.d_output)

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return dict(zip(self.sheet.names, draw["symbols"][row], strict=True))

    def candidates(self, draw: Draw) -> Float[Tensor, "batch symbol d_symbol"]:
        return draw["symbols"]
