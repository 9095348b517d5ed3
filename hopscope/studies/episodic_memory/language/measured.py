"""What is measured of a language model, kept as an experiment's work; and the toy models' committed table.

Of models `made_up`, which test plumbing, rows are written down.
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
from hopscope.studies.episodic_memory.cells import Simulations
from hopscope.studies.episodic_memory.claims import copying, last, without
from hopscope.studies.episodic_memory.language.made_up import ROWS as MADE_UP
from hopscope.studies.episodic_memory.language.made_up import TOY

REPORT = "recall.json"


@dataclass(frozen=True)
class Recall(Work):
    """Heads and answers of a language model, of one made by hand, or of one that has learnt nothing."""

    label = "recall"

    model: str = setting("smollm2", "which")
    trained: bool = setting(True, "its own weights, or such as it began with")
    count: int = setting(24, "sequences, a half each for choosing and judging", low=4)
    lists: int = setting(20, "lists that are shown twice", low=2)
    seed: int = setting(0, "of tokens, orders and random heads")
    brief: bool = setting(False, "no head is silenced")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, {"rows": MADE_UP} if self.model.startswith("made_up") else self.report())

    def report(self, simulations: Simulations | None = None) -> dict[str, Any]:
        """Rows of the table; `simulations` of recall are those of the toy study unless others are given."""
        import torch

        from hopscope.language.checkpoints import open_model
        from hopscope.language.heads.attention import Lens
        from hopscope.language.retrieval.by_hand import by_hand
        from hopscope.language.retrieval.untrained import untrained
        from hopscope.studies.episodic_memory.language.heads import fitter_of, rows_of
        from hopscope.studies.episodic_memory.language.lists import answer_rows

        opened = by_hand() if self.model == "by_hand" else open_model(self.model, threads=1)
        lens = Lens(opened if self.trained else untrained(opened, self.seed))
        with torch.no_grad():
            rows, chosen = rows_of(lens, fitter_of(simulations or Simulations()), self.count, self.seed)
            rows += answer_rows(lens, self.lists, self.seed, chosen, self.brief)
        return {"model": opened.name, "identity": opened.identity, "rows": rows}


@dataclass(frozen=True)
class ToyRecall(Work):
    """The toy models' numbers, read off their committed table."""

    label = "toy-recall"

    folder: str = setting("results/episodic_memory", "where the table is, from where the command is given")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / REPORT, {"rows": TOY if self.folder.startswith("made_up") else self.rows()})

    def rows(self) -> list[dict[str, Any]]:
        """A row per number and model."""
        if not (Path(self.folder) / TABLE).is_file():
            raise BadInput(
                f"there is no {self.folder}/{TABLE} here; run `hopscope reproduce episodic_memory --scale cpu` first, "
                "or give this command where the results are"
            )
        return toy(table_in(Path(self.folder)))


def toy(table: DataFrame) -> list[dict[str, Any]]:
    """Of copying heads distance and drift, of models contiguity, and what is left of it without these heads."""
    best, answered = copying(last(table[table.kind == "head"])), last(table[table.kind == "answer"])
    rows = [
        {
            "kind": kind,
            "name": f"L{head.layer:.0f}H{head['head']:.0f}",
            "value": float(head[kind]),
            "seed": int(head.seed),
        }
        for _, head in best.iterrows()
        for kind in ("distance", "encoding")
    ]
    silenced = without(table[table.kind == "silenced"], "all").groupby("run").contiguity.mean().to_dict()
    for run, seed, value in zip(answered.run, answered.seed, answered.contiguity, strict=True):
        rows.append({"kind": "contiguity", "name": "whole", "value": float(value), "seed": int(seed)})
        if run in silenced:
            share = float((silenced[run] - 1) / (value - 1))
            rows.append({"kind": "left: contiguity", "name": "matching", "value": share, "seed": int(seed)})
    return rows
