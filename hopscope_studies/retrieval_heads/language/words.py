"""The text report of `hopscope lm heads --needles`, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SHOWN = 12  # heads that are listed; table.csv has all


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as text."""
    asked, answers = report["asks"], report["answers"]
    yield (
        f"{report['model']}: {asked['n']} asks for {asked['needles']} needles of {told_range(asked['needle_tokens'])} "
        f"tokens in {told_range(asked['tokens'])}"
    )
    yield f"found by itself: {told(answers['answered'])}; log-probability per token {told(answers['log_p'])}"
    for way, found in report["sparsity"].items():
        yield (
            f"retrieval heads, {way}: {found['retrieval_heads']} of {found['heads']}, {told(found['share'])}; "
            f"highest score {found['highest']:.2f}"
        )
    for one in report["firing"][:SHOWN]:
        yield f"  {one['head']:8} score {one['score']:.2f}, hits something in {one['active']:.2f} of the asks"
    both = report["induction"]
    yield (
        f"rank agreement with induction scores: {told(both['ranks'])}; of the {both['of']} highest {both['shared']} "
        f"are shared (by chance {both['by_chance']:.1f})"
    )
    yield from mask_lines(report["masking"])


def mask_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The cost of masking."""
    yield "\nnats per token of the needle lost with heads masked, on needles by which they were not chosen (95 %):"
    lost = {one["set"]: one["lost"] for one in found["log_p"] if "lost" in one}
    for name, value in lost.items():
        kind, _, size = name.partition(" ")
        if kind == "retrieval":
            random = [one["mean"] for which, one in lost.items() if which.startswith(f"random {size} ")]
            yield f"  the highest {size:>2}: {told(value)}; random sets {', '.join(f'{x:.2f}' for x in random)}"


def told(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.2f} ({value['low']:.2f} to {value['high']:.2f})"


def told_range(ends: list[int]) -> str:
    """`7`, or `7 to 9`."""
    low, high = ends
    return str(low) if low == high else f"{low} to {high}"
