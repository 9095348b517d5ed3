"""Weights that are not trained, always or for a range of updates: `W_E, *.b_O, *.W_QKV@0-150`.

A range is written as a clamp's is: `@200` from the 200th update on, `@0-150` for the first 150 updates. A frozen weight
has no gradient, so no optimizer moves it, decays it or accumulates momentum for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hopscope.core.settings import BadInput


@dataclass(frozen=True)
class Frozen:
    """A pattern of parameter names, frozen from update `begin` until update `until` (None: to the end)."""

    pattern: str
    begin: int = 0
    until: int | None = None

    @classmethod
    def parse(cls, text: str) -> Frozen:
        """The value written `*.W_QKV@0-150`, or without a range. Raises BadInput."""
        pattern, at, stretch = (part.strip() for part in text.partition("@"))
        if not at:
            return cls(pattern)
        steps = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", stretch)
        if not pattern or not steps:
            raise BadInput(f"a weight frozen for a while must be written such as *.W_QKV@0-150; got {text.strip()!r}")
        begin, until = int(steps[1]), None if steps[2] is None else int(steps[2])
        if until is not None and until <= begin:
            raise BadInput(f"a weight must thaw after it is frozen, such as *.W_QKV@0-150; got {text.strip()!r}")
        return cls(pattern, begin, until)

    def holds(self, parameter: str, step: int) -> bool:
        """Whether the parameter of this name is frozen in the update that follows `step` others."""
        return self.begin <= step and (self.until is None or step < self.until) and fnmatchcase(parameter, self.pattern)


def parse_frozen(text: str) -> tuple[Frozen, ...]:
    """Patterns separated by commas. Raises BadInput."""
    patterns = tuple(Frozen.parse(part) for part in text.split(",") if part.strip())
    if text.strip() and not patterns:
        raise BadInput(f"frozen weights must be named, such as W_U, or *.W_O@0-150 for a while; got {text.strip()!r}")
    return patterns


def turns(frozen: Iterable[Frozen]) -> list[int]:
    """The numbers of updates at which a weight is frozen or thawed, ascending, 0 first."""
    return sorted({0, *(step for weights in frozen for step in (weights.begin, weights.until) if step is not None)})
