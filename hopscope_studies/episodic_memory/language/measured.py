"""The work of `episodic_memory_llm`: measurements of a language model, and the toy models' committed table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pandas import DataFrame

from hopscope.core.settings import setting
from hopscope.experiments.reports import OfModel, OfTable, row
from hopscope_studies.episodic_memory.cells import Simulations
from hopscope_studies.episodic_memory.claims import copying, last, without

REPORT = "recall.json"


@dataclass(frozen=True)
class Recall(OfModel):
    """A report on heads and answers of a language model, of a hand-set one, or of an untrained one."""

    label = "recall"
    file = REPORT

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(24, "sequences, a half each for choosing and judging", low=4)
    lists: int = setting(20, "lists that are shown twice", low=2)
    seed: int = setting(0, "of tokens, orders and random heads")
    brief: bool = setting(False, "no head is silenced")

    def report(self, simulations: Simulations | None = None) -> dict[str, Any]:
        """Rows of the table; `simulations` of recall are those of the toy study by default."""
        import torch

        from hopscope.language.lens.attention import Lens
        from hopscope.language.lens.by_hand import by_hand
        from hopscope_studies.episodic_memory.language.heads import fitter_of, rows_of
        from hopscope_studies.episodic_memory.language.lists import answer_rows

        opened = self.opened(by_hand)
        lens = Lens(opened)
        with torch.no_grad():
            rows, chosen = rows_of(lens, fitter_of(simulations or Simulations()), self.count, self.seed)
            rows += answer_rows(lens, self.lists, self.seed, chosen, self.brief)
        return {"model": opened.name, "identity": opened.identity, "rows": rows}


def toy(table: DataFrame) -> dict[str, Any]:
    """Rows on the copying heads' distances and drift, on contiguity, and on its share that remains without them."""
    best, answered = copying(last(table[table.kind == "head"])), last(table[table.kind == "answer"])
    rows = [
        row(kind, f"L{head.layer:.0f}H{head['head']:.0f}", float(head[kind]), seed=int(head.seed))
        for _, head in best.iterrows()
        for kind in ("distance", "encoding")
    ]
    silenced = without(table[table.kind == "silenced"], "all").groupby("run").contiguity.mean().to_dict()
    for run, seed, value in zip(answered.run, answered.seed, answered.contiguity, strict=True):
        rows.append(row("contiguity", "whole", float(value), seed=int(seed)))
        if run in silenced:
            rows.append(row("left: contiguity", "matching", float((silenced[run] - 1) / (value - 1)), seed=int(seed)))
    return {"rows": rows}


@dataclass(frozen=True)
class ToyRecall(OfTable):
    """The toy models' numbers, read from their committed table."""

    label = "toy-recall"
    file, experiment = REPORT, "episodic_memory"

    folder: str = setting("results/episodic_memory", "where the table is, from where the command is given")

    read = staticmethod(toy)
