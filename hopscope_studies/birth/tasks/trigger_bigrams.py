"""Triggers over global bigrams: what followed a trigger follows it again (Bietti et al., 2023, arXiv:2306.00802)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.core.storage import read_json
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import NOT_ASKED, BestAnswer
from hopscope.tasks.base_one_answer import OneAnswerTask

ASSET = Path(__file__).parents[1] / "data" / "tinyshakespeare_bigrams.json"
WORDS = {" ": "space", "\n": "newline", "$": "dollar"}  # names of characters that are hard to see
FLOOR_SAMPLE = 4096  # sequences from which the floor of `all` positions is estimated, to about 0.002 nats


class Bigrams:
    """The characters of a corpus and its bigrams: frequencies, and entropies in nats.

    Attributes:
        characters: in order of their code points; a token is an index into them.
        first: the frequency of each character, π_u.
        then: the frequency of each character after each other, π_b, with a row per preceding character.
    """

    def __init__(self, characters: str, counts: list[list[int]]):
        self.characters = characters
        table = torch.tensor(counts, dtype=torch.float64, device="cpu")  # also where a model is only being counted
        self.first = table.sum(1) / table.sum()
        self.then = table / table.sum(1, keepdim=True)

    @property
    def entropies(self) -> Float[Tensor, "token"]:
        """The entropy of the next character, for each character."""
        return -torch.special.xlogy(self.then, self.then).sum(1)

    @property
    def unigram_entropy(self) -> float:
        """The entropy of a single character."""
        return float(-torch.special.xlogy(self.first, self.first).sum())

    @cached_property
    def steps(self) -> Float[Tensor, "token_times_token"]:
        """The cumulative distributions of all rows in one ascending sequence: row i runs from i to i + 1."""
        rows = self.then.cumsum(1)
        rows /= rows[:, -1:].clone()
        return (rows + torch.arange(len(rows))[:, None]).flatten()

    def follow(self, tokens: Int[Tensor, "batch"], uniform: Float[Tensor, "batch"]) -> Int[Tensor, "batch"]:
        """Inverse-CDF sampling of what follows each token: one binary search for a whole batch."""
        steps, n = self.steps.to(tokens.device), len(self.characters)
        place = torch.searchsorted(steps, tokens + uniform, right=True) - n * tokens
        return place.clamp(0, n - 1)


@cache
def shakespeare() -> Bigrams:
    """The bigrams of Shakespeare's plays, which come with the package."""
    stored = read_json(ASSET)
    return Bigrams(stored["characters"], stored["counts"])


@dataclass(frozen=True)
class TriggerBigrams(OneAnswerTask):
    """Characters drawn from the bigrams of Shakespeare's plays, except after a few triggers.

    After a trigger comes its output, which is drawn for every sequence and is the same at every occurrence:

    ```
    triggers e, t; outputs x, r   |  m e x i n g _ t r e x _ s t r …
    ```

    From a trigger's second occurrence on, its output can be looked up in the context. Those positions are `query`. A
    trigger whose output is visible is `key[1]`, and the output after it `value[1]`. A chain is a trigger. Outputs may
    be triggers, even their own.
    """

    length: int = setting(128, "number of characters (paper: 256)", low=2, high=4096)
    n_triggers: int = setting(5, "number of triggers, K", low=1, high=64)
    trigger_choice: str = setting(
        "frequent",
        "which characters are triggers: the most frequent ones, or drawn by frequency for every sequence",
        choices=("frequent", "drawn"),
    )
    asked: str = setting(
        "in_context",
        "what the loss is taken over: outputs of triggers that occurred before, or all next characters",
        choices=("in_context", "all"),
    )

    ideal_over = "latest"  # of a trigger's earlier places; so the place before an output is the trigger that it follows

    @property
    def bigrams(self) -> Bigrams:
        """The corpus's bigrams."""
        return shakespeare()

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """Number of different characters."""
        return len(self.bigrams.characters)

    @property
    def hop_names(self) -> tuple[str, ...]:
        """`in_context`; if all is asked also `bigram` (after no trigger) and `first` (a trigger's first output)."""
        return ("in_context",) if self.asked == "in_context" else ("bigram", "first", "in_context")

    # Sequences -----------------------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        device = generator.device
        uniform = torch.rand(n, self.length + 1, generator=generator, device=device, dtype=torch.float64)
        triggers = self.draw_triggers(n, generator)
        outputs = torch.randint(self.d_vocab, triggers.shape, generator=generator, device=device)
        successor = torch.full((n, self.d_vocab), -1, device=device).scatter(1, triggers, outputs)
        start = torch.searchsorted(self.bigrams.first.cumsum(0).to(device), uniform[:, 0].contiguous(), right=True)
        tokens = [start.clamp(max=self.d_vocab - 1)]
        for u in uniform.T[1:].contiguous():
            fixed = successor.gather(1, tokens[-1][:, None])[:, 0]
            tokens.append(torch.where(fixed >= 0, fixed, self.bigrams.follow(tokens[-1], u)))
        return {"tokens": torch.stack(tokens, 1), "triggers": triggers, "outputs": outputs}

    def draw_triggers(self, n: int, generator: torch.Generator) -> Int[Tensor, "batch trigger"]:
        """The K most frequent characters; or K drawn by frequency without replacement, by a race of exponentials."""
        weights = self.bigrams.first.to(generator.device)
        if self.trigger_choice == "frequent":
            return weights.topk(self.n_triggers).indices.repeat(n, 1)
        uniform = torch.rand(n, self.d_vocab, generator=generator, device=generator.device, dtype=torch.float64)
        return (-torch.log1p(-uniform) / weights).argsort(1)[:, : self.n_triggers]

    def read(self, tokens: list[int]) -> Draw:
        """The draw of a typed sequence; the next token is the last trigger's output if known, else the likeliest."""
        if self.trigger_choice != "frequent":
            raise BadInput("triggers are drawn for every sequence, and one that is typed does not say which they are")
        triggers = self.bigrams.first.topk(self.n_triggers).indices
        outputs: dict[int, int] = {}
        for here, following in pairwise(tokens):
            if here in triggers.tolist() and outputs.setdefault(here, following) != following:
                names = [self.named(token) for token in (here, outputs[here], following)]
                raise BadInput(
                    "{} is a trigger, so what follows it is always the same; here {} and {} do".format(*names)
                )
        last = outputs.get(tokens[-1], int(self.bigrams.then[tokens[-1]].argmax()))
        known = torch.tensor([[outputs.get(trigger, last) for trigger in triggers.tolist()]])
        return {"tokens": torch.tensor([[*tokens, last]]), "triggers": triggers[None], "outputs": known}

    def trigger(self, draw: Draw) -> Int[Tensor, "batch position"]:
        """The number of the trigger at each position; −1 for none."""
        which = torch.full((len(draw["tokens"]), self.d_vocab), -1, device=draw["tokens"].device)
        numbers = torch.arange(self.n_triggers, device=which.device).expand_as(draw["triggers"])
        return which.scatter(1, draw["triggers"], numbers).gather(1, self.inputs(draw))

    def occurred(self, trigger: Int[Tensor, "batch position"]) -> Bool[Tensor, "batch position"]:
        """Whether a position holds a trigger that also occurred earlier."""
        counts = F.one_hot(trigger + 1, self.n_triggers + 1).cumsum(1)
        return (trigger >= 0) & (counts.gather(2, trigger[..., None] + 1)[..., 0] > 1)

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        trigger, following = self.trigger(draw), draw["tokens"][:, 1:]
        predictable = self.occurred(trigger)
        kinds = {"bigram": trigger < 0, "first": (trigger >= 0) & ~predictable, "in_context": predictable}
        return torch.stack([torch.where(kinds[name], following, NOT_ASKED) for name in self.hop_names], 2)

    def roles(self, draw: Draw) -> Roles:
        trigger = self.trigger(draw)
        query = torch.where(self.occurred(trigger), trigger, ABSENT)
        nothing = torch.full_like(trigger[:, :1], ABSENT)
        key, value = torch.cat([trigger[:, :-1], nothing], 1), torch.cat([nothing, trigger[:, :-1]], 1)
        return Roles(("query", "key[1]", "value[1]"), torch.stack([query, key, value], 1))

    # In plain Python -----------------------------------------------------------------------------------------

    def names(self, draw: Draw, row: int) -> list[str]:
        """The characters of one sequence as readable names."""
        return [self.named(token) for token in draw["tokens"][row].tolist()]

    def named(self, token: int) -> str:
        character = self.bigrams.characters[token]
        return WORDS.get(character, character)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact `e… → x` for every trigger that has occurred, and a query for each that occurs again."""
        triggers = {self.named(token) for token in draw["triggers"][row].tolist()}
        facts: dict[str, Fact] = {}
        queries: dict[str, None] = {}
        for here, following in pairwise(self.names(draw, row)):
            if here in facts:
                queries[f"{here}…"] = None
            elif here in triggers:
                facts[here] = Fact((f"{here}…",), following)
        return Problem(tuple(facts.values()), tuple(queries))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """In context: what followed the latest earlier occurrence of the same character; None for other hops."""
        found: list[list[BestAnswer]] = []
        for place, here in enumerate(inputs):
            earlier = [after for before, after in pairwise(inputs[: place + 1]) if before == here]
            known = earlier[-1] if earlier else None
            found.append([known if name == "in_context" else None for name in self.hop_names])
        return found

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {self.named(token): torch.tensor(token) for token in range(self.d_vocab)}

    # Losses --------------------------------------------------------------------------------------------------

    @cached_property
    def floor(self) -> float:  # type: ignore[override]
        """0 in context; over all positions the mean entropy of the next character, estimated on a fixed sample."""
        if self.asked == "in_context":
            return 0.0
        draw = self.draw(FLOOR_SAMPLE, generator(0, "floor"))
        trigger = self.trigger(draw)
        unknown = torch.where(trigger < 0, self.bigrams.entropies[self.inputs(draw)], math.log(self.d_vocab))
        return float(torch.where(self.occurred(trigger), 0.0, unknown).mean())

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all characters; between them, any output (in context) or unigrams (everywhere); solved."""
        between = {"any output of the sequence": math.log(self.n_triggers)}
        if self.asked == "all":
            between = {"unigrams of the corpus": self.bigrams.unigram_entropy}
        return {"any character": math.log(self.d_vocab), **between, "solved": self.floor}

    @property
    def learnt_below(self) -> float:
        """Half the loss of a model that knows a sequence's outputs, but not which trigger each belongs to (ours).

        Over all positions: halfway from the floor to the corpus's unigrams.
        """
        return super().learnt_below if self.asked == "all" else 0.5 * math.log(max(self.n_triggers, 2))
