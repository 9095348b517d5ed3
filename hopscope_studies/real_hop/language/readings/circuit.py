"""The circuit of one hop, or why two hops fail, as found and reported by `hopscope lm heads --circuit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.formulations.base import Formulation
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Layout
from hopscope.language.readings.base import Reading, Watch
from hopscope_studies.real_hop.language.picture import hop_circuit, shown
from hopscope_studies.real_hop.language.study import CircuitStudy, circuit_study
from hopscope_studies.real_hop.language.why import WhyStudy, why
from hopscope_studies.real_hop.language.words import lines


class Circuit(Reading):
    """The nodes, places and edges that carry the hop."""

    file, settings = "circuit.json", CircuitStudy

    def measure(
        self, opened: Opened, formulation: Formulation, layout: Layout, settings: CircuitStudy, watch: Watch
    ) -> tuple[dict[str, Any], DataFrame | None]:
        report = circuit_study(opened, formulation, layout, settings, watch)
        if "nodes" not in report and formulation.n_hops == 2:
            further = WhyStudy(count=settings.count, seed=settings.seed)
            report["why"] = why(opened, formulation, layout, further, watch)
        return report, None

    def lines(self, report: Mapping[str, Any]) -> Iterator[str]:
        return lines(report)

    def pictures(self, report: Mapping[str, Any], table: DataFrame | None) -> Iterator[tuple[str, Figure]]:
        if "places" in report:
            seen = shown(report)
            title = f"{report['model']}: one hop by {len(seen.places)} places and {len(seen.edges)} edges"
            yield "circuit", hop_circuit(seen, title)
