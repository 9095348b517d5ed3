"""A model on a benchmark's exercises: asked, kept, marked, counted.

    from hopscope.language.benchmarking import ask_benchmark

    result = ask_benchmark(backend, InductionBench(k=2, n_letters=2, n_rules=1), Chat(), "greedy_strict")
    {row["measure"]: (row["value"], row["low"], row["high"]) for row in result.rows}

Answers are kept and asked for as those to questions are (`hopscope.language.evaluation`). Every mean has its interval,
and beside it what guessing would score. The format rate is a measure of its own, `valid`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

from hopscope.core.intervals import wilson_of_mean
from hopscope.core.settings import BadInput
from hopscope.formulations.base import Question
from hopscope.language.backends.base import Backend
from hopscope.language.benchmarks.base import Benchmark, Exercise, Mark
from hopscope.language.evaluation import Cell, Evaluation, Watch, in_csv, mean, put_rows
from hopscope.language.layouts.base import Layout
from hopscope.language.protocols.base import Answer, Judged, Protocol
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.protocols.log_likelihood import LogLikelihood
from hopscope.language.records import Records

TABLE = "benchmarks.csv"
#: How a benchmark may be asked; the first is taken where nothing is said.
PROTOCOLS = ("greedy_strict", "greedy_lenient", "log_likelihood")
#: Of benchmarks.csv: a row per measure. `value` is its mean over n exercises, `low` and `high` its 95 % interval,
#: `chance` what guessing scores; `valid` is the share of answers of the right form, `choice` that of right choices.
COLUMNS = (
    *("model", "benchmark", "layout", "protocol", "measure", "n", "value", "low", "high", "chance"),
    *("seed", "partial", "left", "settings", "identity"),
)
SAME = ("model", "benchmark", "layout", "protocol", "measure", "settings", "identity")


@dataclass(frozen=True)
class Marked(Judged):
    """One exercise, judged by its mark."""

    mark: Mark = field(kw_only=True)


@dataclass(frozen=True)
class Marking(GreedyStrict):
    """The likeliest text, marked by its benchmark; strictly, or by whatever it holds of the right form."""

    lenient: bool = False

    def judge(self, question: Question, answers: Sequence[Answer]) -> Marked:
        assert isinstance(question, Exercise)
        text = str(answers[0]["text"])
        mark = question.mark(text, self.lenient)
        right = all(value == 1 for value in mark.measures.values())
        return Marked(question.index, text if mark.valid else None, right, 1, int(mark.valid), mark=mark)


def marking(protocol: str, benchmark: Benchmark, max_tokens: int | None = None) -> Protocol:
    """How a benchmark's answers are asked for and judged. Raises BadInput for a protocol that it cannot have."""
    if protocol not in PROTOCOLS:
        raise BadInput(f"a benchmark is asked by {', '.join(PROTOCOLS)}; got {protocol!r}")
    if protocol == "log_likelihood":
        return LogLikelihood()
    return Marking(max_tokens or benchmark.MAX_TOKENS, protocol == "greedy_lenient")


@dataclass(frozen=True)
class Outcome:
    """A finished benchmark.

    Attributes:
        rows: as in benchmarks.csv (`COLUMNS`), one per measure.
        judged: every exercise.
    """

    rows: list[dict[str, Any]]
    judged: tuple[Judged, ...]


def ask_benchmark(
    backend: Backend,
    benchmark: Benchmark,
    layout: Layout,
    protocol: str = PROTOCOLS[0],
    settings: Evaluation | None = None,
    folder: Path | None = None,
    *,
    max_tokens: int | None = None,
    watch: Watch = lambda done, of: None,
    records: Records | None = None,
) -> Outcome:
    """Ask every exercise once, and mark it.

    Args:
        backend: the model.
        benchmark: of the exercises.
        layout: how they are put.
        protocol: one of `PROTOCOLS`.
        settings: how many, and which.
        folder: where answers are kept; None: nowhere.
        max_tokens: after how many tokens an answer is cut off; None: the benchmark's.
        watch: told how many exercises are done, of how many.
        records: an open folder's, instead of `folder`.

    Raises:
        BadInput: the backend cannot do what is asked.
        Unreachable: the model did not answer; all answers until then are kept.
    """
    cell = Cell(backend, benchmark, layout, marking(protocol, benchmark, max_tokens), settings or Evaluation())
    if records is not None:
        return asked(cell, records, watch, protocol)
    with Records.opened(folder) as opened:
        return asked(cell, opened, watch, protocol)


def asked(cell: Cell, records: Records, watch: Watch, protocol: str) -> Outcome:
    """All of a cell's exercises, answered."""
    return counted(cell, cell.complete(records, watch), protocol)


def told(cell: Cell, records: Records, protocol: str) -> Outcome:
    """What is known without asking anything: for a benchmark that was cut short."""
    cell.look_up(records)
    return counted(cell, cell.finished, protocol)


def counted(cell: Cell, judged: tuple[Judged, ...], protocol: str) -> Outcome:
    """Every measure's mean, with its interval and its chance level."""
    benchmark, left = cell.formulation, cell.settings.count - len(judged)
    assert isinstance(benchmark, Benchmark)
    settings = {"benchmark": benchmark.as_dict(), "layout": cell.layout.as_dict(), "protocol": cell.protocol.as_dict()}
    about = {"model": cell.backend.model, "benchmark": benchmark.name(), "layout": cell.layout.name()}
    more = {
        "seed": cell.settings.seed,
        "partial": left > 0,
        "left": left,
        "settings": json.dumps(settings | cell.settings.as_dict()),
        "identity": json.dumps(cell.identity),
    }
    rows = [
        {**about, "protocol": protocol, **measured(name, values), "chance": floor, **more}
        for name, values, floor in measures(benchmark, cell, judged)
    ]
    return Outcome(rows, judged)


def measures(
    benchmark: Benchmark, cell: Cell, judged: Sequence[Judged]
) -> Iterable[tuple[str, Sequence[float], float]]:
    """Each measure's name, its values, and what guessing scores on average."""
    marks = [one.mark for one in judged if isinstance(one, Marked)]
    if not isinstance(cell.protocol, Marking):
        corrected = [float(one.corrected == cell.right[one.index]) for one in judged]
        yield "choice", [float(one.correct) for one in judged], benchmark.chance
        yield "prior_corrected_choice", corrected, benchmark.chance
        return
    for name in benchmark.MEASURES:
        yield name, [mark.measures[name] for mark in marks], benchmark.floors[name]
    yield "valid", [float(mark.valid) for mark in marks], nan


def measured(name: str, values: Sequence[float]) -> dict[str, Any]:
    """A measure's mean, with its interval."""
    low, high = wilson_of_mean(values)
    return {"measure": name, "n": len(values), "value": mean(values), "low": low, "high": high}


def write_rows(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Put rows into a folder's benchmarks.csv; each replaces one about the same. Raises CannotSave."""
    return put_rows(folder / TABLE, map(in_csv, rows), COLUMNS, SAME)
