"""Text in which a name of two tokens is repeated (after Gloeckle et al., 2024, arXiv:2404.19737, section 4).

In their stories each name is replaced by two random tokens. A model that has seen the name once can predict its second
token from its first, as an induction head does. The text around the names is drawn from a fixed bigram table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import NOT_ASKED, Batch, BestAnswer, TokenTask
from hopscope.theory.markov.chains import dirichlet

FLOOR_SAMPLE = 128  # sequences from which the Bayes loss is estimated


@dataclass(frozen=True)
class NamesInText(TokenTask):
    """Words from a fixed table, and occasionally the name, two tokens that are drawn for each text.

    ```
    w4 w9 [n2 n7] w1 w8 w3 [n2 n7] w1 n5 w6   ->   after the second n2: n7
    ```

    After every token the name follows with probability `mention`; otherwise a random stray name token with probability
    `stray`; otherwise a word from the table's row for the last token. `asked` lists how far ahead tokens are predicted:
    `1` is the next one, 0 the token itself, −1 the one before it. With equal seeds the texts are the same whatever is
    asked.
    """

    n_words: int = setting(32, "number of different words", low=2, high=4096)
    n_names: int = setting(32, "number of tokens that names are made of", low=2, high=4096)
    length: int = setting(32, "number of positions", low=4, high=4096)
    mention: float = setting(0.12, "chance of the name after each token", low=0.001, high=0.9)
    stray: float = setting(0.2, "chance that what is no name is a stray name token", low=0, high=0.9)
    concentration: float = setting(0.1, "of the Dirichlet law of the table's rows: small, one word is likely", low=1e-3)
    asked: str = setting("1", "how far ahead the tokens are that are asked: 1 or 1,2 or 1,-1 …")
    table: int = setting(0, "seed of the table", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            offsets = [int(part) for part in self.asked.split(",")]
        except ValueError:
            raise BadInput(f"asked must be whole numbers such as 1,2; got {self.asked!r}") from None
        if len(set(offsets)) < len(offsets) or any(abs(k) >= self.length for k in offsets):
            raise BadInput(f"asked must be different numbers below the length, {self.length}; got {self.asked!r}")
        object.__setattr__(self, "asked", ",".join(map(str, offsets)))  # a canonical form

    @property
    def offsets(self) -> tuple[int, ...]:
        """How far ahead each output predicts."""
        return tuple(int(part) for part in self.asked.split(","))

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """Words, then name tokens."""
        return self.n_words + self.n_names

    @property
    def hop_names(self) -> tuple[str, ...]:
        """`t+1`, `t+2`, `t-1`, …"""
        return tuple(f"t{offset:+d}" for offset in self.offsets)

    @cached_property
    def rows(self) -> Float[Tensor, "token token"]:
        """The distribution after each token if no name begins, float64: stray name tokens and the table's words."""
        words = dirichlet(self.concentration, (self.d_vocab, self.n_words), generator(self.table, "table"))
        names = torch.full((self.d_vocab, self.n_names), 1 / self.n_names, dtype=torch.float64)
        return torch.cat([(1 - self.stray) * words, self.stray * names], 1)

    @cached_property
    def edges(self) -> Float[Tensor, "token edge"]:
        """Cumulative rows in float32, the last edge open."""
        return self.rows.cumsum(1)[:, :-1].float().contiguous()

    # Texts ---------------------------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """`tokens`, one more than shown; `part`, 1 or 2 for tokens of the name, else 0; `name`, its two tokens."""
        device, edges = generator.device, self.edges.to(generator.device)
        name = torch.rand(n, self.n_names, generator=generator, device=device).argsort(1)[:, :2] + self.n_words
        uniform = torch.rand(self.length + 1, n, 1, generator=generator, device=device)
        mentions = torch.rand(n, self.length + 1, generator=generator, device=device) < self.mention
        token, part = (uniform[0, :, 0] * self.n_words).long(), torch.zeros(n, dtype=torch.long, device=device)
        tokens, parts = [token], [part]
        for place in range(1, self.length + 1):
            begins = mentions[:, place] & (part != 1)
            part = torch.where(part == 1, 2, begins.long())
            free = torch.searchsorted(edges[token], uniform[place], right=True)[:, 0]
            token = torch.where(part == 0, free, name.gather(1, (part - 1).clamp(min=0)[:, None])[:, 0])
            tokens.append(token)
            parts.append(part)
        return {"tokens": torch.stack(tokens, 1), "part": torch.stack(parts, 1), "name": name}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        """The tokens at each offset, where the text extends so far."""
        places = torch.arange(self.length, device=draw["tokens"].device)[:, None]
        places = places + torch.tensor(self.offsets, device=places.device)
        there = (places >= 0) & (places <= self.length)
        found = draw["tokens"][:, places.clamp(0, self.length)]
        return torch.where(there, found, NOT_ASKED)

    def named(self, draw: Draw) -> Bool[Tensor, "batch position"]:
        """The positions of the name's first token, from its second mention on."""
        first = draw["part"][:, :-1] == 1
        return first & (first.cumsum(1) > 1)

    def likeliest(self, draw: Draw) -> Int[Tensor, "batch position hop"]:
        """The likeliest token at each offset from a name's first token, given the name; −1 where that is not computed.

        One ahead it is the second token. Two ahead it is the likeliest token after that one. At offsets of 0 and below
        it is the token in the text.
        """
        tokens, name = draw["tokens"], draw["name"]
        after = (1 - self.mention) * self.rows.to(tokens.device)[name[:, 1]]
        after[torch.arange(len(name)), name[:, 0]] += self.mention
        known = {1: name[:, 1:], 2: after.argmax(1, keepdim=True)}
        shown = self.targets(draw)
        ahead = [
            shown[..., i] if k <= 0 else known.get(k, torch.full_like(name[:, 1:], -1)).expand(-1, self.length)
            for i, k in enumerate(self.offsets)
        ]
        return torch.stack(ahead, 2)

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether the first output is right, at the first token of every name from its second mention on."""
        named = self.logits(outputs)[:, :, 0].argmax(-1)
        there = self.named(batch.draw) & (batch.targets[..., 0] != NOT_ASKED)
        return (named == batch.targets[..., 0])[there][:, None]

    def roles(self, draw: Draw) -> Roles:
        """Every position is a query; the roles are relations of other positions to it."""
        return relations(self.inputs(draw), self.query_positions)

    # What can be known ---------------------------------------------------------------------------------------

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all tokens equally likely; Bayes' rule, estimated; and the tokens known in advance."""
        return {"any token": self.uniform(), "foretold from the text": self.bayes_loss, "foreknown": 0.0}

    @property
    def bayes_loss(self) -> float:
        """The loss of Bayes' rule (`brute_force`), estimated on a fixed sample."""
        return known(self)[0]

    @property
    def best_accuracy(self) -> float:  # type: ignore[override]
        """The accuracy of Bayes' rule at names, estimated on the same sample."""
        return known(self)[1]

    @property
    def solved_below(self) -> float:
        """5 % of the way from Bayes' rule to chance (ours)."""
        return self.bayes_loss + 0.05 * (self.chance - self.bayes_loss)

    @property
    def learnt_below(self) -> float:
        """Half of the way from Bayes' rule to chance (ours)."""
        return self.bayes_loss + 0.5 * (self.chance - self.bayes_loss)

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """Bayes' rule over all names, and over whether each token of the text is the name's or stray."""
        belief, found = Belief(self), []
        for place, token in enumerate(inputs):
            belief.see(token)
            row: list[BestAnswer] = []
            for offset in self.offsets:
                if offset > 0:
                    row.append(dict(enumerate(belief.ahead(offset).tolist())))
                else:
                    row.append(inputs[place + offset] if place + offset >= 0 else None)
            found.append(row)
        return found

    # In plain Python -----------------------------------------------------------------------------------------

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact from each token of the text to the next, and the last token as the query."""
        tokens = self.inputs(draw)[row].tolist()
        names = [f"{self.word(token)}@{place}" for place, token in enumerate(tokens)]
        facts = (Fact((names[i],), names[i + 1]) for i in range(len(names) - 1))
        return Problem(tuple(facts), (names[-1],))

    def word(self, token: int) -> str:
        """`w3` or `n3`."""
        return f"w{token}" if token < self.n_words else f"n{token - self.n_words}"

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        tokens = self.inputs(draw)[row]
        return {f"{self.word(int(token))}@{place}": token for place, token in enumerate(tokens)}


class Belief:
    """The posterior over names given the text so far, in float64 numpy: a probability for every pair of tokens.

    Attributes:
        free: (first, second), jointly with the last token not being the first of a mention.
        begun: the same, jointly with its being the first of a mention.
    """

    def __init__(self, task: NamesInText) -> None:
        n = task.n_names
        self.words, self.mention, self.rows = task.n_words, task.mention, task.rows.numpy()
        self.free = (1 - numpy.eye(n)) / (n * (n - 1))
        self.begun = numpy.zeros((n, n))
        self.token: int | None = None

    def see(self, token: int) -> None:
        """Update on one more token."""
        if self.token is not None:
            free, begun, n = self.free, self.begun, token - self.words
            self.free = free * (1 - self.mention) * self.rows[self.token, token]
            self.begun = numpy.zeros_like(begun)
            if n >= 0:
                self.free[:, n] += begun[:, n]
                self.begun[n] = free[n] * self.mention
            total = self.free.sum() + self.begun.sum()
            self.free, self.begun = self.free / total, self.begun / total
        self.token = token

    def ahead(self, steps: int) -> Float[numpy.ndarray, "token"]:
        """The distribution of the token a number of steps (1 or more) ahead."""
        assert self.token is not None
        now = numpy.zeros(len(self.rows))
        now[self.token] = 1.0
        found: Float[numpy.ndarray, "token"] = self.after_free(self.free, now, steps) + self.after_begun(
            self.begun, steps
        )
        return found

    def after_free(self, weight: numpy.ndarray, now: numpy.ndarray, steps: int) -> numpy.ndarray:
        """The distribution, weighted by names, a number of steps after tokens (their shares) that begin no mention.

        Either no mention begins, or the first one begins after 1, 2, … of the steps.
        """
        found = weight.sum() * now
        for _ in range(steps):
            found = (1 - self.mention) * found @ self.rows
        for waited in range(steps):
            found = found + self.mention * (1 - self.mention) ** waited * self.after_begun(weight, steps - 1 - waited)
        return found

    def after_begun(self, weight: numpy.ndarray, steps: int) -> numpy.ndarray:
        """The same after the first token of a mention; with no steps, that token."""
        none = numpy.zeros(self.words)
        if steps == 0:
            return numpy.concatenate([none, weight.sum(1)])
        second = numpy.concatenate([none, weight.sum(0)])
        if steps == 1:
            return second
        total = weight.sum()
        return self.after_free(weight, second / total if total else second, steps - 1)


@cache
def known(task: NamesInText) -> tuple[float, float]:
    """The expected loss in nats of Bayes' rule, and its accuracy at names, on a fixed sample."""
    batch = Batch(task, task.draw(FLOOR_SAMPLE, generator(0, "floor")))
    surprises: list[list[float]] = [[] for _ in task.offsets]
    right = []
    named = task.named(batch.draw).tolist()
    for row, (inputs, targets) in enumerate(zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True)):
        for place, (best, target) in enumerate(zip(task.brute_force(inputs), targets, strict=True)):
            for hop, (one, token) in enumerate(zip(best, target, strict=True)):
                if token != NOT_ASKED:
                    surprises[hop].append(-math.log(one[token]) if isinstance(one, dict) else 0.0)
            first = best[0]
            if named[row][place] and target[0] != NOT_ASKED:
                likeliest = max(first, key=first.__getitem__) if isinstance(first, dict) else first
                right.append(likeliest == target[0])
    return float(numpy.mean([numpy.mean(each) for each in surprises])), float(numpy.mean(right)) if right else 1.0
