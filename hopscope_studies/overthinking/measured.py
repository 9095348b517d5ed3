"""Measurements of language models, as an experiment's work, and numbers from the toy study's committed table.

Studies do not import one another. The link to the toy study of the same question is its table,
`results/false_demonstrations/table.csv`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pandas import DataFrame

from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel, OfTable, Row, of
from hopscope_studies.overthinking import reading

REPORT = "overthinking.json"


@dataclass(frozen=True)
class Demonstrations(OfModel):
    """A report on true and false demonstrations, shown to a language model, a hand-set one, or an untrained one."""

    label = "demonstrations"
    file = REPORT

    model: str = setting("smollm2", "which")
    words: str = setting("unnatural", "set of words")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(48, "texts, a half each for choosing and judging", low=6, high=1200)
    seed: int = setting(0, "of texts and random heads", low=0)
    brief: bool = setting(False, "answers by layer and scores alone; nothing is silenced")

    @property
    def part(self) -> str:  # type: ignore[override]
        found = super().part
        return "other words" if found == "language" and self.words != "unnatural" else found

    def about(self) -> Row:
        return super().about() | {"words": self.words}

    rows = staticmethod(reading.demonstrations)

    def report(self) -> dict[str, Any]:
        from hopscope_studies.overthinking.by_hand import by_hand
        from hopscope_studies.overthinking.trial import trial

        return trial(self.opened(by_hand), self, print)


def toy(table: DataFrame) -> dict[str, Any]:
    """The numbers of its trained models at scale `cpu`, by seed, for comparison with the language model's.

    They are accuracies, the critical layer as a share of all, and the share of the gap that two heads carry.
    """
    rows = table[(table.condition == "trained") & (table.scale == "cpu")]
    whole, left = ({kind: of(rows, name, kind) for kind in ("true", "permuted")} for name in ("whole", "without heads"))
    curve = rows[(rows.kind == "lens") & (rows.name == "permuted")].sort_values("step").groupby("run").value
    found = {
        "seed": rows.groupby("run").seed.first(),
        **whole,
        "best": curve.agg(lambda values: values.iloc[:-1].max()),
        "critical": of(rows, "critical", "layers") / of(rows, "critical", "depth"),
        "share": 1 - (left["true"] - left["permuted"]) / (whole["true"] - whole["permuted"]),
        "true_lost": whole["true"] - left["true"],
    }
    return {"seeds": DataFrame(found).sort_values("seed").to_dict("records")}


@dataclass(frozen=True)
class Toy(OfTable):
    """The toy study's numbers, read from its committed table."""

    label = "toy-table"
    file, experiment = REPORT, "false_demonstrations"

    folder: str = setting("results/false_demonstrations", "where its table is, from where the command is given")

    read, rows = staticmethod(toy), staticmethod(reading.toy)
