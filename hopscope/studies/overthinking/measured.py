"""What is measured of language models, kept as an experiment's work; and the toy study's committed table.

Of models `made_up`, which test plumbing, reports are written down. Studies import nothing of one another: what joins
this one to the toy study of the same question is `results/false_demonstrations/table.csv`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pandas import DataFrame

from hopscope.core.settings import BadInput, setting
from hopscope.core.storage import write_json
from hopscope.experiments.results import TABLE, table_in
from hopscope.experiments.work import Work
from hopscope.studies.overthinking.made_up import REPORT as MADE_UP
from hopscope.studies.overthinking.made_up import TOY

REPORT = "overthinking.json"


@dataclass(frozen=True)
class Demonstrations(Work):
    """True and false demonstrations, shown to a language model, to one made by hand, or to one that learnt nothing."""

    label = "demonstrations"

    model: str = setting("smollm2", "which")
    words: str = setting("unnatural", "set of words")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(48, "texts")
    seed: int = setting(0, "of texts and random heads")
    brief: bool = setting(False, "answers by layer and scores alone")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, MADE_UP if self.model.startswith("made_up") else self.report())

    def report(self) -> dict[str, Any]:
        from hopscope.language.checkpoints import open_model
        from hopscope.language.retrieval.untrained import untrained
        from hopscope.studies.overthinking.by_hand import by_hand
        from hopscope.studies.overthinking.trial import Trial, trial

        opened = by_hand() if self.model == "by_hand" else open_model(self.model, threads=1)
        if not self.trained:
            opened = untrained(opened, self.seed)
        return trial(opened, Trial(self.words, self.count, self.seed, self.brief), print)


@dataclass(frozen=True)
class Toy(Work):
    """The toy study's numbers, read off its committed table."""

    label = "toy-table"

    folder: str = setting("results/false_demonstrations", "where its table is, from where the command is given")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, TOY if self.folder.startswith("made_up") else self.report())

    def report(self) -> dict[str, Any]:
        if not (Path(self.folder) / TABLE).is_file():
            raise BadInput(
                f"there is no {self.folder}/{TABLE} here; run `hopscope reproduce false_demonstrations --scale cpu` "
                "first, or give this command where the results are"
            )
        return toy(table_in(Path(self.folder)))


def toy(table: DataFrame) -> dict[str, Any]:
    """By seed, of its trained models at scale cpu: what the language model's numbers are set beside."""
    rows = table[(table.condition == "trained") & (table.scale == "cpu")]
    return {"seeds": [{"seed": int(some.seed.iloc[0]), **toy_model(some)} for _, some in rows.groupby("seed")]}


def toy_model(rows: DataFrame) -> dict[str, float]:
    """One toy: accuracies, the critical layer as a share of all, and what its two heads take of the gap."""

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
