"""In which order paths emerge, over several runs: precedence, the modal order, Kendall's τ.

Circuits of different seeds are in different layers and heads. So a path is identified across runs by its function: its
query role, its key role and the chain, and among several of one kind its rank in layer order: `query->value[2]`,
`query->value[2] #2`. Roles contain the hop, so hops are aligned too. If circuits have several paths of a kind, ranks
mean little across runs, and `first_of_kind` compares events that every run has.

Within a run the order of two events is *determined* if a checkpoint separates them, and their intervals share at most
that checkpoint. An event that had happened by the first checkpoint precedes all that were seen, and one that never
happened follows them. Other pairs (both within one gap, both censored alike, one absent) are *undetermined*, and are
counted as such.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from hopscope.core.intervals import student, wilson as wilson
from hopscope.emergence.onset import Onset
from hopscope.problem.paths import Path

Signs = NDArray[numpy.int64]
Run = Mapping[str, Onset]  # events of one run, by name


def event_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Each path's name across runs: its roles, and its rank in layer order among paths of its kind."""
    count_of: dict[tuple[str, str, str], int] = {}
    names = {}
    for path in sorted(paths):
        kind = (path.query, path.key, path.chain)
        count_of[kind] = count_of.get(kind, 0) + 1
        rank = f" #{count_of[kind]}" if count_of[kind] > 1 else ""
        names[path] = str(path).split(" ", 1)[1] + rank
    return names


def first_of_kind(run: Run) -> dict[str, Onset]:
    """The earliest onset among the paths of each kind, by the kind's name (without rank).

    The order of layers says little about time: of two heads with the same function either may be first, and other
    seeds have only one.
    """
    first: dict[str, Onset] = {}
    for name in in_order(run):
        first.setdefault(name.split(" #")[0], run[name])
    return first


# Within a run ----------------------------------------------------------------------------------------------------


def precedes(a: Onset, b: Onset) -> int:
    """1 if event a came before b, −1 if after, 0 if that is not determined.

    An interval that is open at one end reaches beyond the checkpoints, so it overlaps everything on that side.
    """
    rank = {"already": 0, "seen": 1, "never": 2}
    if rank[a.status] != rank[b.status]:
        return 1 if rank[a.status] < rank[b.status] else -1
    if a.step is None or b.step is None:
        return 0
    first, second = (a, b) if a.step <= b.step else (b, a)
    apart = first.by is not None and second.after is not None and first.by <= second.after
    disjoint = first.high is not None and second.low is not None and first.high <= second.low
    return 0 if not (apart and disjoint) else 1 if first is a else -1


def relation(run: Run, events: Sequence[str]) -> Signs:
    """Which event precedes which in one run, (event, event): 1, −1, or 0 if it is undetermined or one is absent."""
    signs = numpy.zeros((len(events), len(events)), dtype=numpy.int64)
    for i, j in itertools.combinations(range(len(events)), 2):
        if events[i] in run and events[j] in run:
            signs[i, j] = precedes(run[events[i]], run[events[j]])
            signs[j, i] = -signs[i, j]
    return signs


def in_order(run: Run) -> list[str]:
    """The events of a run in order of their onsets; those that never happened are last."""
    place = {"already": -math.inf, "never": math.inf}
    return sorted(run, key=lambda name: (place.get(run[name].status, run[name].step or 0.0), name))


# Kendall's τ -----------------------------------------------------------------------------------------------------


def kendall(a: Signs, b: Signs) -> float:
    """Kendall's τ between two orders, given as signs of precedence; NaN if one of them determines no pair.

    Σ a·b / √(Σ a² · Σ b²) is Kendall's general coefficient. Between orders with ties it is τ-b. It needs only signs of
    pairs, so it is defined for orders with undetermined pairs. It is 1 for equal orders, −1 for reversed ones.
    """
    scale = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / scale if scale else math.nan


def signs_of(ranks: Sequence[float]) -> Signs:
    """Signs of precedence among things with these ranks: 1 where the row's comes earlier (lower rank), 0 for ties."""
    values = numpy.asarray(ranks, float)
    return numpy.sign(values[None, :] - values[:, None]).astype(numpy.int64)


def tau_b(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's τ-b of two lists of ranks of the same things."""
    return kendall(signs_of(a), signs_of(b))


# Over runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two events over all runs: in how many runs the first came before, after, or in undetermined order."""

    first: str
    second: str
    before: int
    after: int
    undetermined: int
    absent: int


@dataclass(frozen=True)
class Agreement:
    """The order of emergence over runs.

    Attributes:
        events: in the modal order, which has each pair as most runs have it. Events are sorted by the number of others
            that they precede in most runs minus the number that they follow; ties by their mean rank.
        runs: the number of runs.
        holds: in how many runs no determined pair contradicts the modal order.
        confirmed: in how many of these every pair is present and determined.
        holds_interval: of the share of runs in which it holds (Wilson), as if the order had been given beforehand. But
            it is chosen on these runs, so others contradict it more often, above all if runs are few or differ.
        pairs: every pair of events, in the modal order.
        tau: Kendall's τ of each run against the modal order; None if the run determines nothing.
        mean_tau: mean of τ over all pairs of runs; None with fewer than two comparable runs.
        mean_tau_interval: its interval (jackknife over runs); None with fewer than three, or if not all runs are
            comparable. If all runs agree its width is 0, and the interval of the share is more informative.
    """

    events: tuple[str, ...]
    runs: int
    holds: int
    confirmed: int
    holds_interval: tuple[float, float]
    pairs: tuple[Pair, ...]
    tau: tuple[float | None, ...]
    mean_tau: float | None
    mean_tau_interval: tuple[float, float] | None

    @property
    def share(self) -> float:
        """The share of runs in which the modal order holds."""
        return self.holds / self.runs

    def as_dict(self) -> dict[str, Any]:
        """The value in emergence.json."""
        return {
            "events": list(self.events),
            "runs": self.runs,
            "holds": self.holds,
            "confirmed": self.confirmed,
            "share": round(self.share, 4),
            "share_interval": [round(end, 4) for end in self.holds_interval],
            "pairs": [vars(pair) for pair in self.pairs],
            "tau": [None if tau is None else round(tau, 4) for tau in self.tau],
            "mean_tau": None if self.mean_tau is None else round(self.mean_tau, 4),
            "mean_tau_interval": self.mean_tau_interval and [round(end, 4) for end in self.mean_tau_interval],
        }


def agreement(runs: Sequence[Run]) -> Agreement:
    """The order of emergence over runs.

    Args:
        runs: the events of each run, by names that mean the same in all (`event_names`); some may be absent.

    Raises:
        ValueError: there is no run.
    """
    if not runs:
        raise ValueError("an order over runs needs at least one run")
    events = modal_order(runs)
    orders = [relation(run, events) for run in runs]
    modal = signs_of(range(len(events)))
    upper = numpy.triu(numpy.ones_like(modal), 1).astype(bool)
    fits = [not (signs[upper] < 0).any() for signs in orders]
    confirmed = [bool((signs[upper] > 0).all()) for signs in orders]
    tau = [kendall(signs, modal * present(run, events)) for run, signs in zip(runs, orders, strict=True)]
    mean, ends = mean_pairwise(orders, [present(run, events) for run in runs])
    return Agreement(
        events=tuple(events),
        runs=len(runs),
        holds=sum(fits),
        confirmed=sum(confirmed),
        holds_interval=wilson(sum(fits), len(runs)),
        pairs=tuple(pairs_of(runs, events, orders)),
        tau=tuple(None if math.isnan(t) else t for t in tau),
        mean_tau=mean,
        mean_tau_interval=ends,
    )


def modal_order(runs: Sequence[Run]) -> list[str]:
    """All events, ordered so that pairs are as most runs have them, as far as one order allows."""
    events = sorted({name for run in runs for name in run})
    votes = numpy.sign(sum(relation(run, events) for run in runs))
    wins = dict(zip(events, numpy.atleast_2d(votes).sum(1).tolist(), strict=True)) if events else {}
    places: dict[str, list[float]] = {name: [] for name in events}
    for run in runs:
        for place, name in enumerate(ordered := in_order(run)):
            places[name].append((place + 0.5) / len(ordered))
    return sorted(events, key=lambda name: (-wins[name], sum(places[name]) / len(places[name]), name))


def present(run: Run, events: Sequence[str]) -> Signs:
    """1 where a run has both events of a pair, else 0, (event, event)."""
    there = numpy.array([name in run for name in events], dtype=numpy.int64)
    return numpy.outer(there, there)


def pairs_of(runs: Sequence[Run], events: Sequence[str], orders: Sequence[Signs]) -> Iterable[Pair]:
    """Every pair in the given order, with its counts over runs."""
    for i, j in itertools.combinations(range(len(events)), 2):
        signs = [int(s[i, j]) for run, s in zip(runs, orders, strict=True) if {events[i], events[j]} <= set(run)]
        counts = signs.count(1), signs.count(-1), signs.count(0)
        yield Pair(events[i], events[j], *counts, len(runs) - len(signs))


def mean_pairwise(orders: Sequence[Signs], there: Sequence[Signs]) -> tuple[float | None, tuple[float, float] | None]:
    """Mean τ over pairs of runs, on events that both have, and its jackknife interval, cut to −1 … 1."""
    n = len(orders)
    table = numpy.full((n, n), math.nan)
    for i, j in itertools.combinations(range(n), 2):
        table[i, j] = table[j, i] = kendall(orders[i] * there[j], orders[j] * there[i])
    if n < 2 or numpy.isnan(table).all():
        return None, None
    mean = float(numpy.nanmean(table))
    if n < 3 or numpy.isnan(table[~numpy.eye(n, dtype=bool)]).any():
        return mean, None
    without = [float(numpy.nanmean(numpy.delete(numpy.delete(table, i, 0), i, 1))) for i in range(n)] if n > 2 else []
    error = math.sqrt((n - 1) / n * sum((w - sum(without) / n) ** 2 for w in without))
    margin = student(n - 1) * error
    return mean, (max(-1.0, mean - margin), min(1.0, mean + margin))
