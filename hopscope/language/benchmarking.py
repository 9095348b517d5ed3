"""Evaluate a model on a benchmark: ask its exercises, keep and score the answers, summarise.

    from hopscope.language.benchmarking import ask_benchmark

    result = ask_benchmark(backend, InductionBench(k=2, n_letters=2, n_rules=1), Chat(), "greedy_strict")
    {row["measure"]: (row["value"], row["low"], row["high"]) for row in result.rows}

Asking and keeping answers works as for questions (`hopscope.language.evaluation`). Every mean comes with its interval
and the score of guessing. The share of answers in the right format is a separate measure, `valid`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

from hopscope.core.intervals import wilson_of_mean
from hopscope.core.settings import check_choice
from hopscope.formulations.base import Question
from hopscope.language.backends.base import Backend
from hopscope.language.benchmarks.base import Benchmark, Exercise, Mark
from hopscope.language.evaluation import Cell, Evaluation, Result, in_csv, mean, put_rows
from hopscope.language.layouts.base import Layout
from hopscope.language.protocols.base import Answer, Judged, Rule, text_in
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.protocols.log_likelihood import LogLikelihood
from hopscope.language.records import Records

TABLE = "benchmarks.csv"
#: The protocols of benchmarks; the first one is the default.
PROTOCOLS = ("greedy_strict", "greedy_lenient", "log_likelihood")
#: Columns of benchmarks.csv, which has a row per measure. `value` is its mean over n exercises, `low` and `high` the
#: 95 % interval, `chance` the score of guessing. The measure `valid` is the share of answers in the right format,
#: `choice` the share of right choices. `finish_reasons`, `thoughts`, `cut_off` and `left_out` are as in table.csv.
COLUMNS = (
    *("model", "benchmark", "layout", "protocol", "measure", "n", "value", "low", "high", "chance"),
    *("seed", "partial", "left", "finish_reasons", "thoughts", "cut_off", "left_out", "settings", "identity"),
)
SAME = ("model", "benchmark", "layout", "protocol", "measure", "settings", "identity")


@dataclass(frozen=True)
class Marked(Judged):
    """One judged exercise with its mark."""

    mark: Mark = field(kw_only=True)


@dataclass(frozen=True)
class Marking(GreedyStrict):
    """A greedy text, scored by its benchmark: the whole text, or with `lenient` the valid parts that it contains.

    A text that was cut off is malformed.
    """

    lenient: bool = False

    def judge(self, question: Question, answers: Sequence[Answer]) -> Marked:
        assert isinstance(question, Exercise)
        text = text_in(answers[0])
        mark = question.mark(text, self.lenient)
        right = all(value == 1 for value in mark.measures.values())
        return Marked(question.index, text if mark.valid else None, right, 1, int(mark.valid), mark=mark)


def marking(protocol: str, benchmark: Benchmark, max_tokens: int | None = None) -> Rule:
    """The rule by which a benchmark is asked and judged. Raises BadInput for another protocol than `PROTOCOLS`."""
    check_choice("the protocol of a benchmark", protocol, PROTOCOLS)
    if protocol == "log_likelihood":
        return LogLikelihood()
    return Marking(benchmark.MAX_TOKENS if max_tokens is None else max_tokens, protocol == "greedy_lenient")


def ask_benchmark(
    backend: Backend,
    benchmark: Benchmark,
    layout: Layout,
    protocol: str = PROTOCOLS[0],
    settings: Evaluation | None = None,
    folder: Path | None = None,
) -> Result:
    """Ask every exercise once, and score the answers.

    Args:
        backend: the model.
        benchmark: of the exercises.
        layout: how they are presented.
        protocol: one of `PROTOCOLS`.
        settings: number of exercises, and seed.
        folder: where answers are kept; None: in memory only.

    Raises:
        BadInput: the backend cannot do what is asked.
        Unreachable: the model did not answer; all earlier answers are kept.
    """
    cell = BenchmarkCell(backend, benchmark, layout, marking(protocol, benchmark), settings or Evaluation())
    with Records.opened(folder) as records:
        cell.complete(records, lambda done, of: None)
    return cell.result()


class BenchmarkCell(Cell):
    """The evaluation of a benchmark in one layout and protocol; `formulation` is the benchmark."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each measure: its mean, its interval and its chance level."""
        about = {"model": self.backend.model, "benchmark": self.formulation.name(), "layout": self.layout.name()}
        more = self.circumstances("benchmark")
        for name, values, chance in self.measures():
            yield {**about, "protocol": self.way, **measured(name, values), "chance": chance, **more}

    @property
    def way(self) -> str:
        """The protocol's name in `PROTOCOLS`."""
        if not isinstance(self.protocol, Marking):
            return self.protocol.name()
        return "greedy_lenient" if self.protocol.lenient else "greedy_strict"

    def measures(self) -> Iterator[tuple[str, Sequence[float], float]]:
        """Each measure's name, its values, and the mean score of guessing; NaN if guessing has none."""
        benchmark = self.formulation
        assert isinstance(benchmark, Benchmark)
        if not isinstance(self.protocol, Marking):
            corrected = [float(one.corrected == self.right[one.index]) for one in self.finished]
            yield "choice", [float(one.correct) for one in self.finished], benchmark.chance
            yield "prior_corrected_choice", corrected, benchmark.chance
            return
        marks = [one.mark for one in self.finished if isinstance(one, Marked)]
        exercises = (self.made(one.index)[0] for one in self.finished)
        floors = [benchmark.floors(one) for one in exercises if isinstance(one, Exercise)]
        for name in benchmark.MEASURES:
            yield name, [mark.measures[name] for mark in marks], mean([floor[name] for floor in floors])
        yield "valid", [float(mark.valid) for mark in marks], nan


def measured(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Columns of a measure: the mean of its values, 0–1, with a 95 % interval."""
    low, high = wilson_of_mean(values)
    return {"measure": name, "n": len(values), "value": mean(values), "low": low, "high": high}


def write_rows(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows into a folder's benchmarks.csv; each replaces an older row of the same cell. Raises CannotSave."""
    return put_rows(folder / TABLE, map(in_csv, rows), COLUMNS, SAME)
