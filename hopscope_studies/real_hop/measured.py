"""Measurements of a model, as an experiment's work: the circuit of one hop in some wording, and why two hops fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel, Row
from hopscope_studies.real_hop.reading import one_hop, two_hops

REPORT = "circuit.json"


@dataclass(frozen=True)
class OneHop(OfModel):
    """A report on the circuit of one hop."""

    label = "circuit"
    file = REPORT

    model: str = setting("smollm2", "which")
    formulation: str = setting("equations", "the wording")
    layout: str = setting("code", "how a question is put")
    count: int = setting(48, "draws of facts")
    seed: int = setting(0, "of the facts")
    brief: bool = setting(False, "the circuit alone")

    @property
    def part(self) -> str:  # type: ignore[override]
        return "one hop" if (self.formulation, self.layout) == ("equations", "code") else "other wording"

    def about(self) -> Row:
        return super().about() | {"formulation": self.formulation, "layout": self.layout}

    rows = staticmethod(one_hop)

    def report(self) -> dict[str, Any]:
        from hopscope_studies.real_hop.language.study import CircuitStudy, circuit_study

        formulation = catalogue.find("formulations", self.formulation)(n_hops=1)
        layout = catalogue.find("language.layouts", self.layout)()
        settings = CircuitStudy(count=self.count, seed=self.seed, brief=self.brief, change=not self.brief)
        return circuit_study(self.opened(), formulation, layout, settings, print)


@dataclass(frozen=True)
class TwoHops(OfModel):
    """A report on why two hops fail."""

    label, part = "two-hops", "two hops"
    file = REPORT

    model: str = setting("smollm2", "which")
    count: int = setting(48, "draws of facts")
    seed: int = setting(0, "of the facts")

    def about(self) -> Row:
        return super().about() | {"formulation": "equations", "layout": "code"}

    rows = staticmethod(two_hops)

    def report(self) -> dict[str, Any]:
        from hopscope_studies.real_hop.language.why import WhyStudy, why

        formulation = catalogue.find("formulations", "equations")(n_hops=2)
        layout = catalogue.find("language.layouts", "code")()
        settings = WhyStudy(count=self.count, seed=self.seed)
        return why(self.opened(), formulation, layout, settings, print)
