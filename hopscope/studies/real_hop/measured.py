"""What is asked of a model, kept as an experiment's work: the circuit of one hop in some wording, why two hops fail.

Of the model `made_up`, which tests plumbing, reports are written down here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.work import Work
from hopscope.studies.real_hop.made_up import ONE_HOP, TWO_HOPS

REPORT = "circuit.json"


@dataclass(frozen=True)
class OneHop(Work):
    """The circuit of one hop."""

    label = "circuit"

    model: str = setting("smollm2", "which")
    formulation: str = setting("equations", "the wording")
    layout: str = setting("code", "how a question is put")
    count: int = setting(48, "draws of facts")
    seed: int = setting(0, "of the facts")
    brief: bool = setting(False, "the circuit alone")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, ONE_HOP if self.model == "made_up" else self.report())

    def report(self) -> dict[str, Any]:
        from hopscope.language.checkpoints import open_model
        from hopscope.language.circuit.study import CircuitStudy, circuit_study

        formulation = catalogue.find("formulations", self.formulation)(n_hops=1)
        layout = catalogue.find("language.layouts", self.layout)()
        settings = CircuitStudy(count=self.count, seed=self.seed, brief=self.brief, change=not self.brief)
        return circuit_study(open_model(self.model, threads=1), formulation, layout, settings, print)


@dataclass(frozen=True)
class TwoHops(Work):
    """Why two hops fail."""

    label = "two-hops"

    model: str = setting("smollm2", "which")
    count: int = setting(48, "draws of facts")
    seed: int = setting(0, "of the facts")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, TWO_HOPS if self.model == "made_up" else self.report())

    def report(self) -> dict[str, Any]:
        from hopscope.language.checkpoints import open_model
        from hopscope.language.circuit.why import WhyStudy, why

        formulation = catalogue.find("formulations", "equations")(n_hops=2)
        layout = catalogue.find("language.layouts", "code")()
        settings = WhyStudy(count=self.count, seed=self.seed)
        return why(open_model(self.model, threads=1), formulation, layout, settings, print)
