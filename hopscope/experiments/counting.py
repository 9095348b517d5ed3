"""How claims are counted: each once, by its experiment and its id, and controls separately.

A control is not a finding: it states what must hold for the others to mean anything, such as that untrained models
guess.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hopscope.core.wording import count, listed
from hopscope.experiments.base import SCALES

Claim = Mapping[str, Any]  # a row of claims.json, with its experiment
#: Each verdict in words, for one claim and for several.
VERDICTS = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "undecided": ("is undecided", "are undecided")}
HOW_COUNTED = (
    "A claim that was judged at several scales counts once, as the scale with the most seeds says, or the largest of "
    "equals. A scale at which no run stands behind the claim has no seeds. A control says what must be so before the "
    "others mean anything, such as that an untrained model guesses."
)
CONTROL = re.compile(r"(?<![a-z])controls?(?![a-z])", re.IGNORECASE)


class Tally(NamedTuple):
    """The numbers of claims and of controls by verdict.

    Attributes:
        claims: by verdict, without controls.
        controls: by verdict.
    """

    claims: Counter[str]
    controls: Counter[str]

    def __str__(self) -> str:
        """`3 claims: 2 hold and 1 fails. 1 control, counted apart: 1 holds.`"""
        parts = [f"{count(self.claims.total(), 'claim')}: {in_words(self.claims)}."] if self.claims else []
        if self.controls:
            parts.append(f"{count(self.controls.total(), 'control')}, counted apart: {in_words(self.controls)}.")
        return " ".join(parts) or "No claims."


def counted(claims: Iterable[Claim]) -> Tally:
    """The count of some claims; a claim at several scales counts once."""
    tally = Tally(Counter(), Counter())
    for row in at_last(claims):
        tally[is_control(row)][row["verdict"]] += 1
    return tally


def at_last(claims: Iterable[Claim]) -> list[Claim]:
    """Each claim once, at the scale with the most seeds, and among equals at the largest scale.

    The largest scale has more cells or longer runs, but a scale of many cells may have few seeds yet. Where n is 0 the
    seeds are those of other rows, and do not count.
    """
    ordered = sorted(claims, key=lambda row: (len(row["seeds"]) if row["n"] else 0, SCALES.index(row["scale"])))
    return list({(row["experiment"], row["id"]): row for row in ordered}.values())


def is_control(row: Claim) -> bool:
    """Whether a claim is a control: its id, section or sentence contains that word."""
    return any(CONTROL.search(row[name]) for name in ("id", "section", "sentence"))


def in_words(verdicts: Counter[str]) -> str:
    """Counts by verdict in words: `2 hold and 1 fails`; a count of 0 is left out."""
    return listed(f"{n:,} {VERDICTS[v][n > 1]}" for v in VERDICTS if (n := verdicts[v]))
