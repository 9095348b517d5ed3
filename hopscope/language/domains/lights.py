"""Which objects turn a light on? (After ACRE, Zhang et al., 2021, arXiv:2103.14232; the wording is ours.)"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import combinations

from hopscope.formulations.base_draw import Draw
from hopscope.language.domains.base import Domain

OBJECTS = ("apple", "bell", "cup", "drum", "egg", "fan")
ON, OFF = "on", "off"
Things = tuple[str, ...]


class Lights(Domain):
    """The light is on if at least one of certain objects is present: one to three of six."""

    OUTPUTS = 2
    STATEMENT = "With {} the light is {}."
    ASK_OUTPUT = "With {}, is the light on or off? Say directly only on or off, without any other words."
    ASK_RULE = (
        "One to three objects turn the light on: it is on if at least one of them is there. Which? Say directly only "
        "these objects, separated by commas, without any other words."
    )
    STEM_OUTPUT = "With {} the light is"
    STEM_RULE = "The light is turned on by:"

    @cached_property
    def rules(self) -> dict[str, Things]:  # type: ignore[override]
        """Sets of objects by their names, separated by commas."""
        return {", ".join(some): some for size in range(1, 4) for some in combinations(OBJECTS, size)}

    def applied(self, rule: str, given: Things) -> str:
        return OFF if set(given).isdisjoint(self.rules[rule]) else ON

    def drawn(self, draw: Draw) -> Things:
        size = 1 + draw.below(3)
        return tuple(OBJECTS[i] for i in sorted(draw.permutation(len(OBJECTS))[:size]))

    def told(self, given: Things) -> str:
        return ", ".join(given)

    def read_output(self, text: str, lenient: bool) -> str | None:
        return self.last(rf"(?<!\w)(?:{ON}|{OFF})(?!\w)", text, lenient)

    def read_rule(self, text: str, lenient: bool) -> str | None:
        either = "|".join(OBJECTS)
        match = self.last(rf"(?<!\w)(?:{either})(?:\s*,\s*(?:{either}))*(?!\w)", text, lenient)
        some = set(re.findall(r"\w+", match or ""))
        called = ", ".join(name for name in OBJECTS if name in some)
        return called if called in self.rules else None
