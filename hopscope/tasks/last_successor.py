"""Sequences in which a token that came before is followed by what followed it last (Xu et al., 2024, arXiv:2411.19574).

This is the data for induction that the paper's section 3.2 describes. A model that finds the last occurrence of the
present token, and reads the token after it, is right wherever a token can be predicted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import Relations, pointing
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer, TokenTask

FLOOR_SAMPLE = 1024  # sequences on which baselines are estimated


@dataclass(frozen=True)
class LastSuccessor(TokenTask):
    """Random tokens; a token that came before is followed by what followed its last occurrence. Only this is asked.

    ```
    c f a b e a b e a b   ->   after the second a: b, then e, a, b …        (once a token repeats, all is periodic)
    ```

    The first repetition determines everything after it: the sequence is periodic from then on. So the answer must be
    found by content, but in each sequence it is always at the same distance.
    """

    length: int = setting(64, "number of tokens (paper: 512)", low=3, high=4096)
    d_vocab: int = setting(256, "number of different tokens (paper: 8000)", low=2, high=65536)  # type: ignore[assignment]

    hop_names = ("x1",)
    asked_hops = slice(0, 1)

    @cached_property
    def baselines(self) -> dict[str, float]:  # type: ignore[override]
        """Losses in nats: all tokens equally likely; the tokens seen so far (an estimate); a solved task."""
        seen = {"any token seen": float(self.seen.log().mean())} if len(self.seen) else {}
        return {"any token": math.log(self.d_vocab), **seen, "solved": 0.0}

    @property
    def guessed(self) -> float:
        """Accuracy (0–1) of naming one of the tokens seen so far at random; an estimate, NaN if nothing is asked."""
        return float((1 / self.seen).mean())

    @cached_property
    def seen(self) -> Float[Tensor, "answer"]:
        """The number of different tokens so far at every asked position of a fixed sample."""
        batch = self.sample(FLOOR_SAMPLE, generator(0, "floor"))
        return seen_so_far(batch.inputs)[batch.targets[..., 0] != NOT_ASKED].double()

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """`tokens`, one more than there are positions: the last is only asked for."""
        shape = (n, self.length + 1)
        free = torch.randint(self.d_vocab, shape, generator=generator, device=generator.device)
        tokens = free[:, :1]
        for place in range(1, self.length + 1):
            follower = last_follower(tokens)
            copied = tokens.gather(1, follower.clamp(min=0)[:, None])[:, 0]
            tokens = torch.cat([tokens, torch.where(follower >= 0, copied, free[:, place])[:, None]], 1)
        return {"tokens": tokens}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        forced = self.followers(draw) >= 0
        return torch.where(forced, draw["tokens"][:, 1:], NOT_ASKED)[..., None]

    def followers(self, draw: Draw) -> Int[Tensor, "batch position"]:
        """For every position the place after the last earlier occurrence of its token; −1 if there is none."""
        shown = self.inputs(draw)
        return torch.stack([last_follower(shown[:, : place + 1]) for place in range(self.length)], 1)

    def roles(self, draw: Draw) -> Roles:
        """From the last asked position: `key[1]`, the earlier occurrence of its token, and `value[1]` after it."""
        followers = self.followers(draw)
        places = torch.arange(self.length, device=followers.device)
        last = torch.where(followers >= 0, places, -1).amax(1)
        chain = torch.full((len(followers), 3, self.length), ABSENT, device=followers.device)
        row = (last >= 0).nonzero()[:, 0]
        value = followers[row, last[row]]
        for role, place in enumerate((last[row], value - 1, value)):
            chain[row, role, place] = 0
        return Roles(("query", "key[1]", "value[1]"), chain)

    def searched_roles(self, batch: Batch) -> Relations:
        """From every position: itself, the one before, its token's last occurrence, and what followed that."""
        followers, n = self.followers(batch.draw), self.length
        places = torch.arange(n, device=followers.device).expand_as(followers)
        matches = {
            "itself": pointing(places, n, 0),
            "−1": pointing(torch.where(places > 0, places - 1, ABSENT), n, 0),
            "key[1]": pointing(torch.where(followers >= 0, followers - 1, ABSENT), n, 0),
            "value[1]": pointing(torch.where(followers >= 0, followers, ABSENT), n, 0),
        }
        chain = torch.zeros_like(followers)[:, None]
        return Relations(("query",), chain, matches)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A symbol `token@place` for every place, and a fact from each to the place that holds its answer."""
        names = self.names(draw, row)
        followers = self.followers(draw)[row].tolist()
        facts = (Fact((names[place],), names[to]) for place, to in enumerate(followers) if to >= 0)
        return Problem(tuple(facts), tuple(names))

    def names(self, draw: Draw, row: int) -> list[str]:
        """`t17@3` for token 17 at place 3."""
        return [f"t{token}@{place}" for place, token in enumerate(self.inputs(draw)[row].tolist())]

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return dict(zip(self.names(draw, row), self.inputs(draw)[row], strict=True))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """The definition, from left to right, with a table of what followed each token last."""
        after: dict[int, int] = {}
        answers: list[list[BestAnswer]] = []
        for place, token in enumerate(inputs):
            if place:
                after[inputs[place - 1]] = token
            answers.append([after.get(token)])
        return answers

    def read(self, tokens: list[int]) -> Draw:
        for place in range(1, len(tokens)):
            expected = self.brute_force(tokens[:place])[-1][0]
            if expected is not None and expected != tokens[place]:
                raise BadInput(f"token {place + 1} must be {expected}, which followed its predecessor last")
        known = self.brute_force(tokens)[-1][0]
        return {"tokens": torch.tensor([[*tokens, 0 if known is None else known]])}


def last_follower(tokens: Int[Tensor, "batch place"]) -> Int[Tensor, "batch"]:
    """The place after the last earlier occurrence of the last token; −1 if there is none."""
    places = torch.arange(1, tokens.shape[1], device=tokens.device)
    same = tokens[:, :-1] == tokens[:, -1:]
    return torch.where(same, places, -1).amax(1) if len(places) else tokens.new_full((len(tokens),), -1)


def seen_so_far(tokens: Int[Tensor, "batch place"]) -> Int[Tensor, "batch place"]:
    """The number of different tokens up to every place."""
    earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1).any(-1)
    return (~earlier).cumsum(1)
