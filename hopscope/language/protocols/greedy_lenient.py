"""The likeliest text, of which the last acceptable answer counts that stands in it as a word of its own.

An answer that has the first line to itself is the answer, whatever is explained below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.language.protocols.base import accepted, last_named
from hopscope.language.protocols.greedy_strict import GreedyStrict


@dataclass(frozen=True)
class GreedyLenient(GreedyStrict):
    """The same text as `greedy_strict` reads, which is therefore asked for once."""

    def label(self, text: str, acceptable: Sequence[str]) -> str | None:
        return accepted(text.strip().partition("\n")[0], acceptable) or last_named(text, acceptable)
