"""A model on the questions of a formulation: asked, kept, judged, counted (Musat, ICLR 2025, section 4 and appendix A).

    from hopscope.language.evaluation import Evaluation, evaluate

    result = evaluate(backend, Equations(n_hops=2), Code(), LogLikelihood(), Evaluation(count=120))
    result.row["accuracy"], result.row["low"], result.row["high"]

Every answer is kept with all that it depends on (`hopscope.language.records`); asked again, the same evaluation asks
only what is missing. What could not be asked is never counted as wrong.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan, nan
from pathlib import Path
from typing import Any

from hopscope.formulations.base import Formulation, Question
from hopscope.formulations.base_draw import VERSION
from hopscope.intervals import wilson
from hopscope.language.backends.base import Backend
from hopscope.language.layouts.base import Layout, Rendered
from hopscope.language.protocols.base import Judged, Protocol
from hopscope.language.records import Records, key_of
from hopscope.settings import BadInput, Settings, setting
from hopscope.storage import write_file

TABLE = "table.csv"
KEPT = 4096  # questions that are kept in memory
Watch = Callable[[int, int], None]


@dataclass(frozen=True)
class Evaluation(Settings):
    """Which questions are asked."""

    count: int = setting(120, "questions, numbers 0 to count − 1 under the seed (paper: 500)", low=1)
    seed: int = setting(0, "of the questions, and of sampling", low=0)


@dataclass(frozen=True)
class Result:
    """A finished evaluation.

    Attributes:
        row: as in table.csv (`COLUMNS`).
        judged: every question.
    """

    row: dict[str, Any]
    judged: tuple[Judged, ...]


#: Of table.csv. `n` questions were answered acceptably (strict and lenient: asked), `correct` of them rightly;
#: `accuracy` is their ratio, `low` and `high` its 95 % interval (Wilson); `valid` the share of attempts that were of
#: the right form; `tries` attempts per answered question; `run_outs` questions that ran out of tries; `mass` the mean
#: probability of all acceptable answers together; `prior_corrected` an accuracy; `labels` how often each was given;
#: `partial` whether questions are missing because the model could not be reached, `left` how many.
COLUMNS = (
    *("model", "formulation", "hops", "chains", "layout", "protocol", "n", "correct", "accuracy", "low", "high"),
    *("chance", "valid", "tries", "run_outs", "mass", "prior_corrected", "labels", "seed", "partial", "left"),
    *("settings", "identity"),
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
    records: Records | None = None,
) -> Result:
    """Ask every question until it needs no more answers, and judge it.

    Args:
        backend: the model.
        formulation: of the questions.
        layout: how they are put.
        protocol: how they are scored.
        settings: how many, and which.
        folder: where attempts are kept; None: nowhere.
        watch: told how many questions are done, of how many.
        records: an open folder's, instead of `folder`.

    Raises:
        BadInput: the backend cannot do what is asked.
        Unreachable: the model did not answer; all answers until then are kept, and `tally` counts them.
    """
    cell = Cell(backend, formulation, layout, protocol, settings or Evaluation())
    if records is not None:
        return cell.run(records, watch)
    with Records.opened(folder) as opened:
        return cell.run(opened, watch)


class Cell:
    """One row of the table in the making: what is asked of whom, and what is known already."""

    def __init__(
        self, backend: Backend, formulation: Formulation, layout: Layout, protocol: Protocol, settings: Evaluation
    ):
        self.backend, self.formulation, self.layout = backend, formulation, layout
        self.protocol, self.settings = protocol, settings
        self.made = lru_cache(maxsize=KEPT)(self.make)
        if self.made(0)[1].chat and not backend.has_chat_template:
            raise BadInput(f"{backend.model} has no chat template; use --layout raw, code or few_shot")
        self.identity = dict(backend.identity)
        self.blanks: dict[Rendered, list[float]] = {}

    def make(self, index: int) -> tuple[Question, Rendered]:
        """A question, and what the model is given; made anew when wanted, for a hundred thousand take gigabytes."""
        question = self.formulation.question(self.settings.seed, index)
        return question, self.layout.render(self.formulation, question)

    def about(self, number: int, attempt: int) -> dict[str, Any]:
        """All that one answer depends on."""
        question, rendered = self.made(number)
        return {
            "model": self.backend.model,
            "backend": self.identity,
            "formulation": self.formulation.name(),
            **self.formulation.as_dict(),
            "generator": VERSION,
            "layout": {"name": self.layout.name(), **self.layout.as_dict()},
            "request": self.protocol.request(),
            "seed": question.seed,
            "index": question.index,
            "attempt": attempt,
            "sampling_seed": None if self.protocol.scores else self.protocol.sampling(question, attempt).seed,
            "text_sha256": hashlib.sha256(rendered.text.encode()).hexdigest()[:16],
            "choices": list(rendered.choices) if self.protocol.scores else None,
        }

    def known(self, number: int, records: Records) -> list[dict[str, Any]]:
        """The answers to a question that are needed and were given, in the order of attempts."""
        answers: list[dict[str, Any]] = []
        while self.wants_more(number, answers):
            said = records.said.get(key_of(self.about(number, len(answers))))
            if said is None:
                break
            answers.append(said)
        return answers

    def wants_more(self, number: int, answers: Sequence[Mapping[str, Any]]) -> bool:
        return self.protocol.wants_more(self.made(number)[0], answers)

    def run(self, records: Records, watch: Watch) -> Result:
        """Ask whatever is missing, batch by batch, then judge."""
        answers = [self.known(number, records) for number in range(self.settings.count)]
        wanting = [number for number, given in enumerate(answers) if self.wants_more(number, given)]
        while wanting:
            watch(len(answers) - len(wanting), len(answers))
            batch, wanting = wanting[: self.backend.batch], wanting[self.backend.batch :]
            attempts = [len(answers[number]) for number in batch]
            said = self.ask(batch, attempts)
            asked = list(zip(batch, attempts, said, strict=True))
            records.add(self.record(number, attempt, one) for number, attempt, one in asked)
            for number, _, one in asked:
                answers[number].append(one)
            wanting += [number for number in batch if self.wants_more(number, answers[number])]
        watch(len(answers), len(answers))
        return self.judged(answers)

    def ask(self, batch: Sequence[int], attempts: Sequence[int]) -> list[dict[str, Any]]:
        """One request for each question of a batch."""
        questions, requests = [list(part) for part in zip(*map(self.made, batch), strict=True)]
        if not self.protocol.scores:
            sampling = [self.protocol.sampling(q, attempt) for q, attempt in zip(questions, attempts, strict=True)]
            return [{"text": text} for text in self.backend.generate(requests, sampling)]
        blanks = [self.layout.blank(self.formulation, question) for question in questions]
        unknown = list(dict.fromkeys(blank for blank in blanks if blank not in self.blanks))
        scores = self.backend.log_likelihoods([*requests, *unknown])
        self.blanks.update(zip(unknown, scores[len(requests) :], strict=True))
        return [
            {"scores": found, "blank": self.blanks[blank]}
            for found, blank in zip(scores[: len(requests)], blanks, strict=True)
        ]

    def record(self, number: int, attempt: int, said: Mapping[str, Any]) -> dict[str, Any]:
        """An attempt as a line of records.jsonl."""
        about, question = self.about(number, attempt), self.made(number)[0]
        right = {"answer": question.answer, "acceptable": list(question.acceptable)}
        return {"key": key_of(about), **about, **right, "said": dict(said)}

    def judged(self, answers: Sequence[Sequence[Mapping[str, Any]]]) -> Result:
        """Questions that need no more answers, judged and counted; the others are what is left."""
        whole, right = [], {}
        for number, given in enumerate(answers):
            question = self.made(number)[0]
            if not self.protocol.wants_more(question, given):
                whole.append(self.protocol.judge(question, given))
                right[number] = question.answer
        return Result(self.count(whole, right), tuple(whole))

    def count(self, judged: Sequence[Judged], right: Mapping[int, str]) -> dict[str, Any]:
        """The row."""
        answered = [one for one in judged if not one.run_out]
        correct, n = sum(one.correct for one in answered), len(answered)
        low, high = wilson(correct, n)
        tries, left = sum(one.tries for one in judged), self.settings.count - len(judged)
        fair = [one.corrected == right[one.index] for one in answered if one.corrected is not None]
        labels = Counter("none" if one.label is None else one.label for one in answered)
        return {
            "model": self.backend.model,
            "formulation": self.formulation.name(),
            "hops": self.formulation.n_hops,
            "chains": self.formulation.n_chains,
            "layout": self.layout.name(),
            "protocol": self.protocol.name(),
            "n": n,
            "correct": correct,
            "accuracy": correct / n if n else nan,
            "low": low,
            "high": high,
            "chance": self.formulation.chance,
            "valid": sum(one.accepted for one in judged) / tries if tries else nan,
            "tries": tries / n if n else nan,
            "run_outs": len(judged) - n,
            "mass": mean([one.mass for one in answered if not isnan(one.mass)]),
            "prior_corrected": mean(fair),
            "labels": json.dumps(dict(sorted(labels.items()))),
            "seed": self.settings.seed,
            "partial": left > 0,
            "left": left,
            "settings": json.dumps(
                {"formulation": self.formulation.as_dict(), "layout": self.layout.as_dict()}
                | {"protocol": self.protocol.as_dict(), **self.settings.as_dict()}
            ),
            "identity": json.dumps(self.identity),
        }


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else nan


def tally(
    backend: Backend,
    formulation: Formulation,
    layout: Layout,
    protocol: Protocol,
    settings: Evaluation,
    records: Records,
) -> Result:
    """What is known of an evaluation, without asking anything: for one that was cut short."""
    cell = Cell(backend, formulation, layout, protocol, settings)
    return cell.judged([cell.known(number, records) for number in range(settings.count)])


# The table -------------------------------------------------------------------------------------------------------

#: What makes two rows of a table rows about the same.
SAME = ("model", "formulation", "layout", "protocol", "settings", "identity")


def read_table(folder: Path) -> list[dict[str, str]]:
    """The rows of a folder's table.csv as text; [] if there is none."""
    path = folder / TABLE
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_table(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Put rows into a folder's table.csv; each replaces one about the same. Raises CannotSave."""
    kept = {tuple(str(row[name]) for name in SAME): row for row in [*read_table(folder), *map(in_csv, rows)]}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept.values())
    write_file(folder / TABLE, text.getvalue().encode())
    return folder / TABLE


def in_csv(row: Mapping[str, Any]) -> dict[str, str]:
    """A row as text: six digits, nothing for what is not known."""
    return {
        name: ("" if isnan(value) else f"{value:.6g}") if isinstance(value, float) else str(value)
        for name, value in row.items()
    }
