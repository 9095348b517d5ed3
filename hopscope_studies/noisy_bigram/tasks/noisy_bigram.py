"""The noisy bigram: a global association against in-context recall (Chen, Bruna and Bietti, 2024, arXiv:2406.03068)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, NO_CHAIN, Roles
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer
from hopscope_studies.noisy_bigram.tasks.base_noise import NoisyTrigger

TRIGGER = 0  # the token q


@dataclass(frozen=True)
class NoisyBigram(NoisyTrigger):
    """Random tokens in which a fixed trigger q is followed by the sequence's own token y or by noise τ; q comes last.

    ```
    c q y a b q τ d q y e | q   ->  y with probability 1 − α, τ with probability α
    ```

    The correct token y is drawn anew for every sequence and follows some earlier q. In all sequences τ follows q with
    probability α. After any other token all tokens but τ are equally likely. The best prediction is τ with probability
    α and the y of the context with 1 − α, at a loss of H(α) nats.

    The two partial losses are those of the sequences whose last q is followed by y, and by τ, with the same logits.
    `recalled` gives y in either case.
    """

    n_tokens: int = setting(32, "N: ordinary tokens, the trigger among them; noise is one more", low=3, high=65536)
    length: int = setting(64, "positions, the query among them", low=4, high=4096)
    alpha: float = setting(0.5, "how often noise follows the trigger, 0-1", low=0, high=0.99)

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """Ordinary tokens, then τ."""
        return self.n_tokens + 1

    @property
    def noise(self) -> int:  # type: ignore[override]
        """The token τ."""
        return self.n_tokens

    query_positions = slice(-1, None)

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all tokens equally likely; noise or any answer; noise or the context's; foreknowledge."""
        return {
            "any token": self.uniform(),
            "noise or any answer": self.entropy + (1 - self.alpha) * math.log(self.n_tokens - 1),
            "noise or the context's answer": self.entropy,
            "foreknown": 0.0,
        }

    @property
    def solved_below(self) -> float:
        """5 % of the way from H(α), the least expected loss, to chance (ours)."""
        return self.entropy + 0.05 * (self.chance - self.entropy)

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """Random sequences; a trigger with its correct token is planted at an even place, so each can be answered."""
        device, size = generator.device, (n, self.length)
        tokens = torch.randint(self.n_tokens, size, generator=generator, device=device)
        correct = torch.randint(1, self.n_tokens, (n, 1), generator=generator, device=device)
        others = torch.randint(1, self.n_tokens, size, generator=generator, device=device)  # never the trigger
        noisy = torch.rand(size, generator=generator, device=device) < self.alpha
        place = torch.randint(self.length - 2, (n, 1), generator=generator, device=device)
        at = torch.arange(self.length, device=device)
        tokens = torch.where((at == place - 1) | (at == self.length - 2), others, tokens)
        tokens = torch.where((at == place) | (at == self.length - 1), TRIGGER, tokens)
        noisy[:, :-1] &= at[:-1] != place
        triggers = triggers_among(tokens)
        follows = torch.where(noisy, self.noise, correct)
        tokens[:, 1:] = torch.where(triggers[:, :-1], follows[:, :-1], tokens[:, 1:])
        return {"tokens": tokens, "correct": correct, "noisy": noisy[:, -1:]}

    def read(self, tokens: list[int]) -> Draw:
        """The draw of these tokens; noise is unpredictable, so the context's token should follow the last trigger."""
        followed = {second for first, second in pairwise(tokens) if first == TRIGGER} - {self.noise}
        if tokens[-1] != TRIGGER or len(followed) != 1 or TRIGGER in followed:
            raise BadInput("q must stand last, and behind every q before it noise, or a token that is always the same")
        found = {"tokens": tokens, "correct": [followed.pop()], "noisy": [False]}
        return {name: torch.tensor([values]) for name, values in found.items()}

    def recalled(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return draw["correct"][:, None]

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        noisy = draw["noisy"]
        noise = torch.where(noisy, self.noise, NOT_ASKED)
        return torch.stack([torch.where(noisy, NOT_ASKED, draw["correct"]), noise], -1)

    def loss(
        self, outputs: Float[Tensor, "batch query output"], targets: Int[Tensor, "batch query hop"]
    ) -> Float[Tensor, ""]:
        """The mean over sequences, whichever token follows."""
        asked = targets.amax(-1)  # NOT_ASKED is negative, so this is the one answer
        return torch.nn.functional.cross_entropy(outputs.float().flatten(0, 1), asked.flatten())

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether the token that does follow is the likeliest one."""
        return outputs.argmax(-1) == batch.targets.amax(-1)

    def roles(self, draw: Draw) -> Roles:
        """`key[1]` is each earlier trigger and `value[1]` the token after it; those with noise belong to no chain."""
        tokens, correct = draw["tokens"], draw["correct"]
        keys = (tokens == TRIGGER)[:, :-1]  # a correct token is never the trigger, so the rule holds after each
        right = torch.where(tokens[:, 1:] == correct, 0, NO_CHAIN)
        chain = torch.full((len(tokens), 3, self.n_positions), ABSENT, device=tokens.device)
        chain[:, 0, -1] = 0
        chain[:, 1, :-1] = torch.where(keys, right, ABSENT)
        chain[:, 2, 1:] = torch.where(keys, right, ABSENT)
        return Roles(("query", "key[1]", "value[1]"), chain)

    def named(self, token: int) -> str:
        """`q`, `noise`, or `t` with the token's number."""
        return {TRIGGER: "q", self.noise: "noise"}.get(token, f"t{token}")

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact for every pair of neighbours, and the trigger as the query."""
        names = [self.named(token) for token in draw["tokens"][row].tolist()]
        return Problem(tuple(Fact((first,), second) for first, second in pairwise(names)), (names[-1],))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """Noise with probability α, else the token that followed the trigger earlier and was not noise."""
        followed = {second for first, second in pairwise(inputs) if first == inputs[-1]} - {self.noise}
        (correct,) = followed
        return [[{self.noise: self.alpha, correct: 1 - self.alpha}]]

    @property
    def bayes_loss(self) -> float:
        """H(α)."""
        return self.entropy

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {self.named(token): torch.tensor(token) for token in range(self.d_vocab)}


def triggers_among(tokens: Int[Tensor, "batch position"]) -> Bool[Tensor, "batch position"]:
    """The triggers that remain among freely drawn tokens, if the token after each of them is replaced.

    A place in a run of triggers remains if its distance to the last other token before the run is odd.
    """
    at = torch.arange(tokens.shape[1], device=tokens.device)
    is_trigger = tokens == TRIGGER
    last_other = torch.where(is_trigger, -1, at).cummax(1).values
    return is_trigger & ((at - last_other) % 2 == 1)
