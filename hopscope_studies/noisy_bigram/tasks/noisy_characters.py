"""Characters drawn from Shakespeare's bigrams, in which a rare character follows a trigger as noise (Chen et al.).

The data of arXiv:2406.03068, after the authors' code (leichen2018/ATTN_vs_MLP, `ihead_data.py`, one trigger).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, NO_CHAIN, Roles
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer
from hopscope_studies.noisy_bigram.tasks.base_noise import NoisyTrigger

SAMPLE = 4096  # sequences from which the least expected loss is estimated, to about 0.002 nats


@dataclass(frozen=True)
class NoisyCharacters(NoisyTrigger):
    """Characters drawn from Shakespeare's bigrams; the trigger, the commonest one, is followed by y or the noise τ.

    ```
    t h e _ r n o t _ ! w a _ r e _ | ...      y = r, after every _ (space); with probability α it is ! instead
    ```

    The correct character y is drawn anew for every sequence, from all characters. τ is a rare character that also
    occurs in the bigrams. The task asks for the character after the trigger from its second occurrence on, where the
    context may show y. `recalled` gives y at the triggers before which it was seen.
    """

    length: int = setting(64, "number of characters (paper: 256)", low=2, high=4096)
    alpha: float = setting(
        0.5, "how often noise follows the trigger, 0-1; 0: sequences without noise", low=0, high=0.99
    )
    noise: int = setting(2, "which character is noise; 2 is !, of which there are 0.19 %", low=0, high=64)

    @cached_property
    def corpus(self) -> Any:
        """The same task without noise, which has the bigrams and the characters' names."""
        return catalogue.find("tasks", "trigger_bigrams")(n_triggers=1)

    @cached_property
    def trigger(self) -> int:
        """The commonest character: the space."""
        return int(self.corpus.bigrams.first.argmax())

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """Number of different characters."""
        return int(self.corpus.d_vocab)

    # Sequences -----------------------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        device, bigrams = generator.device, self.corpus.bigrams
        uniform = torch.rand(n, self.length + 1, generator=generator, device=device, dtype=torch.float64)
        correct = torch.randint(self.d_vocab, (n, 1), generator=generator, device=device)
        noisy = torch.rand(n, self.length, generator=generator, device=device) < self.alpha
        after = torch.where(noisy, self.noise, correct)
        start = torch.searchsorted(bigrams.first.cumsum(0).to(device), uniform[:, 0].contiguous(), right=True)
        tokens = [start.clamp(max=self.d_vocab - 1)]
        for place, u in enumerate(uniform.T[1:].contiguous()):
            here = tokens[-1]
            tokens.append(torch.where(here == self.trigger, after[:, place], bigrams.follow(here, u)))
        return {"tokens": torch.stack(tokens, 1), "correct": correct}

    def asked(self, draw: Draw) -> Bool[Tensor, "batch position"]:
        """Whether a position holds the trigger, and not its first occurrence."""
        triggers = self.inputs(draw) == self.trigger
        return triggers & (triggers.cumsum(1) > 1)

    def told(self, draw: Draw) -> tuple[Bool[Tensor, "batch position"], Int[Tensor, "batch position"]]:
        """Whether an earlier trigger was followed by a token other than τ, and how many were followed by τ."""
        followed = self.inputs(draw)[:, :-1] == self.trigger
        noise = draw["tokens"][:, 1:-1] == self.noise
        nothing = torch.zeros_like(followed[:, :1])
        seen = torch.cat([nothing, (followed & ~noise).cummax(1).values], 1)
        return seen, torch.cat([nothing, followed & noise], 1).cumsum(1)

    def recalled(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        """y where the context has shown it; if y is τ, where the context has shown τ."""
        seen, noise = self.told(draw)
        shown = torch.where(draw["correct"] == self.noise, noise > 0, seen)
        return torch.where(self.asked(draw) & shown, draw["correct"], NOT_ASKED)[..., None]

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        asked, following = self.asked(draw), draw["tokens"][:, 1:]
        right = following == draw["correct"]
        kinds = (asked & right, asked & ~right)
        return torch.stack([torch.where(kind, following, NOT_ASKED) for kind in kinds], -1)

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether the character that does follow is the likeliest one."""
        answers = batch.targets.amax(-1)  # NOT_ASKED is negative, so this is the one answer
        return (outputs.argmax(-1) == answers)[answers != NOT_ASKED][:, None]

    def roles(self, draw: Draw) -> Roles:
        """`key[1]` is a trigger and `value[1]` the character after it; those with noise belong to no chain."""
        keys = self.inputs(draw) == self.trigger
        keys[:, -1] = False  # the character after the last position is not seen
        right = torch.where(draw["tokens"][:, 1:] == draw["correct"], 0, NO_CHAIN)
        key, nothing = torch.where(keys, right, ABSENT), torch.full_like(right[:, :1], ABSENT)
        query = torch.where(self.asked(draw), 0, ABSENT)
        return Roles(
            ("query", "key[1]", "value[1]"), torch.stack([query, key, torch.cat([nothing, key[:, :-1]], 1)], 1)
        )

    # In plain Python -----------------------------------------------------------------------------------------

    def problem(self, draw: Draw, row: int) -> Problem:
        """One fact, the character after the trigger, and the trigger as the query."""
        question = f"{self.corpus.named(self.trigger)}…"
        return Problem((Fact((question,), self.corpus.named(int(draw["correct"][row]))),), (question,))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """The distribution after the trigger: τ with probability α, else y; if only τ was shown, y by Bayes' rule."""
        found: list[list[BestAnswer]] = []
        for place, here in enumerate(inputs):
            earlier = [after for before, after in pairwise(inputs[: place + 1]) if before == self.trigger]
            asked = here == self.trigger and self.trigger in inputs[:place]
            found.append([self.predictive(earlier) if asked else None] * len(self.hop_names))
        return found

    def predictive(self, earlier: list[int]) -> dict[int, float]:
        """The distribution after the trigger, given what followed it before."""
        known, n, alpha = set(earlier) - {self.noise}, self.d_vocab, self.alpha
        if known:
            return {self.noise: alpha, known.pop(): 1 - alpha}
        is_noise = 1 / (1 + (n - 1) * alpha ** len(earlier))  # the probability that y is τ
        other = (1 - is_noise) * (1 - alpha) / (n - 1)
        return dict.fromkeys(range(n), other) | {self.noise: is_noise + (1 - is_noise) * alpha}

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {self.corpus.named(token): torch.tensor(token) for token in range(self.d_vocab)}

    # Losses --------------------------------------------------------------------------------------------------

    @cached_property
    def bayes_loss(self) -> float:  # type: ignore[override]
        """H(α), and more where no context has shown y yet; estimated on a fixed sample."""
        draw = self.draw(SAMPLE, generator(0, "floor"))
        seen, noise = self.told(draw)
        open_places = noise[self.asked(draw) & ~seen].tolist()
        least = {
            m: sum(-p * math.log(p) for p in self.predictive([self.noise] * m).values() if p > 0)
            for m in {*open_places}
        }
        n_asked = int(self.asked(draw).sum())
        return (sum(least[m] for m in open_places) + (n_asked - len(open_places)) * self.entropy) / n_asked

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all characters equally likely; noise or any character; Bayes' rule; foreknowledge."""
        return {
            "any character": math.log(self.d_vocab),
            "noise or any character": self.entropy + (1 - self.alpha) * math.log(self.d_vocab - 1),
            "noise or the context's": self.bayes_loss,
            "foreknown": 0.0,
        }

    @property
    def solved_below(self) -> float:
        """5 % of the way from Bayes' rule to chance (ours)."""
        return self.bayes_loss + 0.05 * (self.chance - self.bayes_loss)
