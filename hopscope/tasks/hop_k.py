"""k-hop induction heads (Sanford, Hsu and Telgarsky, 2024, arXiv:2402.09268)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core import catalogue
from hopscope.core.settings import BadInput, setting
from hopscope.curricula.base import Curriculum
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import Relations, pointing
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer
from hopscope.tasks.base_one_answer import OneAnswerTask


@dataclass(frozen=True)
class HopK(OneAnswerTask):
    """A number of hops k, then letters; at every letter, k times: go to what followed its last occurrence.

    ```
    k = 1 | b a c a b c   ->  ~ ~ ~ c a a        (~: the letter did not occur before)
    ```

    find¹(i) is the latest j < i with x_(j−1) = x_i, find^k its k-th iterate; the answer at i is x at find^k(i), or ~ if
    there is none. No letter follows itself. The loss of hop k is that of sequences that ask for k hops. Undefined
    answers are trained on, but do not count for accuracy, as in the paper. A curriculum chooses the greatest number of
    hops that a batch draws.
    """

    length: int = setting(48, "number of letters (paper: 100)", low=2, high=4096)
    n_letters: int = setting(4, "number of different letters", low=2, high=64)
    n_hops: int = setting(4, "greatest number of hops; each sequence draws 0 … this (paper: 16)", low=1, high=64)
    curriculum: str = setting("none", "stages of the greatest number of hops drawn; none: --hops", since="0.2.0")
    drawn: int | None = setting(None, "greatest number of hops drawn in a stage; default: --hops", low=1, since="0.2.0")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.drawn is not None and self.drawn > self.n_hops:
            raise BadInput(f"drawn must be at most hops, {self.n_hops}; got {self.drawn}")
        if self.taught_by.asks_every_hop:
            raise BadInput(f"each sequence asks one number of hops; curriculum {self.curriculum} asks every one")

    @property
    def taught_by(self) -> Curriculum:
        return catalogue.find("curricula", self.curriculum)()

    @property
    def hardest(self) -> int:
        return self.drawn or self.n_hops

    def at(self, difficulty: int) -> HopK:
        """Sequences that draw 0 … `difficulty` hops, for the same model."""
        return self if difficulty == self.hardest else self.but(drawn=difficulty)

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """Letters, then `~`, then the numbers of hops."""
        return self.n_letters + 1 + self.n_hops + 1

    @property
    def undefined(self) -> int:
        """The token `~`."""
        return self.n_letters

    @property
    def n_positions(self) -> int:
        return self.length + 1

    query_positions = slice(1, None)

    @cached_property
    def hop_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"k={k}" for k in range(self.n_hops + 1))

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: tokens equally likely; letters; letters but the position's own; solved."""
        return {
            "any token": math.log(self.d_vocab),
            "any letter": math.log(self.n_letters),
            "any letter but the own one": math.log(self.n_letters - 1) if self.n_letters > 2 else 0.0,
            "solved": 0.0,
        }

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        device = generator.device
        first = torch.randint(self.n_letters, (n, 1), generator=generator, device=device)
        shape = (n, self.length - 1)
        turns = torch.randint(1, self.n_letters, shape, generator=generator, device=device)
        letters = torch.cat([first, turns], 1).cumsum(1) % self.n_letters  # no letter follows itself
        return {
            "letters": letters,
            "hops": torch.randint(self.hardest + 1, (n, 1), generator=generator, device=device),
        }

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        return torch.cat([self.n_letters + 1 + draw["hops"], draw["letters"]], 1)

    def read(self, tokens: list[int]) -> Draw:
        first, *letters = tokens
        if first <= self.undefined or any(letter >= self.undefined for letter in letters):
            raise BadInput("a sequence begins with a number of hops, such as k=1, and letters follow")
        if any(one == other for one, other in pairwise(letters)):
            raise BadInput("no letter may follow itself")
        return {"letters": torch.tensor([letters]), "hops": torch.tensor([[first - self.undefined - 1]])}

    def finds(self, letters: Int[Tensor, "batch place"]) -> Int[Tensor, "batch hop place"]:
        """find⁰ … find^k of every place, as indices into the letters; −1 where undefined."""
        places = torch.arange(self.length, device=letters.device)
        followed = torch.zeros(*letters.shape, self.length, dtype=torch.bool, device=letters.device)
        followed[:, :, 1:] = letters[:, :, None] == letters[:, None, :-1]  # batch i j: x_(j−1) = x_i
        followed &= places < places[:, None]
        once = torch.where(followed, places, -1).amax(-1)
        finds = [places.expand_as(letters)]
        for _ in range(self.n_hops):
            back = finds[-1]
            finds.append(torch.where(back >= 0, once.gather(1, back.clamp(min=0)), -1))
        return torch.stack(finds, 1)

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        places = self.finds(draw["letters"])
        asked = places.gather(1, draw["hops"][..., None].expand(-1, -1, self.length))[:, 0]
        letters = draw["letters"].gather(1, asked.clamp(min=0))
        answers = torch.where(asked >= 0, letters, self.undefined)
        hop = torch.arange(self.n_hops + 1, device=answers.device)
        return torch.where(draw["hops"][:, :, None] == hop, answers[..., None], NOT_ASKED)

    def correct(self, outputs: Tensor, batch) -> Tensor:  # type: ignore[no-untyped-def]
        answers = batch.targets.amax(-1)
        defined = answers != self.undefined
        return (outputs.argmax(-1) == answers)[defined][:, None]

    def roles(self, draw: Draw) -> Roles:
        """For the query at the last letter: `value[k]` is find^k, `key[k]` the position before it."""
        places = self.finds(draw["letters"])[:, :, -1] + 1  # batch hop; the number of hops stands first
        names = ["query"]
        chain = torch.full((len(places), 1 + 2 * self.n_hops, self.n_positions), ABSENT, device=places.device)
        chain[:, 0, -1] = 0
        for k in range(1, self.n_hops + 1):
            names += [f"key[{k}]", f"value[{k}]"]
            row = (places[:, k] > 0).nonzero()[:, 0]
            chain[row, 2 * k, places[row, k]] = 0
            chain[row, 2 * k - 1, places[row, k] - 1] = 0
        return Roles(tuple(names), chain)

    def searched_roles(self, batch: Batch) -> Relations:
        """From every letter: `value[k]` is find^k, `key[k]` the position before it; `answer` is find^k for the k asked.

        The first position is `count`, and `nowhere` if there is no answer: heads then attend to it.
        """
        letters, hops = batch.draw["letters"], batch.draw["hops"]
        finds = self.finds(letters)
        asked = finds.gather(1, hops[..., None].expand(-1, -1, self.length))[:, 0]
        n = self.n_positions
        matches = {"count": pointing(torch.where(asked >= 0, 0, ABSENT), n), "itself": pointing(finds[:, 0] + 1, n)}
        matches["−1"] = pointing(finds[:, 0].where(finds[:, 0] > 0, ABSENT), n)
        for k in range(1, self.n_hops + 1):
            there = torch.where(finds[:, k] >= 0, finds[:, k] + 1, ABSENT)
            matches |= {f"key[{k}]": pointing(there - 1, n), f"value[{k}]": pointing(there, n)}
        matches["answer"] = pointing(torch.where(asked >= 0, asked + 1, ABSENT), n)
        matches["nowhere"] = pointing(torch.where(asked >= 0, ABSENT, 0), n)
        places = torch.arange(n, device=letters.device)
        chain = torch.stack([torch.where(places > 0, 0, ABSENT), torch.where(places > 0, ABSENT, 0)])
        return Relations(("query", "count"), chain.expand(len(letters), -1, -1), matches)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A symbol `letter@place` for every place, and a fact from each to the place that one hop leads to."""
        letters = [chr(ord("a") + x) for x in draw["letters"][row].tolist()]
        names = [f"{letter}@{place}" for place, letter in enumerate(letters)]
        facts = []
        for i, letter in enumerate(letters):
            earlier = [j for j in range(1, i) if letters[j - 1] == letter]
            if earlier:
                facts.append(Fact((names[i],), names[max(earlier)]))
        return Problem(tuple(facts), tuple(names))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """The definition, letter by letter: k times to what followed the last occurrence, or `~`."""
        hops, letters = inputs[0] - self.n_letters - 1, inputs[1:]

        def find(place: int) -> int | None:
            earlier = [j for j in range(1, place) if letters[j - 1] == letters[place]]
            return max(earlier, default=None)

        answers: list[list[BestAnswer]] = []
        for start in range(len(letters)):
            place: int | None = start
            for _ in range(hops):
                place = None if place is None else find(place)
            answer = self.undefined if place is None else letters[place]
            answers.append([answer if hop == hops else None for hop in range(self.n_hops + 1)])
        return answers

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        names = [f"{chr(ord('a') + x)}@{place}" for place, x in enumerate(draw["letters"][row].tolist())]
        hops = {f"k={k}": torch.tensor(self.undefined + 1 + k) for k in range(self.n_hops + 1)}
        return dict(zip([*names, "~"], [*draw["letters"][row], torch.tensor(self.undefined)], strict=True)) | hops
