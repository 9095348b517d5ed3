"""The study's work: models are asked for the rules of functions, and the exact learner gets the same examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.reports import Report
from hopscope.experiments.work import Work
from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks import base_local_functions
from hopscope.language.benchmarks.base_local_functions import Rules, as_text, drawn, strings
from hopscope.language.benchmarks.induction_bench import InductionBench
from hopscope.language.controlled import Row, controlled, of_values
from hopscope.language.evaluation import Evaluation
from hopscope.language.opening import open_backend
from hopscope_studies.induction_bench.language.benchmarks import base_output_local
from hopscope_studies.induction_bench.language.benchmarks.induction_bench_osl import InductionBenchOsl

REPORT = "induction.json"
SHOWN = {"few_shot": "few_shot(n_shots=2)"}  # layouts that are not as by default
#: What a size begins with in tables, by the side from which an output strictly local function is read; '' is ISL.
CLASSES = {"": "", "left": "L-OSL ", "right": "R-OSL "}


@dataclass(frozen=True)
class OfFunctions(Work):
    """Work on functions of a class and a size."""

    k: int = setting(2, "letters that a rule looks at, at most")
    n_letters: int = setting(5, "letters of the alphabet")
    n_rules: int = setting(3, "rules of a function")
    seed: int = setting(0, "of the functions")
    side: str = setting("", "where reading begins, of OSL functions", choices=tuple(CLASSES), since="0.2.0")

    @property
    def benchmark(self) -> InductionBench:
        """Which functions."""
        size = (self.k, self.n_letters, self.n_rules)
        return InductionBenchOsl(*size, side=self.side) if self.side else InductionBench(*size)

    @property
    def size(self) -> str:
        """The class unless it is ISL, and the size, as in tables: `L-OSL (2, 3, 2)`."""
        return f"{CLASSES[self.side]}({self.k}, {self.n_letters}, {self.n_rules})"


@dataclass(frozen=True)
class Asked(OfFunctions):
    """A model asked for the rules, after the examples as they are and after shuffled ones."""

    label, file = "rules-asked", REPORT

    model: str = setting("smollm2", "which")
    layout: str = setting("chat", "how an exercise is put")
    count: int = setting(30, "functions")
    choose: bool = setting(True, "whether it is also to choose among rules")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        backend, settings = open_backend(self.model, threads=1), Evaluation(self.count, self.seed)
        layout = catalogue.chosen("language.layouts", SHOWN.get(self.layout, self.layout))
        ways = ("greedy_strict", "greedy_lenient", *(["log_likelihood"] if self.choose else []))
        rows = [row for way in ways for row in controlled(backend, self.benchmark, layout, way, settings, folder)]
        write_json(folder / REPORT, {"rows": rows})

    def about(self) -> dict[str, Any]:
        part = "scripted" if self.model in ("known:oracle", "known:uniform") else "language"
        return {"seed": self.seed, "part": part, "model": self.model, "size": self.size, "layout": self.layout}


@dataclass(frozen=True)
class Learned(OfFunctions, Report):
    """The exact learner, on all examples and on half of them.

    It is not made for `side=right`: R-OSL functions are mirror images of L-OSL functions.
    """

    label, file = "rules-learned", REPORT

    count: int = setting(60, "functions")

    def about(self) -> dict[str, Any]:
        return {"seed": self.seed, "part": "learner", "model": "exact learner", "size": self.size, "layout": ""}

    def report(self) -> dict[str, Any]:
        found = [self.function(index) for index in range(self.count)]
        halves = ((False, "true"), (True, "half"))
        return {"rows": [row for half, labels in halves for row in self.scored(found, labels, half)]}

    @property
    def functions(self) -> ModuleType:
        """How functions of the class are applied and learned."""
        return base_output_local if self.side else base_local_functions

    def function(self, index: int) -> dict[str, str]:
        """A function's rules, in the order of reading."""
        if isinstance(self.benchmark, InductionBenchOsl):
            return self.benchmark.rules_of(self.benchmark.question(self.seed, index).answer)
        draw = Draw("learned", self.benchmark.as_dict(), self.seed, index)
        return drawn(draw, self.benchmark.letters, self.k, self.n_rules)

    def scored(self, functions: Sequence[dict[str, str]], labels: str, half: bool) -> Iterator[Row]:
        """The learner's measures as the benchmark marks them, and its accuracy on strings that it was never shown."""
        learned, applied, bench = self.functions.learned, self.functions.applied, self.benchmark
        pairs = [(rules, learned(self.examples(rules, index, half), self.k)) for index, rules in enumerate(functions)]
        exercises = ((bench.exercise(0, 0, (), "", "", (as_text(rules), ())), found) for rules, found in pairs)
        marks = [exercise.mark(as_text(found)).measures for exercise, found in exercises]
        for name in InductionBench.MEASURES:
            yield of_values(labels, "learner", name, [mark[name] for mark in marks], bench.floors().get(name))
        right = [float(applied(a, s) == applied(b, s)) for a, b in pairs for s in self.unseen()]
        yield of_values(labels, "learner", "unseen strings", right)

    def examples(self, rules: Rules, index: int, half: bool) -> dict[str, str]:
        """The strings of a characteristic sample with their outputs, or each with probability one half."""
        letters = self.benchmark.letters
        given = base_output_local.sample(rules, letters, self.k) if self.side else strings(letters, self.k)
        draw = Draw("half", self.benchmark.as_dict(), self.seed, index)
        return {string: self.functions.applied(rules, string) for string in given if not half or draw.below(2)}

    def unseen(self) -> list[str]:
        """Ten strings of twelve letters."""
        draw = Draw("unseen", self.benchmark.as_dict(), self.seed, 0)
        letters = self.benchmark.letters
        return ["".join(letters[draw.below(len(letters))] for _ in range(12)) for _ in range(10)]
