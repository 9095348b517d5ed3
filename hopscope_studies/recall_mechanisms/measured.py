"""Measurements of language models, as an experiment's work, and numbers from the toy study's committed table.

Studies do not import one another. The link to the toy study of facts is its table, `results/facts/table.csv`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from pandas import DataFrame

from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel, OfTable
from hopscope_studies.recall_mechanisms import reading

REPORT = "recall.json"


@dataclass(frozen=True)
class Recalled(OfModel):
    """Facts recalled by a language model, by a hand-set model, or by an untrained one."""

    label = "recall"
    file = REPORT

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(0, "facts of each relation at most; 0: all")
    seed: int = setting(0, "of halves, random heads and mixed facts")

    rows = staticmethod(reading.recalled)

    def report(self) -> dict[str, Any]:
        from hopscope_studies.recall_mechanisms.by_hand import COUNT, KINDS, by_hand
        from hopscope_studies.recall_mechanisms.trial import Trial, trial

        if self.model == "by_hand":
            return trial(by_hand(), Trial(" ".join(KINDS), COUNT, self.seed), print)
        made = Trial(count=self.count, seed=self.seed, known=self.trained, brief=not self.trained)
        return trial(self.opened(), made, print)


def toy(table: DataFrame) -> dict[str, Any]:
    """The steps at which its models know each part of an answer, and recall by the sizes of attention and MLP."""
    curves = table[(table.kind == "curve") & (table.facts == "even") & (table.scale == "cpu")]
    cells = table[(table.kind == "trade_off") & (table.scale == "cpu")]
    return {
        "seeds": [{"seed": int(some.seed.iloc[0]), **halved(some)} for _, some in curves.groupby("run")],
        "cells": [
            {"attention": int(one["attention"]), "mlp": int(one["mlp"]), "recall": float(one["recall"])}
            for one in cells.to_dict("records")
        ],
    }


@dataclass(frozen=True)
class Toy(OfTable):
    """The toy study's numbers, read from its committed table."""

    label = "toy-facts"
    file, experiment = REPORT, "facts"

    folder: str = setting("results/facts", "where its table is, from where the command is given")

    read, rows = staticmethod(toy), staticmethod(reading.toy)


def halved(curve: DataFrame) -> dict[str, float]:
    """The first step at which each part's loss is below half of the loss of not knowing that part."""
    curve = curve.sort_values("step")
    found = {}
    for name, choices in (("relation", curve.relations.iloc[0]), ("subject", curve.answers.iloc[0])):
        found[name] = float(curve[curve[f"{name}_only"] < numpy.log(choices) / 2].step.min())
    return found
