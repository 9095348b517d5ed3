"""Sequences of two kinds that need different heads: some are periodic, others are text of a fixed 3-gram model.

Data for mixtures of heads (Peng et al., 2020, arXiv:2005.06537), which should specialise by input. The task is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from hopscope.core.settings import setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer
from hopscope.tasks.base_one_answer import OneAnswerTask
from hopscope.tasks.fixed_n_gram import FixedNGram
from hopscope.tasks.last_successor import LastSuccessor


@dataclass(frozen=True)
class TwoKinds(OneAnswerTask):
    """Half of the sequences are those of `last_successor`, half those of `fixed_n_gram`, with tokens of their own.

    ```
    c f a b e a b e a    ->   b            (of its tokens, what followed it last: found in context)
    r t s r r t u s r    ->   a law of s, r  (of a fixed table: known by heart)
    ```
    """

    length: int = setting(32, "number of positions", low=4, high=4096)
    n_symbols: int = setting(32, "number of different tokens that go round", low=2, high=65536)
    n_tokens: int = setting(12, "number of different tokens of the text", low=2, high=256)

    @cached_property
    def around(self) -> LastSuccessor:
        """The task of the first kind."""
        return LastSuccessor(length=self.length, d_vocab=self.n_symbols)

    @cached_property
    def text(self) -> FixedNGram:
        """The task of the second kind."""
        return FixedNGram(length=self.length, n_tokens=self.n_tokens)

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        return self.n_symbols + self.n_tokens

    hop_names = ("in context", "by heart")

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """Draw `by_heart`, the kind of each sequence, and `tokens`, one more than the model sees."""
        by_heart = torch.rand(n, 1, generator=generator, device=generator.device) < 0.5
        around, text = self.around.draw(n, generator)["tokens"], self.text.draw(n, generator)["tokens"]
        return {"by_heart": by_heart, "tokens": torch.where(by_heart, text + self.n_symbols, around)}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        tokens, by_heart = draw["tokens"], draw["by_heart"]
        asked = torch.where(by_heart, torch.arange(self.length, device=tokens.device) >= 1, self.copies(draw))
        answers = torch.where(asked, tokens[:, 1:], NOT_ASKED)
        return torch.stack([torch.where(by_heart, NOT_ASKED, answers), torch.where(by_heart, answers, NOT_ASKED)], -1)

    def copies(self, draw: Draw) -> Bool[Tensor, "batch position"]:
        """Whether the token at each position occurred earlier."""
        return self.around.followers(draw) >= 0

    def correct(self, outputs: Tensor, batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether each answer is right, for both kinds."""
        answers = batch.targets.amax(-1)
        return (outputs.argmax(-1) == answers)[answers != NOT_ASKED][:, None]

    @cached_property
    def shares(self) -> tuple[float, float]:
        """The shares of answers in context and from memory, estimated from 1,024 sequences."""
        targets = self.sample(1024, 0).targets != NOT_ASKED
        of_text = float(targets[..., 1].sum() / targets.sum())
        return 1 - of_text, of_text

    @property
    def bayes_loss(self) -> float:
        return self.shares[1] * self.text.bayes_loss

    @property
    def solved_below(self) -> float:
        """5 % of the way from the lowest possible loss to chance (ours)."""
        return self.bayes_loss + 0.05 * (self.chance - self.bayes_loss)

    @property
    def best_accuracy(self) -> float:  # type: ignore[override]
        return self.shares[0] + self.shares[1] * self.text.best_accuracy

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all tokens equally likely; the kind known; the lowest possible loss; 0."""
        kinds = self.shares[0] * self.around.uniform() + self.shares[1] * self.text.uniform()
        return {
            "any token": self.uniform(),
            "any token of the kind": kinds,
            "the best that can be known": self.bayes_loss,
            "foreknown": 0.0,
        }

    def roles(self, draw: Draw) -> Roles:
        return relations(self.inputs(draw), self.query_positions)

    # In plain Python -----------------------------------------------------------------------------------------

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact for every two neighbours, for illustration only: real answers need the table or a look-up."""
        tokens = [f"t{token}" for token in self.inputs(draw)[row].tolist()]
        facts = [Fact((before,), after) for before, after in pairwise(tokens)]
        return Problem(tuple(dict.fromkeys(facts)), (tokens[-1],))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """The answers of the brute force of the sequence's kind, as distributions."""
        if inputs[0] >= self.n_symbols:
            laws = self.text.brute_force([token - self.n_symbols for token in inputs])
            first: list[list[BestAnswer]] = [[None, None]]
            return first + [[None, self.shifted(law)] for [law] in laws]
        return [[self.certain(answer), None] for [answer] in self.around.brute_force(inputs)]

    def certain(self, answer: BestAnswer) -> BestAnswer:
        """The distribution with probability 1 on an answer."""
        return {answer: 1.0} if isinstance(answer, int) else None

    def shifted(self, law: BestAnswer) -> dict[int, float]:
        """A distribution over the text's tokens, with tokens renumbered as in this task."""
        assert isinstance(law, dict)
        return {token + self.n_symbols: share for token, share in law.items()}
