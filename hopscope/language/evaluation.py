"""Evaluate a model on the questions of a formulation (Musat, ICLR 2025, section 4 and appendix A).

    from hopscope.language.evaluation import Evaluation, evaluate

    result = evaluate(backend, Equations(n_hops=2), Code(), LogLikelihood(), Evaluation(count=120))
    result.row["accuracy"], result.row["low"], result.row["high"]

Every answer is kept together with everything that it depends on (`hopscope.language.records`). A repeated evaluation
asks only what is missing. Questions that could not be asked are never counted as wrong.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isnan, nan
from pathlib import Path
from typing import Any

from hopscope.core.intervals import wilson
from hopscope.core.settings import BadInput, Settings, setting
from hopscope.core.storage import read_listed, write_listed
from hopscope.formulations.base import Formulation, Question, Questions
from hopscope.formulations.base_draw import VERSION
from hopscope.language.agreement import checked
from hopscope.language.backends.base import Backend
from hopscope.language.layouts.base import Layout, Rendered
from hopscope.language.protocols.base import Judged, Protocol
from hopscope.language.protocols.log_likelihood import flaw_of
from hopscope.language.records import Records, hash_of, key_of
from hopscope.language.turns import Habits

TABLE = "table.csv"
KEPT = 4096  # questions that are kept in memory
Watch = Callable[[int, int], None]
Waiting = tuple[int, list[dict[str, Any]]]  # the number of an unfinished question, and its answers so far


@dataclass(frozen=True)
class Evaluation(Settings):
    """The questions of an evaluation: number and seed."""

    count: int = setting(120, "questions, numbers 0 to count − 1 under the seed (paper: 500)", low=1)
    seed: int = setting(0, "seed of the questions and of sampling", low=0)


@dataclass(frozen=True)
class Result:
    """A finished evaluation.

    Attributes:
        rows: of the table: one row, or for a benchmark one per measure.
        judged: every question, judged.
    """

    rows: list[dict[str, Any]]
    judged: tuple[Judged, ...]

    @property
    def row(self) -> dict[str, Any]:
        """The only row, as in table.csv (`COLUMNS`)."""
        [row] = self.rows
        return row


#: Columns of table.csv.
#: `n`: questions with an acceptable answer (strict and lenient: questions asked); `correct`: right answers among them;
#: `accuracy`: their ratio, with its 95 % Wilson interval `low` to `high`;
#: `valid`: share of attempts with an acceptable answer; `tries`: attempts per answered question;
#: `run_outs`: questions that ran out of tries; `mass`: mean total probability of the acceptable answers;
#: `prior_corrected`: accuracy after correction by the prior; `labels`: how often each answer was given;
#: `partial`: whether questions are missing because the model could not be reached; `left`: how many;
#: `finish_reasons`: how often texts ended by each reason; `thoughts`: texts with reasoning; `cut_off`: texts that were
#: cut off; `left_out`: request fields that the server refused.
COLUMNS = (
    *("model", "formulation", "hops", "chains", "layout", "protocol", "n", "correct", "accuracy", "low", "high"),
    *("chance", "valid", "tries", "run_outs", "mass", "prior_corrected", "labels", "seed", "partial", "left"),
    *("finish_reasons", "thoughts", "cut_off", "left_out", "settings", "identity"),
)


def evaluate(
    backend: Backend,
    formulation: Formulation,
    layout: Layout,
    protocol: Protocol,
    settings: Evaluation | None = None,
    folder: Path | None = None,
    *,
    watch: Watch = lambda done, of: None,
) -> Result:
    """Ask every question until it needs no more answers, and judge it.

    Args:
        backend: the model.
        formulation: the wording of the questions.
        layout: how they are presented.
        protocol: how they are scored.
        settings: number of questions, and seed.
        folder: where answers are kept; None: in memory only.
        watch: called with the number of finished questions and the total.

    Raises:
        BadInput: the backend cannot do what is asked.
        Unreachable: the model did not answer; all earlier answers are kept, and `Cell.told` counts them.
    """
    cell = Cell(backend, formulation, layout, protocol, settings or Evaluation())
    with Records.opened(folder) as records:
        return cell.run(records, watch)


class Cell:
    """One cell of an evaluation: model, questions, layout and protocol, and the answers so far.

    The exercises of a benchmark are asked in the same way; only `rows` requires a formulation.
    """

    def __init__(
        self, backend: Backend, formulation: Questions, layout: Layout, protocol: Protocol, settings: Evaluation
    ):
        self.backend, self.formulation, self.layout = backend, formulation, layout
        self.protocol, self.rule, self.put = protocol, protocol.rule, protocol.put(formulation)
        self.settings = settings
        backend.learn(self.put, layout, settings.seed, range(settings.count))
        self.made = lru_cache(maxsize=KEPT)(self.make)
        is_chat = self.made(0)[1].chat
        if is_chat and not backend.has_chat_template:
            raise BadInput(f"{backend.model} has no chat template; use --layout raw, code or few_shot")
        if not (is_chat or protocol.direct):
            raise BadInput(f"{protocol.name()} needs a reply with room for thoughts; use --layout chat")
        self.blanks: dict[Rendered, list[float]] = {}
        self.done: dict[int, Judged] = {}
        self.right: dict[int, str] = {}  # the right answers of finished questions
        self.habits = Habits()

    def make(self, index: int) -> tuple[Question, Rendered, Rendered | None]:
        """A question, its prompt, and the prompt without statements if the protocol scores answers.

        Questions are made when needed, because a hundred thousand take gigabytes.
        """
        question = self.put.question(self.settings.seed, index)
        blank = self.layout.render(self.put, question.without_facts()) if self.rule.scores else None
        return question, self.layout.render(self.put, question), blank

    @cached_property
    def identity(self) -> dict[str, str | int]:
        """The model's identity; part of it is requested from a server."""
        return dict(self.backend.identity)

    def about(self, number: int, attempt: int) -> dict[str, Any]:
        """Everything that one answer depends on."""
        question, rendered, blank = self.made(number)
        return {
            "model": self.backend.model,
            "backend": self.identity,
            "formulation": self.formulation.name(),
            **self.formulation.as_dict(),
            "generator": VERSION,
            "layout": {"name": self.layout.name(), **self.layout.as_dict()},
            "request": self.rule.request(),
            "seed": question.seed,
            "index": question.index,
            "attempt": attempt,
            "sampling_seed": None if self.rule.scores else self.rule.sampling(question, attempt).seed,
            "text_sha256": hash_of(rendered, blank),
            "choices": list(rendered.choices) if self.rule.scores else None,
        }

    def run(self, records: Records, watch: Watch) -> Result:
        """Ask what is missing, and return the result."""
        self.complete(records, watch)
        self.check()
        return self.result()

    def told(self, records: Records) -> Result:
        """The result of the answers that are kept, without asking anything, for an interrupted evaluation."""
        self.look_up(records)
        return self.result()

    def check_lengths(self) -> None:
        """Raise BadInput if a question is longer than the model's context, before any is asked."""
        if self.backend.context is None:
            return
        for number in range(self.settings.count):
            question, rendered, _ = self.made(number)
            text = None if self.rule.scores else self.rule.sampling(question, 0).max_tokens
            self.backend.check_length(rendered, text)

    def check(self) -> None:
        """Warn if answers were cut off or are not acceptable. Raises BadInput if all were cut off."""
        if not self.rule.scores:
            accepted = sum(one.accepted for one in self.done.values())
            self.habits.check(self.backend.model, accepted, self.rule.lenient)

    def complete(self, records: Records, watch: Watch) -> None:
        """Ask what is missing, batch by batch."""
        self.check_lengths()
        waiting = self.look_up(records)
        while waiting:
            watch(len(self.done), self.settings.count)
            batch, waiting = waiting[: self.backend.batch], waiting[self.backend.batch :]
            attempts = [(number, len(answers)) for number, answers in batch]
            said = self.ask(attempts)
            records.add(self.record(*attempt, one) for attempt, one in zip(attempts, said, strict=True))
            more = ((number, [*answers, one]) for (number, answers), one in zip(batch, said, strict=True))
            waiting += self.unsettled(more)
        watch(self.settings.count, self.settings.count)

    def look_up(self, records: Records) -> list[Waiting]:
        """Judge the questions with enough answers in the records; return the others."""
        return self.unsettled((number, self.known(number, records)) for number in range(self.settings.count))

    def known(self, number: int, records: Records) -> list[dict[str, Any]]:
        """The recorded answers to a question, in the order of attempts, as far as they are needed."""
        answers: list[dict[str, Any]] = []
        while self.rule.wants_more(self.made(number)[0], answers):
            said = records.said.get(key_of(self.about(number, len(answers))))
            if said is None or flaw_of(said.get("scores", ())):  # earlier versions kept scores unchecked
                break
            answers.append(said)
        return answers

    def unsettled(self, given: Iterable[Waiting]) -> list[Waiting]:
        """Judge the questions that need no more answers; return the others."""
        waiting = []
        for number, answers in given:
            question = self.made(number)[0]
            if self.rule.wants_more(question, answers):
                waiting.append((number, answers))
            else:
                self.done[number], self.right[number] = self.rule.judge(question, answers), question.answer
                self.habits.note(answers)
        return waiting

    def ask(self, attempts: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
        """One request for each attempt: the number of a question, and how often it was asked before."""
        made = [self.made(number) for number, _ in attempts]
        requests = [rendered for _, rendered, _ in made]
        if not self.rule.scores:
            sampling = [self.rule.sampling(self.made(number)[0], attempt) for number, attempt in attempts]
            return [text.said for text in self.backend.generate(requests, sampling)]
        blanks = [blank for _, _, blank in made if blank is not None]
        unknown = list(dict.fromkeys(blank for blank in blanks if blank not in self.blanks))
        scores = self.backend.log_likelihoods([*requests, *unknown])
        self.blanks.update(zip(unknown, scores[len(requests) :], strict=True))
        return [
            {"scores": given, "blank": self.blanks[blank]} | checked(self.backend, request, given, number)
            for (number, _), request, given, blank in zip(attempts, requests, scores, blanks, strict=False)
        ]

    def record(self, number: int, attempt: int, said: Mapping[str, Any]) -> dict[str, Any]:
        """An attempt as a line of records.jsonl."""
        about, question = self.about(number, attempt), self.made(number)[0]
        right = {"answer": question.answer, "acceptable": list(question.acceptable)}
        return {"key": key_of(about), **about, **right, "said": dict(said)}

    def result(self) -> Result:
        """The result of the finished questions; the others count as left."""
        return Result(list(self.rows()), self.finished)

    @property
    def finished(self) -> tuple[Judged, ...]:
        """The judged questions, in order."""
        return tuple(self.done[number] for number in sorted(self.done))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The row of table.csv."""
        assert isinstance(self.formulation, Formulation)
        judged = self.finished
        answered = [one for one in judged if not one.run_out]
        correct, tries = sum(one.correct for one in answered), sum(one.tries for one in judged)
        fair = [one.corrected == self.right[one.index] for one in answered if one.corrected is not None]
        labels = Counter("none" if one.label is None else one.label for one in answered)
        yield {
            "model": self.backend.model,
            "formulation": self.formulation.name(),
            "hops": self.formulation.n_hops,
            "chains": self.formulation.n_chains,
            "layout": self.layout.name(),
            "protocol": self.protocol.title,
            "n": len(answered),
            "correct": correct,
            **shares(len(judged), len(answered), correct, tries, sum(one.accepted for one in judged)),
            "chance": self.formulation.chance,
            "mass": mean([one.mass for one in answered if not isnan(one.mass)]),
            "prior_corrected": mean(fair),
            "labels": json.dumps(dict(sorted(labels.items()))),
            **self.circumstances("formulation"),
        }

    def circumstances(self, kind: str) -> dict[str, Any]:
        """Columns that all tables share; `kind` is the key of the questions' settings, such as `formulation`."""
        left = self.settings.count - len(self.done)
        settings = {kind: self.formulation.as_dict(), "layout": self.layout.as_dict()}
        return {
            "seed": self.settings.seed,
            "partial": left > 0,
            "left": left,
            **self.habits.row,
            "settings": json.dumps(settings | {"protocol": self.protocol.as_dict(), **self.settings.as_dict()}),
            "identity": json.dumps(self.identity),
        }


def shares(asked: int, n: int, correct: int, tries: int, accepted: int) -> dict[str, float]:
    """The numbers of a table's row that follow from counts: of questions asked and answered, and of tries."""
    low, high = wilson(correct, n)
    of_tries = {"valid": accepted / tries if tries else nan, "tries": tries / n if n else nan}
    return {"accuracy": correct / n if n else nan, "low": low, "high": high, **of_tries, "run_outs": asked - n}


def mean(values: Sequence[float]) -> float:
    """The mean of values; NaN if there are none."""
    return sum(values) / len(values) if values else nan


# The table -------------------------------------------------------------------------------------------------------

#: Two rows of a table are about the same cell if they agree in these columns.
SAME = ("model", "formulation", "layout", "protocol", "settings", "identity")


def write_table(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows into a folder's table.csv; each replaces an older row of the same cell. Raises CannotSave."""
    return put_rows(folder / TABLE, map(in_csv, rows), COLUMNS, SAME)


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table as text; [] if there is none. Raises Damaged if it does not match the folder's manifest."""
    if not path.is_file():
        return []
    text = read_listed(path.parent, path.name).decode("utf-8", "replace")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def put_rows(path: Path, rows: Iterable[Mapping[str, str]], columns: Sequence[str], same: Sequence[str]) -> Path:
    """Write rows into a table; each replaces one that agrees in the columns `same`.

    Raises:
        BadInput: the file is another kind of table.
        CannotSave: it cannot be written.
    """
    there = read_rows(path)
    if any(not set(same) <= row.keys() for row in there):
        raise BadInput(f"{path} is a table of something else, and stays as it is; choose another --out")
    kept = {tuple(row[name] for name in same): row for row in [*there, *rows]}
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")  # columns may have been added since
    writer.writeheader()
    writer.writerows(kept.values())
    write_listed(path.parent, {path.name: text.getvalue().encode()})
    return path


def in_csv(row: Mapping[str, Any]) -> dict[str, str]:
    """A row as text: numbers with six digits, and an empty text for NaN."""
    return {
        name: ("" if isnan(value) else f"{value:.6g}") if isinstance(value, float) else str(value)
        for name, value in row.items()
    }


def none_for_nan(value: Any) -> Any:
    """A value of a row for JSON, which has no NaN."""
    return None if isinstance(value, float) and isnan(value) else value
