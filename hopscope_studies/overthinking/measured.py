"""Measurements of language models, as an experiment's work, and numbers from the toy study's committed table.

Studies do not import one another. The link to the toy study of the same question is its table,
`results/false_demonstrations/table.csv`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pandas import DataFrame

from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel, OfTable, Row
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
    count: int = setting(48, "texts")
    seed: int = setting(0, "of texts and random heads")
    brief: bool = setting(False, "answers by layer and scores alone")

    @property
    def part(self) -> str:  # type: ignore[override]
        found = super().part
        return "other words" if found == "language" and self.words != "unnatural" else found

    def about(self) -> Row:
        return super().about() | {"words": self.words}

    rows = staticmethod(reading.demonstrations)

    def report(self) -> dict[str, Any]:
        from hopscope_studies.overthinking.by_hand import by_hand
        from hopscope_studies.overthinking.trial import Trial, trial

        return trial(self.opened(by_hand), Trial(self.words, self.count, self.seed, self.brief), print)


def toy(table: DataFrame) -> dict[str, Any]:
    """The numbers of its trained models at scale `cpu`, by seed, for comparison with the language model's."""
    rows = table[(table.condition == "trained") & (table.scale == "cpu")]
    return {"seeds": [{"seed": int(some.seed.iloc[0]), **toy_model(some)} for _, some in rows.groupby("seed")]}


@dataclass(frozen=True)
class Toy(OfTable):
    """The toy study's numbers, read from its committed table."""

    label = "toy-table"
    file, experiment = REPORT, "false_demonstrations"

    folder: str = setting("results/false_demonstrations", "where its table is, from where the command is given")

    read, rows = staticmethod(toy), staticmethod(reading.toy)


def toy_model(rows: DataFrame) -> dict[str, float]:
    """Rows on one toy model: accuracies, critical layer as a share of all, share of the gap that two heads carry."""

    def of(kind: str, name: str) -> float:
        (value,) = rows[(rows.kind == kind) & (rows.name == name)].value
        return float(value)

    permuted = rows[(rows.kind == "lens") & (rows.name == "permuted")].sort_values("step").value
    whole, left = (of(kind, "true") - of(kind, "permuted") for kind in ("whole", "without heads"))
    return {
        "true": of("whole", "true"),
        "permuted": of("whole", "permuted"),
        "best": float(permuted.iloc[:-1].max()),
        "critical": of("critical", "layers") / of("critical", "depth"),
        "share": 1 - left / whole,
        "true_lost": of("whole", "true") - of("without heads", "true"),
    }
