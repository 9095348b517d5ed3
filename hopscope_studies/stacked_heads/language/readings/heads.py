"""The heads that do one hop, as found and reported by `hopscope lm heads`."""

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
from hopscope_studies.stacked_heads.language.hop import HeadStudy
from hopscope_studies.stacked_heads.language.pictures import role_maps, stacking_diagram
from hopscope_studies.stacked_heads.language.study import study
from hopscope_studies.stacked_heads.language.words import lines


class Heads(Reading):
    """Scores of all heads; role paths, a minimal set and its stack if the hop is done above chance."""

    file, settings = "heads.json", HeadStudy

    def measure(
        self, opened: Opened, formulation: Formulation, layout: Layout, settings: HeadStudy, watch: Watch
    ) -> tuple[dict[str, Any], DataFrame]:
        made = study(opened, formulation, layout, settings, watch)
        return made.report, DataFrame(made.rows())

    def lines(self, report: Mapping[str, Any]) -> Iterator[str]:
        return lines(report)

    def pictures(self, report: Mapping[str, Any], table: DataFrame | None) -> Iterator[tuple[str, Figure]]:
        assert table is not None
        yield "scores", head_maps(table, report["model"])
        if report.get("heads"):
            yield "roles", role_maps(report["heads"], report["hop"]["roles"], report["model"])
            yield "stacking", stacking_diagram(report)
