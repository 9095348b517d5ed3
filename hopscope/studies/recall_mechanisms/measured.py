"""What is measured of language models, kept as an experiment's work; and the toy study's committed table.

Of models `made_up`, which test plumbing, reports are written down. Studies import nothing of one another: what joins
this one to the toy study of facts is `results/facts/table.csv`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from pandas import DataFrame

from hopscope.core.settings import BadInput, setting
from hopscope.core.storage import write_json
from hopscope.experiments.results import TABLE, table_in
from hopscope.experiments.work import Work
from hopscope.studies.recall_mechanisms.made_up import REPORT as MADE_UP
from hopscope.studies.recall_mechanisms.made_up import TOY

REPORT = "recall.json"


@dataclass(frozen=True)
class Recalled(Work):
    """Facts recalled by a language model, by one made by hand, or by one that learnt nothing."""

    label = "recall"

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(0, "facts of each relation at most; 0: all")
    seed: int = setting(0, "of halves, random heads and mixed facts")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, MADE_UP if self.model.startswith("made_up") else self.report())

    def report(self) -> dict[str, Any]:
        from hopscope.language.checkpoints import open_model
        from hopscope.language.retrieval.untrained import untrained
        from hopscope.studies.recall_mechanisms.by_hand import COUNT, KINDS, by_hand
        from hopscope.studies.recall_mechanisms.trial import Trial, trial

        if self.model == "by_hand":
            return trial(by_hand(), Trial(" ".join(KINDS), COUNT, self.seed), print)
        opened = open_model(self.model, threads=1)
        if not self.trained:
            opened = untrained(opened, self.seed)
        made = Trial(count=self.count, seed=self.seed, known=self.trained, brief=not self.trained)
        return trial(opened, made, print)


@dataclass(frozen=True)
class Toy(Work):
    """The toy study's numbers, read off its committed table."""

    label = "toy-facts"

    folder: str = setting("results/facts", "where its table is, from where the command is given")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, TOY if self.folder.startswith("made_up") else self.report())

    def report(self) -> dict[str, Any]:
        if not (Path(self.folder) / TABLE).is_file():
            raise BadInput(
                f"there is no {self.folder}/{TABLE} here; run `hopscope reproduce facts --scale cpu` "
                "first, or give this command where the results are"
            )
        return toy(table_in(Path(self.folder)))


def toy(table: DataFrame) -> dict[str, Any]:
    """When its models know each part of an answer, and how much they recall by what they are made of."""
    curves = table[(table.kind == "curve") & (table.facts == "even") & (table.scale == "cpu")]
    cells = table[(table.kind == "trade_off") & (table.scale == "cpu")]
    return {
        "seeds": [{"seed": int(some.seed.iloc[0]), **halved(some)} for _, some in curves.groupby("run")],
        "cells": [
            {"attention": int(one["attention"]), "mlp": int(one["mlp"]), "recall": float(one["recall"])}
            for one in cells.to_dict("records")
        ],
    }


def halved(curve: DataFrame) -> dict[str, float]:
    """The first steps at which each part's loss is below half of what it costs to know nothing."""
    curve = curve.sort_values("step")
    found = {}
    for name, choices in (("relation", curve.relations.iloc[0]), ("subject", curve.answers.iloc[0])):
        found[name] = float(curve[curve[f"{name}_only"] < numpy.log(choices) / 2].step.min())
    return found
