"""The work of `composition_llm`: measurements of a language model, and the toy models' committed table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pandas import DataFrame

from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel, OfTable
from hopscope_studies.composition.cells import WIDTHS
from hopscope_studies.composition.scores import RANK_SHARE

REPORT = "bridges.json"


@dataclass(frozen=True)
class Bridges(OfModel):
    """A report on ablated heads and bridges in a language model, in a hand-set one, or in an untrained one."""

    label = "bridges"
    file = REPORT

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with; of these bridges alone")
    count: int = setting(24, "sequences, a half each for choosing and judging", low=4)
    seed: int = setting(0, "of tokens and random heads")
    brief: bool = setting(False, "one size of random sets, and no plain text")

    def report(self) -> dict[str, Any]:
        """The rows of the table. Raises BadInput for a model that is not built like Llama."""
        from hopscope.language.lens.by_hand import CODE, by_hand
        from hopscope_studies.composition.language.bridges import RANKS
        from hopscope_studies.composition.language.trial import Trial, rows_of

        opened = self.opened(by_hand)
        settings = Trial(self.count, self.seed, self.brief, weights_alone=not self.trained)
        # Hand-set heads write equally much in each direction of a code, so the rank is the width of a code.
        rows = list(rows_of(opened, settings, (CODE,) if self.model == "by_hand" else RANKS))
        return {"model": opened.name, "identity": opened.identity, "rows": rows}


def toy(table: DataFrame) -> dict[str, Any]:
    """Overlaps and diagonal scores of the trained two-layer models on fresh segments."""
    curves = table[(table.kind == "curve") & (table.layers == 2) & (table.pool == 0)]
    ends = curves[curves.step == curves.groupby("run").step.transform("max")]
    width = WIDTHS[str(ends.scale.iloc[0])]
    rank = round(RANK_SHARE * width)
    rows: list[dict[str, Any]] = []
    for seed, match, diagonal in zip(ends.seed, ends.match, ends.diagonal, strict=True):
        about = {"seed": int(seed), "step": rank}
        rows += [
            {"kind": "overlap", "name": "toy", "value": float(match), **about},
            {"kind": "overlap", "name": "in theory", "value": (rank / width) ** 0.5, **about},
            {"kind": "diagonal", "name": "toy", "value": float(diagonal), **about},
        ]
    return {"rows": rows}


@dataclass(frozen=True)
class ToyBridges(OfTable):
    """The toy models' numbers, read from their committed table."""

    label = "toy-bridges"
    file, experiment = REPORT, "composition"

    folder: str = setting("results/composition", "where the table is, from where the command is given")

    read = staticmethod(toy)
