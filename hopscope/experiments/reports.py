"""Work that leaves one report: measurements of a language model, or numbers from another study's committed table.

A setting that begins with `made_up` names no model and no table. It stands for an invented report, which is test data
for the scale `quick`, in the study's `tests/made_up.py`.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pandas import DataFrame, Series

from hopscope.core import catalogue
from hopscope.core.places import TABLE
from hopscope.core.settings import BadInput
from hopscope.core.storage import write_json
from hopscope.experiments.results import table_in, today
from hopscope.experiments.tables import columns_of, rows_in
from hopscope.experiments.work import Finished, Work
from hopscope.runs.run import Run

if TYPE_CHECKING:
    from hopscope.language.checkpoints import Opened

Row = dict[str, Any]


def row(kind: str, name: str, value: Any = None, **more: Any) -> Row:
    """One number of a table; `value` is a number, or a mapping with its mean, low and high."""
    if isinstance(value, Mapping):
        return {"kind": kind, "name": name, "value": value["mean"], "low": value["low"], "high": value["high"], **more}
    return {"kind": kind, "name": name, "value": value, **more}


def of(table: DataFrame, kind: str, name: str | None = None, column: str = "value", **same: Any) -> Series:
    """A column of the rows of a kind, indexed by run; `same` holds required values of other columns."""
    for other, value in {"kind": kind, "name": name, **same}.items():
        table = table if value is None else table[table[other] == value]
    return table.set_index("run")[column].astype(float)


def names(table: DataFrame) -> str:
    """The models of a table, in words."""
    return " and ".join(sorted(set(table.model)))


class Report(Work):
    """Work whose result is one JSON file, which a table turns into a row per number.

    Attributes:
        source: the name of the setting that says what the report is about, if there is one.
        part: the work's purpose, in the table's column `part`.
    """

    source: ClassVar[str] = "model"
    part: str

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        invented = str(getattr(self, self.source, "")).startswith("made_up")
        write_json(folder / self.file, self.made_up() if invented else self.report())

    def made_up(self) -> dict[str, Any]:
        """The study's invented report for this label. Raises BadInput where its tests are not installed."""
        name = type(self).__module__
        study = next(root.package for root in catalogue.studies() if name.startswith(f"{root.package}."))
        try:
            reports = importlib.import_module(f"{study}.tests.made_up").REPORTS
        except ModuleNotFoundError:
            raise BadInput(
                f"the scale quick takes an invented report from the tests of {study}, which are not installed; choose "
                "--scale cpu, or work in a checkout"
            ) from None
        return reports[self.label]

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """The content of the file. Raises BadInput if the source is missing or of the wrong kind."""

    def about(self) -> Row:
        """The columns that all rows of the work share."""
        return {"seed": getattr(self, "seed", 0), "model": getattr(self, "model", ""), "part": self.part}


class OfModel(Report):
    """A report on a language model: trained, made by hand, or with random weights."""

    model: str
    trained: bool = True
    seed: int

    @property
    def part(self) -> str:  # type: ignore[override]
        return "by hand" if self.model.endswith("by_hand") else "language" if self.trained else "untrained"

    def opened(self, by_hand: Callable[[], Opened] | None = None) -> Opened:
        """The model, on one thread; if it is not to be trained, with weights drawn anew from the seed."""
        from hopscope.language.checkpoints import open_model
        from hopscope.language.lens.untrained import untrained

        opened = by_hand() if by_hand and self.model == "by_hand" else open_model(self.model, threads=1)
        return opened if self.trained else untrained(opened, self.seed)


class OfTable(Report):
    """A report on another study's committed table: studies do not import one another.

    Attributes:
        experiment: the experiment that wrote the table.
    """

    source, part = "folder", "toy"
    experiment: ClassVar[str]
    folder: str

    def report(self) -> dict[str, Any]:
        folder = today(Path(self.folder))
        if not (folder / TABLE).is_file():
            raise BadInput(
                f"there is no {self.folder}/{TABLE} here; run `hopscope reproduce {self.experiment} --scale cpu` "
                "first, or give this command where the results are"
            )
        return self.read(table_in(folder))

    @staticmethod
    @abstractmethod
    def read(table: DataFrame) -> dict[str, Any]:
        """The numbers that are needed from the table."""


def table_of(
    runs: Iterable[Finished | Run], of_run: Callable[[Run], Iterable[Row]] = lambda _: (), digits: int = 5
) -> DataFrame:
    """Reports, and trained models by `of_run`, as one tidy table.

    Columns: run, version, seed, model, part, other, step, kind, name, value, low, high, further columns of reports,
    and prior for trained models.
    """
    rows = [{**columns_of(one), "other": "", "step": None, **row} for one in runs for row in rows_in(one, of_run)]
    return DataFrame(rows).round(dict.fromkeys(("value", "low", "high"), digits))
