"""A benchmark with a control: the same exercises with shuffled labels show how much the examples help.

Rows are those of a benchmark (`hopscope.language.benchmarking`) with a column `labels`, and one that compares the two
conditions exercise by exercise, by a sign test.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, isnan
from pathlib import Path
from typing import Any

from hopscope.language.backends.base import Backend
from hopscope.language.benchmarking import Marked, ask_benchmark, measured
from hopscope.language.benchmarks.base import Benchmark
from hopscope.language.evaluation import Evaluation, Result
from hopscope.language.layouts.base import Layout

LABELS = ("true", "shuffled")
BEYOND = "true beyond shuffled"
Row = dict[str, Any]


def controlled(
    backend: Backend, benchmark: Benchmark, layout: Layout, way: str, settings: Evaluation, folder: Path
) -> list[Row]:
    """The rows of a benchmark with a setting `labels`, under one protocol, and of its control.

    Columns: labels, protocol, measure, n, value, low, high, chance. In the row `true beyond shuffled`, value is the
    mean difference; low is the one-sided p-value of the sign test for more with true labels, and high that for less.
    """
    found: dict[str, Result] = {}
    for labels in LABELS:
        some = benchmark.but(labels=labels)
        found[labels] = ask_benchmark(backend, some, layout, way, settings, folder)
    rows = [row(labels, way, one) for labels, outcome in found.items() for one in outcome.rows]
    return [*rows, beyond(benchmark, way, found["true"], found["shuffled"])]


def row(labels: str, way: str, found: Row) -> Row:
    """A measure's mean, with its interval, and its chance level if it has one."""
    chance = None if isnan(found["chance"]) else found["chance"]
    kept = {name: found[name] for name in ("measure", "n", "value", "low", "high")}
    return {"labels": labels, "protocol": way, **kept, "chance": chance}


def of_values(labels: str, way: str, measure: str, values: Sequence[float], chance: float | None = None) -> Row:
    """The mean of values from 0 to 1 with its interval, and its expected value if that is known."""
    return {"labels": labels, "protocol": way, "chance": chance, **measured(measure, values)}


def beyond(benchmark: Benchmark, way: str, true: Result, shuffled: Result) -> Row:
    """The row that compares both conditions, exercise by exercise."""
    first = benchmark.MEASURES[0]
    pairs = list(zip(scores(true, first), scores(shuffled, first), strict=True))
    more, less = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    return {
        "labels": BEYOND,
        "protocol": way,
        "measure": "choice" if way == "log_likelihood" else first,
        "n": len(pairs),
        "value": sum(a - b for a, b in pairs) / len(pairs),
        "low": at_least(more, more + less),
        "high": at_least(less, more + less),
        "chance": 0.0,
    }


def scores(found: Result, measure: str) -> list[float]:
    """Each exercise's measure, or whether the right answer was chosen."""
    return [one.mark.measures[measure] if isinstance(one, Marked) else float(one.correct) for one in found.judged]


def at_least(heads: int, of: int) -> float:
    """The probability of at least so many heads in `of` throws of a fair coin."""
    return sum(comb(of, number) for number in range(heads, of + 1)) / 2**of
