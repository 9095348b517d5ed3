"""Text: what comes next in plays of Shakespeare's, or in a text of one's own. The task of a small language model.

The plays and their split are those of nanoGPT's `shakespeare_char` (Karpathy, 2022), so that losses compare.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy
import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import BestAnswer, TokenTask
from hopscope.tasks.base_text import Corpus, Tokens, corpus

WORDS = {" ": "space", "\n": "newline"}  # what people read instead


@dataclass(frozen=True)
class Text(TokenTask):
    """A stretch of a text that begins anywhere; every position asks for the token that comes next.

    ```
    F i r s t _ C i t i z e   ->   i r s t _ C i t i z e n
    ```

    Training reads the text's beginning, and everything else its end, which training never sees. All numbers, of
    validation and of the report, are therefore of held-out text.
    """

    file: str = setting(
        "", "a text file of one's own, in UTF-8; by default 1,115,394 characters of Shakespeare's plays"
    )
    length: int = setting(64, "number of tokens", low=8, high=4096)
    merges: int = setting(0, "how many byte pairs are tokens beside the characters", low=0, high=4096)
    held_out: float = setting(0.1, "share of the text, its end, that is not trained on", low=0.001, high=0.9)
    part: str = setting("held_out", "which part is drawn by all that does not train", choices=("held_out", "training"))

    hop_names = ("next",)
    floor = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, tokens in self.corpus.parts.items():
            if len(tokens) <= self.length:
                raise BadInput(
                    f"the text is too short: its part {name} has {len(tokens)} tokens, and a sequence needs "
                    f"{self.length + 1}; give a longer --file, or a smaller --length"
                )

    @property
    def corpus(self) -> Corpus:
        """The text as tokens."""
        return corpus(self.file, self.held_out, self.merges)

    @property
    def tokens(self) -> Tokens:
        """The tokens of the part that is drawn."""
        return self.corpus.parts[self.part]

    @property
    def in_training(self) -> Text:
        return self.but(part="training")

    @property
    def own_files(self) -> dict[str, str]:
        return {self.file: hashlib.sha256(Path(self.file).read_bytes()).hexdigest()} if self.file else {}

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """Number of different tokens."""
        return len(self.corpus.symbols)

    # Sequences -----------------------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """`tokens`, one more than are shown: the last is only asked."""
        device = generator.device
        starts = torch.randint(len(self.tokens) - self.length, (n, 1), generator=generator, device=device)
        places = starts + torch.arange(self.length + 1, device=device)
        return {"tokens": torch.from_numpy(self.tokens).to(device)[places]}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return draw["tokens"][:, 1:, None]

    def roles(self, draw: Draw) -> Roles:
        return relations(self.inputs(draw), self.query_positions)

    # Losses --------------------------------------------------------------------------------------------------

    @cached_property
    def baselines(self) -> dict[str, float]:
        """Nats, on all of the part: any token; frequencies, and pairs of neighbours, in training's text; foreknown.

        One of every token is added to the counts; after each token, as many as there are tokens, by their frequencies
        (MacKay and Peto, 1995).
        """
        n, training, shown = self.d_vocab, self.corpus.parts["training"], self.tokens
        alone = (numpy.bincount(training, minlength=n) + 1) / (len(training) + n)
        pairs, counts = numpy.unique(training[:-1] * n + training[1:], return_counts=True)
        asked = shown[:-1] * n + shown[1:]
        place = numpy.searchsorted(pairs, asked).clip(max=len(pairs) - 1)
        seen = numpy.where(pairs[place] == asked, counts[place], 0)
        rows = numpy.bincount(training[:-1], minlength=n)
        after = (seen + n * alone[shown[1:]]) / (rows[shown[:-1]] + n)
        known = {"any token": self.uniform(), "frequencies": mean_surprise(alone[shown]), "pairs": mean_surprise(after)}
        return dict(sorted(known.items(), key=lambda one: -one[1])) | {"foreknown": self.floor}

    @property
    def learnt_below(self) -> float:
        """What is learnt, is more than pairs of neighbours."""
        return self.baselines["pairs"]

    @property
    def solved_below(self) -> float:
        """5 % of the way from what is known by heart to chance (ours): no model of held-out text gets there."""
        return self.bayes_loss + 0.05 * (self.chance - self.bayes_loss)

    @cached_property
    def bayes_loss(self) -> float:  # type: ignore[override]
        """Of whoever knows the part by heart, but not where in it a sequence begins: by the chain rule of entropies."""
        whole, n = "".join(map(chr, self.tokens.tolist())), len(self.tokens) - self.length
        stretches = entropy(whole[start : start + self.length + 1] for start in range(n))
        return (stretches - entropy(whole[:n])) / self.length

    # In plain Python -----------------------------------------------------------------------------------------

    def named(self, token: int) -> str:
        """A token for people."""
        return WORDS.get(self.corpus.symbols[token], self.corpus.symbols[token])

    def problem(self, draw: Draw, row: int) -> Problem:
        """One fact: this stretch leads to what follows it."""
        *shown, following = map(self.named, draw["tokens"][row].tolist())
        return Problem((Fact((" ".join(shown),), following),), (" ".join(shown),))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """What follows wherever this part has the sequence's tokens so far: it is known by heart."""
        places = numpy.arange(len(self.tokens) - self.length)
        found: list[list[BestAnswer]] = []
        for offset, token in enumerate(inputs):
            places = places[self.tokens[places + offset] == token]
            following = Counter(self.tokens[places + offset + 1].tolist())
            found.append([{after: count / len(places) for after, count in following.items()}])
        return found

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {self.named(token): torch.tensor(token) for token in range(self.d_vocab)}


def mean_surprise(probabilities: numpy.ndarray) -> float:
    """Nats."""
    return float(-numpy.log(probabilities).mean())


def entropy(drawn: Iterable[str]) -> float:
    """Of one of these, in nats, all equally likely."""
    counts = Counter(drawn).values()
    return math.log(sum(counts)) - sum(count * math.log(count) for count in counts) / sum(counts)
