"""Text of which several of the next characters are asked at once (Gloeckle et al., 2024, arXiv:2404.19737)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.tasks.text import Text

MOST = 8  # characters ahead for which every stretch has room, so that texts are the same whatever is asked


@dataclass(frozen=True)
class TextAhead(Text):
    """A random stretch of a text; at every character the next ones are asked for.

    ```
    F i r s t _ C i t i z e   ->   i r s t _ C i t i z e n   and   r s t _ C i t i z e n :
    ```

    With equal seeds the texts are the same whatever is asked.
    """

    ahead: int = setting(2, "number of characters ahead that are asked at every character", low=1, high=MOST)

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(len(part) < self.length + MOST for part in self.parts.values()):
            raise BadInput(f"both parts of the text need {self.length + MOST} characters; give a smaller --length")

    @property
    def hop_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """`t+1`, `t+2`, …"""
        return tuple(f"t+{offset}" for offset in range(1, self.ahead + 1))

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """Draw `tokens`, `MOST` more than the model sees."""
        tokens = self.parts[self.part].to(generator.device)
        starts = torch.randint(
            len(tokens) - self.length - MOST + 1, (n, 1), generator=generator, device=generator.device
        )
        return {"tokens": tokens[starts + torch.arange(self.length + MOST, device=tokens.device)]}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return draw["tokens"][:, 1 : self.length + self.ahead].unfold(1, self.ahead, 1)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact from each character, such as `'e'@3`, to the next; the characters that the model sees are asked."""
        names = [f"{character!r}@{place}" for place, character in enumerate(self.decode(draw["tokens"][row]))]
        return Problem(tuple(Fact((one,), other) for one, other in pairwise(names)), tuple(names[: self.length]))

    @property
    def asked_hops(self) -> slice:
        return slice(0, self.ahead)

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        tokens = draw["tokens"][row]
        return {f"{self.characters[int(token)]!r}@{place}": token for place, token in enumerate(tokens)}

    @property
    def baselines(self) -> dict[str, float]:  # type: ignore[override]
        """Losses in nats, the same for every character ahead: uniform; frequencies in the training part; 0."""
        known = super().baselines
        return {name: known[name] for name in ("any character", "frequencies", "foreknown")}

    @property
    def learnt_below(self) -> float:
        """A loss below that of character frequencies shows that the text before is used."""
        return self.baselines["frequencies"]
