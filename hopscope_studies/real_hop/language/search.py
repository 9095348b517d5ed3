"""Circuits of nodes: ours, ACDC's, by attribution and by chance, all of the same unit and with the same metric.

Ours starts with the shortest prefix of EAP-IG's ranking that keeps the answer, found by doubling and bisection. Then
nodes are tested exactly, the least important first, and each one that the rest does not need is left out. The result is
a set that suffices and from which, when it was tested, no node could be left out. It need not be the only such set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch

from hopscope_studies.real_hop.language.trial import Trial, Units, is_head, nodes

#: Share of the metric that must be kept on the draws of the search (ours). A set that is chosen on some draws does
#: worse on others, so more is asked here than in the claims.
LEVEL = 1.0
#: ACDC's τ as a share of the metric's gap (ours).
THRESHOLD = 0.01


def shortest(order: Sequence[str], passes: Callable[[Collection[str]], bool]) -> int:
    """The length of a prefix that passes although the next shorter one that was tried does not; all, if none passes."""
    low, high = 0, min(8, len(order))
    while high < len(order) and not passes(order[:high]):
        low, high = high, min(2 * high, len(order))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(order[:middle]) else (middle, high)
    return high


def pruned(order: Sequence[str], passes: Callable[[Collection[str]], bool]) -> list[str]:
    """A passing set without the units that can be left out, tried one by one from its end."""
    kept = list(order)
    for unit in reversed(order):
        rest = [one for one in kept if one != unit]
        if rest and passes(rest):
            kept = rest
    return kept


def found(trial: Trial, order: Sequence[str]) -> list[str]:
    """A small set that keeps the metric, in the given order, the most important first."""

    def passes(units: Collection[str]) -> bool:
        return trial.kept(units) >= LEVEL

    return pruned(order[: shortest(order, passes)], passes)


def acdc(trial: Trial) -> Units:
    """ACDC (Conmy et al., 2023) on nodes: from the last to the first, nodes that cost less than τ are removed."""
    threshold = THRESHOLD * float(trial.full.mean() - trial.empty.mean())
    order = nodes(trial.machine)[::-1]
    kept = frozenset(order)
    metric = float(trial.keeping(kept).mean())
    for node in order:
        without = float(trial.keeping(kept - {node}).mean())
        if metric - without < threshold:
            kept, metric = kept - {node}, without
    return kept


def random_like(trial: Trial, units: Collection[str], seed: int) -> list[str]:
    """As many heads and as many MLPs, drawn uniformly from all others."""
    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for kind in (True, False):
        others = [node for node in nodes(trial.machine) if is_head(node) == kind and node not in units]
        count = sum(is_head(unit) == kind for unit in units)
        drawn += [others[i] for i in torch.randperm(len(others), generator=generator)[:count].tolist()]
    return drawn
