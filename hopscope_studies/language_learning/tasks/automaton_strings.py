"""Strings of a random automaton, a new one for every sequence (Akyürek et al., 2024, arXiv:2401.12973, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer
from hopscope.tasks.base_sources import SourceTask
from hopscope.theory.markov.automata import Automata, even, random_automata
from hopscope.theory.markov.predictors import backed_off, interpolated

WEIGHT = 1.0  # of each shorter context, in occurrences


@dataclass(frozen=True)
class AutomatonStrings(SourceTask):
    """Strings that one automaton accepts, each after a separator; symbols are asked, separators are not.

    ```
    | d b d c | d b a | d b d b d c …
    ```

    Each sequence draws an automaton of 4 to 12 states over 4 to 18 symbols, with one to three edges per state. Every
    string is a walk from the first state, with all edges of a state equally likely. So for a predictor that knows the
    automaton the legal next symbols are equally likely (`law`). No computable Bayes predictor of automata is known.
    `foretold` is an n-gram model that interpolates between its orders, up to `context`, and the brute force computes
    the same by counting.

    All positions are `query`. What they attend to are relations: the position before, `after-same-token`, ….
    """

    n_symbols: int = setting(18, "size of the alphabet from which automata take theirs", low=3, high=1024)
    length: int = setting(24, "number of positions (the experiment: 96)", low=4, high=4096)
    longest: int = setting(14, "length of the longest strings; lengths are even from 1 (paper: 49)", low=1, high=1024)
    most_states: int = setting(12, "states of the greatest automata; the least have 4", low=4, high=64)
    context: int = setting(3, "most tokens that the n-gram model, the floor, looks back at", low=1, high=8)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_symbols < 4:
            raise BadInput(f"automata have four symbols or more; got symbols {self.n_symbols}")

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """The symbols, then the separator."""
        return self.n_symbols + 1

    @property
    def separator(self) -> int:
        """The token before each string."""
        return self.n_symbols

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        device = generator.device
        automata = random_automata(
            n, generator, states=(4, self.most_states), alphabet=(4, self.n_symbols), n_symbols=self.n_symbols
        )
        uniform = torch.rand(n, self.length, generator=generator, device=device, dtype=torch.float64)
        lengths = even((1, self.longest), (n, self.length), generator)
        tokens = [torch.full((n,), self.separator, device=device)]
        states, left = torch.zeros(n, dtype=torch.long, device=device), lengths[:, 0]
        within = []
        for place in range(self.length):
            over = left == 0
            symbols, after = automata.step(states, uniform[:, place])
            within.append(torch.where(over, -1, states))
            tokens.append(torch.where(over, self.separator, symbols))
            states = torch.where(over, 0, after)
            left = torch.where(over, lengths[:, place], left - 1)
        return {
            "tokens": torch.stack(tokens, 1),
            "states": torch.stack(within, 1),
            "symbols": automata.symbols,
            "goals": automata.targets,
            "degree": automata.degree,
        }

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        following = draw["tokens"][:, 1:, None]
        return torch.where(following == self.separator, NOT_ASKED, following)

    def law(self, draw: Draw) -> Float[Tensor, "batch query vocab"]:
        """The law of the next symbol; at positions that are not asked, that of the initial state."""
        automata = Automata(draw["symbols"], draw["goals"], draw["degree"])
        laws = [automata.law(states.clamp(min=0), self.d_vocab) for states in draw["states"].T]
        return torch.stack(laws, 1)

    def foretold(self, inputs: Int[Tensor, "batch position"]) -> Float[Tensor, "batch query vocab"]:
        """The n-gram model that interpolates between its orders."""
        return interpolated(inputs, self.context, self.d_vocab, self.separator, WEIGHT)

    def n_gram(self, inputs: Int[Tensor, "batch position"], order: int) -> Float[Tensor, "batch query vocab"]:
        """The paper's n-gram model, which backs off from the longest context to shorter ones."""
        return backed_off(inputs, order, self.d_vocab, self.separator)

    def asked(self, batch: Batch) -> Bool[Tensor, "batch query"]:
        return batch.targets[..., 0] != NOT_ASKED

    def asked_late(self, batch: Batch) -> Bool[Tensor, "batch query"]:
        """The asked positions in the later half of sequences, where the automaton can be inferred."""
        return self.asked(batch) & (torch.arange(self.length, device=batch.targets.device) >= self.length // 2)

    def roles(self, draw: Draw) -> Roles:
        return relations(self.inputs(draw), self.query_positions)

    # In plain Python -----------------------------------------------------------------------------------------

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact for every edge of the automaton: in this state, this symbol leads to that state."""
        symbols, goals, degrees = (draw[name][row].tolist() for name in ("symbols", "goals", "degree"))
        names = [self.named(symbol) for symbol in range(self.n_symbols)]
        facts = [
            Fact((f"state {state}", names[symbols[state][edge]]), f"state {goals[state][edge]}")
            for state, degree in enumerate(degrees)
            for edge in range(degree)
        ]
        return Problem(tuple(facts), ("state 0",))

    def named(self, token: int) -> str:
        """The name of a token: `a`, `b` … or `|`."""
        return "|" if token == self.separator else f"s{token}" if self.n_symbols > 26 else chr(ord("a") + token)

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """The same prediction by counting, from left to right, what followed each context of up to `context` tokens."""
        table: dict[tuple[int, ...], list[int]] = {}
        found: list[list[BestAnswer]] = []
        for place, token in enumerate(inputs):
            for n in range(min(self.context, place) + 1 if token != self.separator else 0):
                table.setdefault(tuple(inputs[place - n : place]), [0] * self.n_symbols)[token] += 1
            found.append([dict(enumerate(self.counted(table, inputs[: place + 1])))])
        return found

    def counted(self, table: Mapping[tuple[int, ...], list[int]], seen: list[int]) -> list[float]:
        """The n-gram model's law of the next symbol, given counts of what followed each context before."""
        share = [1 / self.n_symbols] * self.n_symbols
        for n in range(min(self.context, len(seen)) + 1):
            if counts := table.get(tuple(seen[len(seen) - n :])):
                total = sum(counts) + WEIGHT
                share = [(count + WEIGHT * below) / total for count, below in zip(counts, share, strict=True)]
        return share

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {self.named(token): torch.tensor(token) for token in range(self.d_vocab)}
