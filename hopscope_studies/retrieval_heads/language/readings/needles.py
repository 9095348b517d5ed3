"""The retrieval heads, as found and reported by `hopscope lm heads --needles`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.heads import head_maps
from hopscope.formulations.base import Formulation
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Layout
from hopscope.language.readings.base import Reading, Watch
from hopscope_studies.retrieval_heads.language.study import RetrievalStudy, retrieval_study
from hopscope_studies.retrieval_heads.language.words import lines


class Needles(Reading):
    """Scores of heads on needles in hay; it asks its own questions instead of a formulation's."""

    file, settings = "retrieval.json", RetrievalStudy

    def measure(
        self, opened: Opened, formulation: Formulation, layout: Layout, settings: RetrievalStudy, watch: Watch
    ) -> tuple[dict[str, Any], DataFrame]:
        report = retrieval_study(opened, settings, watch)
        return report, DataFrame(report["heads"])

    def lines(self, report: Mapping[str, Any]) -> Iterator[str]:
        return lines(report)

    def pictures(self, report: Mapping[str, Any], table: DataFrame | None) -> Iterator[tuple[str, Figure]]:
        assert table is not None
        yield "scores", head_maps(table.rename(columns={"forced": "retrieval"}), report["model"])
