"""Commands in nonce words, and the colours that they mean (ours, after MiniSCAN, Lake et al., 2019, arXiv:1901.04587).

Three words mean a colour each. `fep` says how often the word before it counts, and `kiki` how the colours x of what
stands before it and y of what stands after it are put together: `dax fep kiki lug` is `(dax fep) kiki lug`.
"""

from __future__ import annotations

from functools import cached_property
from itertools import permutations, product

from hopscope.formulations.base_draw import Draw
from hopscope.language.domains.base import Domain

NAMES, FEP, KIKI = ("dax", "lug", "wif"), "fep", "kiki"
COLOURS = ("red", "green", "blue")
TIMES = {"twice": 2, "thrice": 3}
JOINED = {"then": "xy", "after": "yx", "around": "xyx", "inside": "yxy"}


class Commands(Domain):
    """One word, or two with `kiki` between them, each with `fep` or without."""

    ASK_OUTPUT = "What is f({})? Say directly only the colours, without any other words."
    ASK_RULE = (
        f"What do the words mean? {', '.join(NAMES)} are a colour each, x {FEP} is x {' or '.join(TIMES)}, and "
        f"x {KIKI} y is {', '.join(f'{name} ({order})' for name, order in JOINED.items())}. Say directly only the "
        f"meanings of {', '.join(NAMES)}, {FEP} and {KIKI}, in this order, separated by commas, as in "
        "blue, red, green, twice, then."
    )
    STEM_RULE = f"The meanings of {', '.join(NAMES)}, {FEP}, {KIKI}:"

    @cached_property
    def rules(self) -> dict[str, tuple[dict[str, str], int, str]]:  # type: ignore[override]
        """The colours of words, the times of `fep` and the order of `kiki`; each is worded in this order."""
        return {
            ", ".join((*colours, often, joined)): (dict(zip(NAMES, colours, strict=True)), TIMES[often], JOINED[joined])
            for colours, often, joined in product(permutations(COLOURS), TIMES, JOINED)
        }

    def applied(self, rule: str, given: tuple[str, ...]) -> str:
        colours, times, order = self.rules[rule]
        parts = [part.split() for part in self.told(given).split(KIKI)]
        meant = [[colours[name]] * (times if fep else 1) for name, *fep in parts]
        placed = order if len(meant) > 1 else "x"
        return " ".join(colour for place in placed for colour in meant["xy".index(place)])

    def drawn(self, draw: Draw) -> tuple[str, ...]:
        one, other = ((NAMES[draw.below(3)], *[FEP] * draw.below(2)) for _ in "xy")
        return (*one, KIKI, *other) if draw.below(4) else one

    def told(self, given: tuple[str, ...]) -> str:
        return " ".join(given)

    def read_output(self, text: str, lenient: bool) -> str | None:
        either = "|".join(COLOURS)
        return self.last(rf"(?<!\w)(?:{either})(?: (?:{either}))*(?!\w)", text, lenient)

    def read_rule(self, text: str, lenient: bool) -> str | None:
        words = ("|".join(some) for some in (*[COLOURS] * 3, TIMES, JOINED))
        match = self.last(rf"(?<!\w){', '.join(f'(?:{some})' for some in words)}(?!\w)", text, lenient)
        return match if match in self.rules else None
