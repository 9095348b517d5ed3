"""Weights that are not trained, for good or for a while: `W_E, *.b_O, W_K2@0-150`.

A stretch is written as a clamp's is: `@200` from the 200th update on, `@0-150` for the first 150 updates. A frozen
weight has no gradient, so that no optimizer moves it, decays it or gathers momentum for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hopscope.core.settings import BadInput


@dataclass(frozen=True)
class Frozen:
    """Weights whose names match a pattern, from which number of updates on, and until when (None: never)."""

    pattern: str
    begin: int = 0
    until: int | None = None

    @classmethod
    def parse(cls, text: str) -> Frozen:
        """What is written `W_K2@0-150`, or without a stretch. Raises BadInput."""
        pattern, at, stretch = (part.strip() for part in text.partition("@"))
        if not at:
            return cls(pattern)
        steps = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", stretch)
        if not pattern or not steps:
            raise BadInput(f"a weight frozen for a while must be written such as W_K2@0-150; got {text.strip()!r}")
        begin, until = int(steps[1]), None if steps[2] is None else int(steps[2])
        if until is not None and until <= begin:
            raise BadInput(f"a weight must thaw after it is frozen, such as W_K2@0-150; got {text.strip()!r}")
        return cls(pattern, begin, until)

    def holds(self, parameter: str, step: int) -> bool:
        """Whether the weight of this name is frozen in the update after `step` others."""
        return self.begin <= step and (self.until is None or step < self.until) and fnmatchcase(parameter, self.pattern)


def parse_frozen(text: str) -> tuple[Frozen, ...]:
    """Patterns separated by commas. Raises BadInput."""
    found = tuple(Frozen.parse(part) for part in text.split(",") if part.strip())
    if text.strip() and not found:
        raise BadInput(f"frozen weights must be named, such as W_U, or W_K2@0-150 for a while; got {text.strip()!r}")
    return found


def turns(frozen: Iterable[Frozen]) -> list[int]:
    """The numbers of updates after which some weight is frozen or thaws, 0 first."""
    return sorted({0, *(step for one in frozen for step in (one.begin, one.until) if step is not None)})
