"""A greedy text, in which the last acceptable answer that is a word of its own counts.

If the first line is an acceptable answer and nothing else, it counts, whatever explanation follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.language.protocols.base import accepted, last_named
from hopscope.language.protocols.greedy_strict import GreedyStrict


@dataclass(frozen=True)
class GreedyLenient(GreedyStrict):
    """Judges the same texts as `greedy_strict`, which are requested only once."""

    lenient = True

    def label(self, text: str, acceptable: Sequence[str]) -> str | None:
        return accepted(text.strip().partition("\n")[0], acceptable) or last_named(text, acceptable)
