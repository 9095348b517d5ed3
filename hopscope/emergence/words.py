"""Onsets and their order in short text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hopscope.emergence.onset import Onset
from hopscope.emergence.order import precedes
from hopscope.emergence.track import Emergence, Followed


def lines(emergence: Emergence) -> list[str]:
    """Lines about one model: each path's onsets, when the hops were learnt, and the order of the paths."""
    hops = ", ".join(f"{hop} {when(learnt)}" for hop, learnt in emergence.learnt.items())
    return [*map(about, emergence.ordered), f"hops learnt at {hops}", f"order: {chain(emergence.ordered)}"]


def about(f: Followed) -> str:
    """A path with its final attention, the cost of silencing it, and its onsets."""
    change = ended(f.change.step, f.change.low, f.change.high) if f.change else "none"
    causal = f", causal {when(f.cost.causal.onset)}" if f.cost else ""
    numbers = [f"attention {f.strength[-1]:.2f}", *([f"costs {f.cost.causal.effect:+.3f}"] if f.cost else [])]
    numbers += [f"serves {f.hop}"] if f.hop else []
    numbers += [] if f.lead is None else [f"leads by {round(f.lead):+d}"]
    return f"{f.path}  ({', '.join(numbers)})\n    above 0.5 {when(f.onset)}, change {change}{causal}"


def when(onset: Onset) -> str:
    """An onset with its interval; it says so if it is censored, or if the curve fell again."""
    if onset.status == "never":
        return f"never by {onset.after}"
    fell = f", fell back ×{onset.falls}" if onset.falls else ""
    if onset.step is None:
        return (f"before {onset.by}" if onset.by else "from the start") + fell
    return ended(onset.step, onset.low, onset.high) + fell


def ended(step: float, low: float | None, high: float | None) -> str:
    """A step with its interval; an end beyond the checkpoints is left blank."""
    if low is None and high is None:
        return f"{step:.0f}"
    return f"{step:.0f} ({'' if low is None else f'{low:.0f}'}–{'' if high is None else f'{high:.0f}'})"


def chain(ordered: Sequence[Followed]) -> str:
    """Paths in order of their onsets; `≈` between two whose order is undetermined."""
    words = str(ordered[0].path)
    for earlier, later in itertools.pairwise(ordered):
        words += (" → " if precedes(earlier.onset, later.onset) == 1 else " ≈ ") + str(later.path)
    return words
