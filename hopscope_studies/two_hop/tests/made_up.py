"""An invented report for quick tests: a model that does one hop and guesses on two."""

from __future__ import annotations

from typing import Any

from hopscope_studies.two_hop.language.templates import CHAINS, TEMPLATES


def made_up() -> list[dict[str, Any]]:
    """The rows of the invented report."""
    cells = [(template, n, hops) for template in TEMPLATES for n in CHAINS for hops in (1, 2)]
    return [
        {"template": t, "chains": n, "hops": hops, "asked": 4, "right": 4 if hops == 1 else 4 / n, "ends": 3, "own": 1}
        for t, n, hops in cells
    ]


#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"two-hop-templates": {"rows": made_up()}}
