"""Text: the next character in Shakespeare's plays, or in a text of the user's. The task of a small language model.

The plays and their split are those of nanoGPT's `shakespeare_char` (Karpathy, 2022), so that losses compare.
"""

from __future__ import annotations

import bz2
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
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
from hopscope.tasks.base import TokenTask

#: Tiny Shakespeare: 1,115,394 characters of Shakespeare's plays (public domain), as collected by A. Karpathy in
#: github.com/karpathy/char-rnn (data/tinyshakespeare/input.txt), compressed; not a character is changed.
PLAYS = Path(__file__).parents[1] / "assets" / "tinyshakespeare.txt.bz2"


@cache
def read(file: str) -> str:
    """The text of a file, or the plays if none is named. Raises BadInput if the file is missing or is no text."""
    if not file:
        return bz2.decompress(PLAYS.read_bytes()).decode()
    try:
        text = Path(file).read_bytes().decode()
    except OSError as error:
        raise BadInput(f"could not read the text {file}: {error.strerror}; name a text file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is no text in UTF-8 (byte {error.start}); convert it, or name another file") from error
    if "\0" in text:
        raise BadInput(f"{file} holds zero bytes, so it is no text; name another file")
    return text


@dataclass(frozen=True)
class Text(TokenTask):
    """A random stretch of a text; at every character the next one is asked for.

    ```
    F i r s t _ C i t i z e   ->   i r s t _ C i t i z e n
    ```

    Training uses the beginning of the text. Validation and the final report use its end, which training never sees.
    """

    file: str = setting(
        "", "a text file of one's own, in UTF-8; by default 1,115,394 characters of Shakespeare's plays"
    )
    length: int = setting(64, "number of characters", low=2, high=4096)
    held_out: float = setting(0.1, "share of the text, its end, that is not trained on", low=0.001, high=0.9)
    part: str = setting("held_out", "which part is drawn by all that does not train", choices=("held_out", "training"))

    hop_names = ("next",)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, part in self.parts.items():
            if len(part) <= self.length:
                raise BadInput(
                    f"the text is too short: its part {name} has {len(part)} characters, and a sequence needs "
                    f"{self.length + 1}; give a longer --file, or a smaller --length"
                )

    # The text ------------------------------------------------------------------------------------------------

    @cached_property
    def characters(self) -> list[str]:
        """The characters of the whole text, in order of code points; a token is an index into them."""
        return sorted(set(read(self.file)))

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        """Number of different characters."""
        return len(self.characters)

    @cached_property
    def parts(self) -> dict[str, Int[Tensor, "place"]]:
        """The tokens of `training`, the text's beginning, and of `held_out`, the rest."""
        tokens = self.encode(read(self.file))
        cut = int(len(tokens) * (1 - self.held_out))
        return {"training": tokens[:cut], "held_out": tokens[cut:]}

    @property
    def in_training(self) -> Text:
        return self.but(part="training")

    @property
    def own_files(self) -> dict[str, str]:
        return {self.file: hashlib.sha256(Path(self.file).read_bytes()).hexdigest()} if self.file else {}

    def encode(self, text: str) -> Int[Tensor, "place"]:
        """The tokens of some text. Raises BadInput for a character that is not in the task's."""
        numbers = {character: number for number, character in enumerate(self.characters)}
        if unknown := set(text) - numbers.keys():
            raise BadInput(f"{min(unknown)!r} is no character of the text; write with those that it has")
        return torch.tensor([numbers[character] for character in text], dtype=torch.long, device="cpu")

    def decode(self, tokens: Int[Tensor, "place"]) -> str:
        """The inverse of `encode`."""
        return "".join(self.characters[token] for token in tokens.tolist())

    # Sequences -----------------------------------------------------------------------------------------------

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """Draw `tokens`, one more than the model sees: the last is only a target."""
        tokens = self.parts[self.part].to(generator.device)
        starts = torch.randint(len(tokens) - self.length, (n, 1), generator=generator, device=tokens.device)
        return {"tokens": tokens[starts + torch.arange(self.length + 1, device=tokens.device)]}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return draw["tokens"][:, 1:, None]

    def roles(self, draw: Draw) -> Roles:
        return relations(self.inputs(draw), self.query_positions)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact for each place, from a symbol such as `'e'@3` to the next character, such as `'n'`; all are asked."""
        shown = enumerate(pairwise(self.decode(draw["tokens"][row])))
        facts = tuple(Fact((f"{here!r}@{place}",), repr(following)) for place, (here, following) in shown)
        return Problem(facts, tuple(fact.premises[0] for fact in facts))

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {repr(character): torch.tensor(token) for token, character in enumerate(self.characters)}

    # Losses --------------------------------------------------------------------------------------------------

    @cached_property
    def baselines(self) -> dict[str, float]:  # type: ignore[override]
        """Losses in nats over the whole part: uniform; character frequencies and pairs of the training part; 0.

        Counts of characters are smoothed by adding 1 to each. Counts of pairs are smoothed by adding, after each
        character, as many pseudo-counts as there are characters, in proportion to their frequencies (MacKay and Peto,
        1995).
        """
        n, seen, asked = self.d_vocab, self.parts["training"].numpy(), self.parts[self.part].numpy()
        alone = (numpy.bincount(seen, minlength=n) + 1) / (len(seen) + n)
        pairs, counts = numpy.unique(seen[:-1] * n + seen[1:], return_counts=True)
        wanted = asked[:-1] * n + asked[1:]
        place = numpy.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
        times = numpy.where(pairs[place] == wanted, counts[place], 0)
        rows = numpy.bincount(seen[:-1], minlength=n)
        after = (times + n * alone[asked[1:]]) / (rows[asked[:-1]] + n)
        losses = {
            name: float(-numpy.log(p).mean()) for name, p in {"frequencies": alone[asked], "pairs": after}.items()
        }
        known = {"any character": self.uniform(), **losses, "foreknown": 0.0}
        return dict(sorted(known.items(), key=lambda one: -one[1]))

    @property
    def learnt_below(self) -> float:
        """A loss below that of a table of pairs shows that more than the preceding character is used."""
        return self.baselines["pairs"]
