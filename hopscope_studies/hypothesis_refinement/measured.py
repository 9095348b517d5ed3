"""The study's work: scripted proposers refine rules, and language models are asked for a rule's output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.reports import Report
from hopscope.experiments.work import Work
from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.hypothesis_refinement import SEEN, HypothesisRefinement, Instance, domain_named
from hopscope.language.controlled import Row, controlled, of_values
from hopscope.language.domains.base import Domain
from hopscope.language.evaluation import Evaluation
from hopscope.language.opening import open_backend
from hopscope_studies.hypothesis_refinement.refinement import Refined, found_by_chance, refine, scripted, spared

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
        return {"rows": [*self.exact(), *self.grid(), *self.noisy()]}

    @property
    def world(self) -> Domain:
        """The domain."""
        return domain_named(self.domain)

    def drawn(self, noise: int = 0) -> list[Instance]:
        """Rules with examples."""
        bench = HypothesisRefinement(self.domain, "rule", noise)
        return [bench.instance(self.seed, index) for index in range(self.count)]

    def exact(self) -> Iterator[Row]:
        """Rows on a proposer that tries every rule of the grammar."""
        yield row("every rule", "found", [self.world.consistent(one.shown) == [one.rule] for one in self.drawn()])

    def grid(self) -> Iterator[Row]:
        """Rows on proposers that are right with a given probability, by N and T, and on one that is never right."""
        for percent, (hypotheses, rounds) in [*product(RIGHT, SIZES), (0, (5, 3))]:
            name = f"p {percent} N {hypotheses} T {rounds}"
            pairs = self.refined(percent, hypotheses, rounds)
            chance = found_by_chance(percent, hypotheses, rounds)
            yield row(name, "found", [loop.rule == one.rule for one, loop in pairs], chance)
            raw = [self.world.kept(loop.rule, one.tests) / len(one.tests) for one, loop in pairs]
            yield row(name, "raw", raw)
            yield row(name, "task", [value == 1 for value in raw])
            yield row(name, "examples kept", [self.world.kept(loop.rule, one.seen) / SEEN for one, loop in pairs])

    def noisy(self) -> Iterator[Row]:
        """Rows with corrupted examples: how often the right rule still fits them all, how often the best is right."""
        for noise in NOISES:
            pairs, name = self.refined(*SURE, noise), f"noise {noise}"
            fits = [self.world.kept(one.rule, one.shown) == SEEN for one, _ in pairs]
            yield row(name, "right rule fits", fits, spared(noise, SEEN))
            yield row(name, "found by what fits", [loop.fits and loop.rule == one.rule for one, loop in pairs])
            yield row(name, "found by what fits best", [loop.rule == one.rule for one, loop in pairs])

    def refined(self, percent: int, hypotheses: int, rounds: int, noise: int = 0) -> list[tuple[Instance, Refined]]:
        """The results of a proposer's loop, one for each rule."""
        about = {"domain": self.domain, "p": percent, "N": hypotheses, "T": rounds, "noise": noise}
        found = []
        for index, one in enumerate(self.drawn(noise)):
            propose = scripted(self.world, one.rule, percent, Draw("proposals", about, self.seed, index))
            found.append((one, refine(self.world, one.shown, propose, hypotheses, rounds)))
        return found


def row(name: str, measure: str, values: Sequence[float], closed: float | None = None) -> Row:
    """A mean with its interval and, if there is one, its closed form."""
    return of_values(name, "scripted", measure, list(map(float, values)), closed)


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
