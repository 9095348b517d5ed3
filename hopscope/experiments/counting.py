"""How claims are counted, everywhere: each once, by its experiment and its id, and controls apart from the others.

A control is no finding: it says what must be so before the others mean anything, such as that untrained models guess.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hopscope.core.wording import count, listed
from hopscope.experiments.base import SCALES

Claim = Mapping[str, Any]  # a row of claims.json, with its experiment
#: By verdict how it is said of one claim and of several.
VERDICTS = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "undecided": ("is undecided", "are undecided")}
HOW_COUNTED = (
    "A claim that was judged at several scales counts once, as the scale with the most seeds says, or the largest of "
    "equals. A control says what must be so before the others mean anything, such as that an untrained model guesses."
)
CONTROL = re.compile(r"(?<![a-z])controls?(?![a-z])", re.IGNORECASE)


class Tally(NamedTuple):
    """How many claims, and how many controls, came out how.

    Attributes:
        claims: by verdict; controls are not among them.
        controls: by verdict.
    """

    claims: Counter[str]
    controls: Counter[str]

    def __str__(self) -> str:
        """`3 claims: 2 hold and 1 fails. 1 control, counted apart: 1 holds.`"""
        parts = [f"{count(self.claims.total(), 'claim')}: {said(self.claims)}."] if self.claims else []
        if self.controls:
            parts.append(f"{count(self.controls.total(), 'control')}, counted apart: {said(self.controls)}.")
        return " ".join(parts) or "No claims."


def counted(claims: Iterable[Claim]) -> Tally:
    """The count of some claims, at whatever scales they are."""
    tally = Tally(Counter(), Counter())
    for row in at_last(claims):
        tally[is_control(row)][row["verdict"]] += 1
    return tally


def at_last(claims: Iterable[Claim]) -> list[Claim]:
    """Each claim once: the scale with the most seeds has the last word, and of equals the largest, with more cells or
    longer runs. A scale of many cells may have few seeds yet."""
    ordered = sorted(claims, key=lambda row: (len(row["seeds"]), SCALES.index(row["scale"])))
    return list({(row["experiment"], row["id"]): row for row in ordered}.values())


def is_control(row: Claim) -> bool:
    """Whether a claim is a control: its id, its section or its sentence says so in that word."""
    return any(CONTROL.search(row[name]) for name in ("id", "section", "sentence"))


def said(verdicts: Counter[str]) -> str:
    """`2 hold and 1 fails`; what does not occur is left out."""
    return listed(f"{n:,} {VERDICTS[v][n > 1]}" for v in VERDICTS if (n := verdicts[v]))
