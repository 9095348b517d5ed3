"""The study's work: scripted proposers refine rules, and language models are asked for a rule's output."""

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
from hopscope.language.benchmarks.hypothesis_refinement import SEEN, HypothesisRefinement, Instance
from hopscope.language.controlled import Row, controlled, of_values
from hopscope.language.domains.base import Domain
from hopscope.language.evaluation import Evaluation
from hopscope.language.opening import open_backend
from hopscope_studies.hypothesis_refinement.refinement import (
    Refined,
    found_by_chance,
    refine,
    scripted,
    spared,
)

REPORT = "refinement.json"
RIGHT = (5, 20, 50)  # percent of a proposer's hypotheses
SIZES = ((1, 1), (5, 1), (1, 3), (5, 3))  # N and T (paper: up to 5 and 3)
NOISES = (12, 25, 50)  # percent of examples (paper: 12.5, 25, 50)
SURE = (50, 5, 3)  # p, N and T of the proposer that is tried on noise


@dataclass(frozen=True)
class Proposals(Report):
    """A report on scripted proposers at all sizes of the loop and with noise, and on one that is always wrong."""

    label, file = "proposals", REPORT

    domain: str = setting("lists", "of the rules")
    count: int = setting(400, "rules")
    seed: int = setting(0, "of rules and proposals")

    def about(self) -> dict[str, Any]:
        return {"seed": self.seed, "part": "proposers", "model": "", "domain": self.domain, "layout": ""}

    def report(self) -> dict[str, Any]:
        return {"rows": [*self.exact(), *self.grid(), *self.wrong(), *self.noisy()]}

    def drawn(self, noise: int = 0) -> tuple[Domain, list[Instance]]:
        """The domain, and its rules with examples."""
        bench = HypothesisRefinement(self.domain, "rule", noise)
        return bench.world, [bench.instance(self.seed, index) for index in range(self.count)]

    def exact(self) -> Iterator[Row]:
        """Rows on a proposer that tries every rule of the grammar."""
        world, instances = self.drawn()
        yield self.row("every rule", "found", [float(world.consistent(one.shown) == [one.rule]) for one in instances])

    def grid(self) -> Iterator[Row]:
        """Rows on proposers that are right with a given probability, by N and T."""
        for percent in RIGHT:
            for hypotheses, rounds in SIZES:
                name = f"p {percent} N {hypotheses} T {rounds}"
                chance = found_by_chance(percent, hypotheses, rounds)
                yield from self.scored(name, self.refined(percent, hypotheses, rounds, 0), chance)

    def wrong(self) -> Iterator[Row]:
        """Rows on a proposer that is never right: the score of the best of its wrong rules."""
        yield from self.scored("p 0 N 5 T 3", self.refined(0, 5, 3, 0), 0.0)

    def noisy(self) -> Iterator[Row]:
        """Rows with corrupted examples: how often the right rule still fits them all, how often the best is right."""
        percent, hypotheses, rounds = SURE
        for noise in NOISES:
            world, instances = self.drawn(noise)
            fits = [float(world.kept(one.rule, one.shown) == SEEN) for one in instances]
            yield self.row(f"noise {noise}", "right rule fits", fits, spared(noise, SEEN))
            found = self.refined(percent, hypotheses, rounds, noise)
            pairs = list(zip(instances, found, strict=True))
            exactly = [float(loop.fits and loop.rule == one.rule) for one, loop in pairs]
            yield self.row(f"noise {noise}", "found by what fits", exactly)
            yield self.row(f"noise {noise}", "found by what fits best", [float(x.rule == one.rule) for one, x in pairs])

    def refined(self, percent: int, hypotheses: int, rounds: int, noise: int) -> list[Refined]:
        """The results of a proposer's loop, one for each rule."""
        world, instances = self.drawn(noise)
        about = {"domain": self.domain, "p": percent, "N": hypotheses, "T": rounds, "noise": noise}
        found = []
        for index, one in enumerate(instances):
            propose = scripted(world, one.rule, percent, Draw("proposals", about, self.seed, index))
            found.append(refine(world, one.shown, propose, hypotheses, rounds))
        return found

    def scored(self, name: str, found: Sequence[Refined], chance: float) -> Iterator[Row]:
        """Rows on how often the right rule is found, and on the best rule's score on tests and examples."""
        world, instances = self.drawn()
        pairs = list(zip(found, instances, strict=True))
        yield self.row(name, "found", [float(loop.rule == one.rule) for loop, one in pairs], chance)
        raw = [world.kept(loop.rule, one.tests) / len(one.tests) for loop, one in pairs]
        yield self.row(name, "raw", raw)
        yield self.row(name, "task", [float(value == 1) for value in raw])
        yield self.row(name, "examples kept", [world.kept(loop.rule, one.seen) / SEEN for loop, one in pairs])

    def row(self, name: str, measure: str, values: Sequence[float], closed: float | None = None) -> Row:
        """A mean with its interval and, if there is one, its closed form."""
        return of_values(name, "scripted", measure, values, closed)


@dataclass(frozen=True)
class Asked(Work):
    """A model that is asked for a rule's output for a ninth input, after true and after shuffled examples."""

    label, file = "outputs-asked", REPORT

    model: str = setting("smollm2", "which")
    domain: str = setting("lists", "of the rules")
    layout: str = setting("code", "how an exercise is put")
    count: int = setting(40, "rules")
    seed: int = setting(0, "of the rules")
    choose: bool = setting(False, "whether it is also to choose among outputs")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        backend, layout = open_backend(self.model, threads=1), catalogue.find("language.layouts", self.layout)()
        ways = ("greedy_strict", "greedy_lenient", *(["log_likelihood"] if self.choose else []))
        benchmark, settings = HypothesisRefinement(self.domain), Evaluation(self.count, self.seed)
        rows = [row for way in ways for row in controlled(backend, benchmark, layout, way, settings, folder)]
        write_json(folder / REPORT, {"rows": rows})

    def about(self) -> dict[str, Any]:
        part = "scripted" if self.model in ("known:oracle", "known:uniform") else "language"
        return {"seed": self.seed, "part": part, "model": self.model, "domain": self.domain, "layout": self.layout}
