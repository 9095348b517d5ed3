"""In which order paths emerge, over several runs: precedence, the modal order, Kendall's τ.

Circuits of different seeds sit in different layers and heads, so a path is followed across runs by what it does: its
attending role, its attended role and the chain, and among several of one kind its rank in layer order:
`query->value[2]`, `query->value[2] #2`. Roles carry the hop, so this aligns hops too. Where circuits have several paths
of a kind, ranks are of little worth across runs, and `first_of_kind` compares what has a counterpart in every run.

Within a run the order of two events is *determined* if their intervals share no more than a checkpoint that lies
between them; an event that was there at the first checkpoint precedes all that were seen, one that never came follows
them. What is left (both within one gap, both censored alike, one absent) is *undetermined*, and counted as such.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from hopscope.core.intervals import wilson as wilson
from hopscope.emergence.onset import Onset, student
from hopscope.problem.paths import Path

Signs = NDArray[numpy.int64]
Run = Mapping[str, Onset]  # the events of one run, by name


def event_names(paths: Iterable[Path]) -> dict[Path, str]:
    """What each path is called in every run: its roles, and its rank in layer order among those of its kind."""
    seen: dict[tuple[str, str, str], int] = {}
    names = {}
    for path in sorted(paths):
        kind = (path.query, path.key, path.chain)
        seen[kind] = seen.get(kind, 0) + 1
        rank = f" #{seen[kind]}" if seen[kind] > 1 else ""
        names[path] = str(path).split(" ", 1)[1] + rank
    return names


def first_of_kind(run: Run) -> dict[str, Onset]:
    """When each kind of path first appeared, by its name without rank: the earliest onset among its paths.

    Layers say little about time: of two heads that come to do the same either may be first; other seeds have one.
    """
    found: dict[str, Onset] = {}
    for name in in_order(run):
        found.setdefault(name.split(" #")[0], run[name])
    return found


# Within a run ----------------------------------------------------------------------------------------------------


def precedes(a: Onset, b: Onset) -> int:
    """1 if event a came before b, −1 if after, 0 if that is not determined."""
    rank = {"already": 0, "seen": 1, "never": 2}
    if rank[a.status] != rank[b.status]:
        return 1 if rank[a.status] < rank[b.status] else -1
    if a.step is None or b.step is None:
        return 0
    first, second = (a, b) if a.step <= b.step else (b, a)
    apart = first.by is not None and second.after is not None and first.by <= second.after
    disjoint = first.high is None or second.low is None or first.high <= second.low
    return 0 if not (apart and disjoint) else 1 if first is a else -1


def relation(run: Run, events: Sequence[str]) -> Signs:
    """Who precedes whom in one run, (event, event): 1, −1, or 0 where it is not determined or one is absent."""
    found = numpy.zeros((len(events), len(events)), dtype=numpy.int64)
    for i, j in itertools.combinations(range(len(events)), 2):
        if events[i] in run and events[j] in run:
            found[i, j] = precedes(run[events[i]], run[events[j]])
            found[j, i] = -found[i, j]
    return found


def in_order(run: Run) -> list[str]:
    """The events of a run as they came; what never came stands last."""
    place = {"already": -math.inf, "never": math.inf}
    return sorted(run, key=lambda name: (place.get(run[name].status, run[name].step or 0.0), name))


# Kendall's τ -----------------------------------------------------------------------------------------------------


def kendall(a: Signs, b: Signs) -> float:
    """Kendall's τ between two orders, given as who precedes whom; NaN where one of them determines no pair.

    Σ a·b / √(Σ a² · Σ b²), Kendall's general coefficient: between orders with ties it is τ-b, and it needs no more than
    pairs, so orders that leave some undetermined have one as well. 1 for equal orders, −1 for reversed ones.
    """
    scale = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / scale if scale else math.nan


def signs_of(ranks: Sequence[float]) -> Signs:
    """Who precedes whom among things with these ranks; equal ranks are ties."""
    values = numpy.asarray(ranks, float)
    return numpy.sign(values[None, :] - values[:, None]).astype(numpy.int64)


def tau_b(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's τ-b of two lists of ranks of the same things."""
    return kendall(signs_of(a), signs_of(b))


# Over runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two events over all runs: in how many the first came before, after, or it cannot be said."""

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
        events: in the modal order: each pair as most runs have it. Events are sorted by the number of others that they
            precede in most runs, less those that they follow; equal ones by their mean place.
        runs: how many runs.
        holds: in how many of them no determined pair contradicts the modal order.
        confirmed: in how many, besides, every pair is there and determined.
        holds_interval: of the share of runs in which it holds (Wilson).
        pairs: every pair of events, in the modal order.
        tau: Kendall's τ of each run against the modal order; None where a run determines nothing.
        mean_tau: mean of τ over all pairs of runs; None with fewer than two comparable runs.
        mean_tau_interval: its interval (jackknife over runs); None with fewer than three, or where runs are not all
            comparable. Where all runs agree it has no width: the interval of the share then says more.
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
        """As in emergence.json."""
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
        runs: the events of each, by names that mean the same in all (`event_names`); some may lack some.

    Raises:
        ValueError: there is no run.
    """
    if not runs:
        raise ValueError("an order over runs needs at least one run")
    events = modal_order(runs)
    found = [relation(run, events) for run in runs]
    modal = signs_of(range(len(events)))
    upper = numpy.triu(numpy.ones_like(modal), 1).astype(bool)
    fits = [not (signs[upper] < 0).any() for signs in found]
    sure = [bool((signs[upper] > 0).all()) for signs in found]
    tau = [kendall(signs, modal * present(run, events)) for run, signs in zip(runs, found, strict=True)]
    mean, ends = mean_pairwise(found, [present(run, events) for run in runs])
    return Agreement(
        events=tuple(events),
        runs=len(runs),
        holds=sum(fits),
        confirmed=sum(sure),
        holds_interval=wilson(sum(fits), len(runs)),
        pairs=tuple(pairs_of(runs, events, found)),
        tau=tuple(None if math.isnan(t) else t for t in tau),
        mean_tau=mean,
        mean_tau_interval=ends,
    )


def modal_order(runs: Sequence[Run]) -> list[str]:
    """All events, each pair in the direction that most runs have it in, as far as one order can."""
    events = sorted({name for run in runs for name in run})
    votes = numpy.sign(sum(relation(run, events) for run in runs))
    wins = dict(zip(events, numpy.atleast_2d(votes).sum(1).tolist(), strict=True)) if events else {}
    places: dict[str, list[float]] = {name: [] for name in events}
    for run in runs:
        for place, name in enumerate(ordered := in_order(run)):
            places[name].append((place + 0.5) / len(ordered))
    return sorted(events, key=lambda name: (-wins[name], sum(places[name]) / len(places[name]), name))


def present(run: Run, events: Sequence[str]) -> Signs:
    """1 where a run has both events of a pair, else 0."""
    there = numpy.array([name in run for name in events], dtype=numpy.int64)
    return numpy.outer(there, there)


def pairs_of(runs: Sequence[Run], events: Sequence[str], found: Sequence[Signs]) -> Iterable[Pair]:
    """Every pair in the given order, counted over runs."""
    for i, j in itertools.combinations(range(len(events)), 2):
        signs = [int(s[i, j]) for run, s in zip(runs, found, strict=True) if {events[i], events[j]} <= set(run)]
        counts = signs.count(1), signs.count(-1), signs.count(0)
        yield Pair(events[i], events[j], *counts, len(runs) - len(signs))


def mean_pairwise(found: Sequence[Signs], there: Sequence[Signs]) -> tuple[float | None, tuple[float, float] | None]:
    """Mean τ over pairs of runs, on the events that both have, and its jackknife interval, within −1 … 1."""
    n = len(found)
    table = numpy.full((n, n), math.nan)
    for i, j in itertools.combinations(range(n), 2):
        table[i, j] = table[j, i] = kendall(found[i] * there[j], found[j] * there[i])
    if n < 2 or numpy.isnan(table).all():
        return None, None
    mean = float(numpy.nanmean(table))
    if n < 3 or numpy.isnan(table[~numpy.eye(n, dtype=bool)]).any():
        return mean, None
    without = [float(numpy.nanmean(numpy.delete(numpy.delete(table, i, 0), i, 1))) for i in range(n)] if n > 2 else []
    error = math.sqrt((n - 1) / n * sum((w - sum(without) / n) ** 2 for w in without))
    margin = student(n - 1) * error
    return mean, (max(-1.0, mean - margin), min(1.0, mean + margin))
