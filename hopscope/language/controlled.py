"""A benchmark with a control: the same exercises with shuffled labels show how much the examples help.

Rows are those of a benchmark (`hopscope.language.benchmarking`) with a column `labels`, plus one row that compares the
two conditions with a paired sign test over exercises.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

from hopscope.core.intervals import sign_test
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
    """The rows of a benchmark that has a setting `labels`, and of its control, under the protocol `way`.

    Columns: labels, protocol, measure, n, value, low, high, chance. In the row `true beyond shuffled`, value is the
    mean difference. There low is the one-sided p-value of the sign test that true labels score higher, and high that of
    the test that they score lower.
    """
    results = {
        labels: ask_benchmark(backend, benchmark.but(labels=labels), layout, way, settings, folder) for labels in LABELS
    }
    rows = [row(labels, way, one) for labels, result in results.items() for one in result.rows]
    return [*rows, beyond(benchmark, way, results["true"], results["shuffled"])]


def row(labels: str, way: str, measure: Row) -> Row:
    """A measure's mean with its interval, and its chance level if it has one."""
    chance = None if isnan(measure["chance"]) else measure["chance"]
    kept = {name: measure[name] for name in ("measure", "n", "value", "low", "high")}
    return {"labels": labels, "protocol": way, **kept, "chance": chance}


def of_values(labels: str, way: str, measure: str, values: Sequence[float], chance: float | None = None) -> Row:
    """The mean of values, 0–1, with its interval; `chance` is its expected value if that is known."""
    return {"labels": labels, "protocol": way, "chance": chance, **measured(measure, values)}


def beyond(benchmark: Benchmark, way: str, true: Result, shuffled: Result) -> Row:
    """The row that compares the two conditions on the same exercises."""
    first = benchmark.MEASURES[0]
    pairs = list(zip(scores(true, first), scores(shuffled, first), strict=True))
    more, less = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    return {
        "labels": BEYOND,
        "protocol": way,
        "measure": "choice" if way == "log_likelihood" else first,
        "n": len(pairs),
        "value": sum(a - b for a, b in pairs) / len(pairs),
        "low": sign_test(more, more + less),
        "high": sign_test(less, more + less),
        "chance": 0.0,
    }


def scores(result: Result, measure: str) -> list[float]:
    """The measure of each exercise; for a choice, 1 if it was right."""
    return [one.mark.measures[measure] if isinstance(one, Marked) else float(one.correct) for one in result.judged]
