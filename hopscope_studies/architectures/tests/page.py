"""The tables of the study's page, made from the bench's table; a test compares them with the page."""

from __future__ import annotations

import math

from pandas import DataFrame

from hopscope_studies.architectures.claims import at, columns_of, hops_learnt, label, thousands


def overview(table: DataFrame) -> str:
    """The bench as a table in Markdown: candidates by task, D and layers, with all seeds of a cell in one entry."""
    each = hops_learnt(table)
    places = columns_of(each)
    head = ["candidate", "parameters", "MFLOP", *(label(*place).replace("\n", ", ") for place in places)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, rows in each.groupby("candidate", sort=False):
        first = rows.sort_values("D", kind="stable").iloc[0]
        about = [str(name), f"{first.parameters / 1000:.0f} k", f"{first.flops / 1e6:.1f}"]
        lines.append("| " + " | ".join([*about, *(entry(at(rows, place)) for place in places)]) + " |")
    return "\n".join(lines)


def entry(runs: DataFrame) -> str:
    """Hops learnt by each seed, of how many within reach, and the thousand sequences until the last of them."""
    if not len(runs):
        return ""
    reach = "?" if math.isnan(runs.reach.iloc[0]) else f"{runs.reach.iloc[0]:.0f}"
    learnt = ", ".join(str(number) for number in runs.learnt)
    return f"{learnt} of {reach}" + (f" ({took})" if (took := thousands(runs)) else "")
