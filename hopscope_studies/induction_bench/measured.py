"""The study's work: models are asked for the rules of functions, and the exact learner gets the same examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.reports import Report
from hopscope.experiments.work import Work
from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.base_local_functions import applied, as_text, drawn, learned, strings
from hopscope.language.benchmarks.induction_bench import InductionBench
from hopscope.language.controlled import Row, controlled, of_values
from hopscope.language.evaluation import Evaluation
from hopscope.language.layouts.base import Layout
from hopscope.language.layouts.few_shot import FewShot
from hopscope.language.opening import open_backend

REPORT = "induction.json"
SHOTS = 2


@dataclass(frozen=True)
class Asked(Work):
    """A model asked for the rules, after the examples as they are and after shuffled ones."""

    label, file = "rules-asked", REPORT

    model: str = setting("smollm2", "which")
    layout: str = setting("chat", "how an exercise is put")
    k: int = setting(2, "letters that a rule looks at, at most")
    n_letters: int = setting(3, "letters of the alphabet")
    n_rules: int = setting(2, "rules of a function")
    count: int = setting(30, "functions")
    seed: int = setting(0, "of the functions")
    choose: bool = setting(True, "whether it is also to choose among rules")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        backend, settings = open_backend(self.model, threads=1), Evaluation(self.count, self.seed)
        benchmark = InductionBench(self.k, self.n_letters, self.n_rules)
        ways = ("greedy_strict", "greedy_lenient", *(["log_likelihood"] if self.choose else []))
        rows = [row for way in ways for row in controlled(backend, benchmark, self.shown(), way, settings, folder)]
        write_json(folder / REPORT, {"rows": rows})

    def about(self) -> dict[str, Any]:
        part = "scripted" if self.model in ("known:oracle", "known:uniform") else "language"
        size = f"({self.k}, {self.n_letters}, {self.n_rules})"
        return {"seed": self.seed, "part": part, "model": self.model, "size": size, "layout": self.layout}

    def shown(self) -> Layout:
        """The layout; `few_shot` puts two solved exercises before each."""
        return FewShot(SHOTS) if self.layout == "few_shot" else catalogue.find("language.layouts", self.layout)()


@dataclass(frozen=True)
class Learned(Report):
    """The exact learner, on all examples and on half of them."""

    label, file = "rules-learned", REPORT

    k: int = setting(2, "letters that a rule looks at, at most")
    n_letters: int = setting(5, "letters of the alphabet")
    n_rules: int = setting(3, "rules of a function")
    count: int = setting(60, "functions")
    seed: int = setting(0, "of the functions")

    def about(self) -> dict[str, Any]:
        size = f"({self.k}, {self.n_letters}, {self.n_rules})"
        return {"seed": self.seed, "part": "learner", "model": "exact learner", "size": size, "layout": ""}

    def report(self) -> dict[str, Any]:
        found = [self.function(index) for index in range(self.count)]
        halves = ((False, "true"), (True, "half"))
        return {"rows": [row for half, labels in halves for row in self.scored(found, labels, half)]}

    @property
    def benchmark(self) -> InductionBench:
        """Which functions."""
        return InductionBench(self.k, self.n_letters, self.n_rules)

    def function(self, index: int) -> dict[str, str]:
        """A function's rules."""
        draw = Draw("learned", self.benchmark.as_dict(), self.seed, index)
        return drawn(draw, self.benchmark.letters, self.k, self.n_rules)

    def scored(self, functions: Sequence[dict[str, str]], labels: str, half: bool) -> Iterator[Row]:
        """The learner's measures as the benchmark marks them, and its accuracy on strings that it was never shown."""
        stated = [learned(self.examples(rules, index, half), self.k) for index, rules in enumerate(functions)]
        marks = [
            self.benchmark.exercise(0, 0, (), "", "", (as_text(rules), ())).mark(as_text(found)).measures
            for rules, found in zip(functions, stated, strict=True)
        ]
        for name in InductionBench.MEASURES:
            yield self.row(labels, name, [mark[name] for mark in marks])
        pairs = list(zip(functions, stated, strict=True))
        right = [float(applied(a, s) == applied(b, s)) for a, b in pairs for s in self.unseen()]
        yield self.row(labels, "unseen strings", right)

    def examples(self, rules: dict[str, str], index: int, half: bool) -> dict[str, str]:
        """All strings of up to k letters with their outputs, or each with probability one half."""
        given = strings(self.benchmark.letters, self.k)
        draw = Draw("half", self.benchmark.as_dict(), self.seed, index)
        return {string: applied(rules, string) for string in given if not half or draw.below(2)}

    def unseen(self) -> list[str]:
        """Ten strings of twelve letters."""
        draw = Draw("unseen", self.benchmark.as_dict(), self.seed, 0)
        letters = self.benchmark.letters
        return ["".join(letters[draw.below(len(letters))] for _ in range(12)) for _ in range(10)]

    def row(self, labels: str, name: str, values: Sequence[float]) -> Row:
        """A mean, with its interval."""
        return of_values(labels, "learner", name, values, self.benchmark.floors().get(name))
