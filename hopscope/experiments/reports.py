"""Work that leaves one report: what was measured of a language model, or what another study's committed table says.

A setting that begins with `made_up` names no model and no table. It stands for a report that the study writes down,
which tests plumbing at the scale `quick`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pandas import DataFrame

from hopscope.core.places import TABLE
from hopscope.core.settings import BadInput
from hopscope.core.storage import write_json
from hopscope.experiments.results import table_in, today
from hopscope.experiments.work import Work

if TYPE_CHECKING:
    from hopscope.language.checkpoints import Opened


class Report(Work):
    """Work whose result is one JSON file.

    Attributes:
        file: its name.
        made_up: what it holds where nothing is measured.
        source: the setting that says of what the report is.
    """

    file: ClassVar[str]
    made_up: ClassVar[dict[str, Any]]
    source: ClassVar[str] = "model"

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        is_made_up = str(getattr(self, self.source)).startswith("made_up")
        write_json(folder / self.file, self.made_up if is_made_up else self.report())

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """What the file holds. Raises BadInput where the source is missing or not of the kind that is needed."""


class OfModel(Report):
    """The report on a language model, on one made by hand, or on one that has learnt nothing."""

    model: str
    trained: bool = True
    seed: int

    def opened(self, by_hand: Callable[[], Opened] | None = None) -> Opened:
        """The model, on one thread; with weights drawn anew by the seed if it is not to be trained."""
        from hopscope.language.checkpoints import open_model
        from hopscope.language.lens.untrained import untrained

        opened = by_hand() if by_hand and self.model == "by_hand" else open_model(self.model, threads=1)
        return opened if self.trained else untrained(opened, self.seed)


class OfTable(Report):
    """What another study found, read off its committed table: studies import nothing of one another.

    Attributes:
        experiment: which wrote the table.
    """

    source = "folder"
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
        """What of the table is needed."""
