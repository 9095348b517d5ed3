"""Circuits of nodes: ours, ACDC's, those of attribution and of chance, all of one unit and one metric.

Ours begins with the shortest beginning of EAP-IG's ranking that keeps the answer, found by doubling and halving; then,
the least needed first, whatever the rest can do without is left out by exact test. What is found so is a set that
suffices and of which, at the time it was tried, nothing could be spared; it need not be the only one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch

from hopscope_studies.real_hop.language.trial import Trial, Units, is_head, nodes

#: Share of the metric that must be kept on the draws of the search (ours). What is chosen on some draws does worse on
#: others, so that more is asked here than is hoped for there.
LEVEL = 1.0
#: ACDC's τ as a share of the metric's gap (ours).
THRESHOLDS = (0.01,)


def shortest(order: Sequence[str], passes: Callable[[Collection[str]], bool]) -> int:
    """Length of a beginning that passes while the next shorter that was tried does not; all, if none passes."""
    low, high = 0, min(8, len(order))
    while high < len(order) and not passes(order[:high]):
        low, high = high, min(2 * high, len(order))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(order[:middle]) else (middle, high)
    return high


def pruned(order: Sequence[str], passes: Callable[[Collection[str]], bool]) -> list[str]:
    """What is left of a passing set if, from its end, whatever can be spared is."""
    kept = list(order)
    for unit in reversed(order):
        rest = [one for one in kept if one != unit]
        if rest and passes(rest):
            kept = rest
    return kept


def found(trial: Trial, order: Sequence[str], level: float = LEVEL) -> list[str]:
    """A small set that keeps the metric, the most needed first by the order that was given."""

    def passes(units: Collection[str]) -> bool:
        return trial.kept(units) >= level

    return pruned(order[: shortest(order, passes)], passes)


def acdc(trial: Trial, thresholds: Sequence[float] = THRESHOLDS) -> list[Units]:
    """ACDC (Conmy et al., 2023) on nodes: from the last to the first, out goes what costs less than τ."""
    gap = float(trial.full.mean() - trial.empty.mean())
    return [walked(trial, share * gap) for share in thresholds]


def walked(trial: Trial, threshold: float) -> Units:
    """What is left of all nodes at one τ, in the unit of the metric."""
    order = nodes(trial.machine)[::-1]
    kept = frozenset(order)
    metric = float(trial.keeping(kept).mean())
    for node in order:
        without = float(trial.keeping(kept - {node}).mean())
        if metric - without < threshold:
            kept, metric = kept - {node}, without
    return kept


def random_like(trial: Trial, units: Collection[str], seed: int) -> list[str]:
    """As many heads and as many MLPs, drawn evenly from all others."""
    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for kind in (True, False):
        others = [node for node in nodes(trial.machine) if is_head(node) == kind and node not in units]
        count = sum(is_head(unit) == kind for unit in units)
        drawn += [others[i] for i in torch.randperm(len(others), generator=generator)[:count].tolist()]
    return drawn
