"""What a reading of a language model is: something found inside it, told as a report, a table and pictures.

A study brings one as a file of its folder `language/readings`; its name is the file's. `hopscope lm heads` and
`hopscope.live.language` find it there, so that the laboratory knows of no study.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hopscope.core.settings import Settings
from hopscope.formulations.base import Formulation
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Layout

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Watch = Callable[[str], None]


class Reading(ABC):
    """How something inside a language model is found and told.

    Attributes:
        file: name of the report's file, such as heads.json.
        settings: the class of its settings, which say how much is measured.
    """

    file: ClassVar[str]
    settings: ClassVar[type[Settings]]

    @abstractmethod
    def measure(
        self, opened: Opened, formulation: Formulation, layout: Layout, settings: Any, watch: Watch
    ) -> tuple[dict[str, Any], DataFrame | None]:
        """The report, and a table with one row per head if there is one. Raises BadInput for what does not fit.

        Args:
            opened: the model.
            formulation: the questions' wording; of no use to a reading that asks no questions of ours.
            layout: how a question is put.
            settings: of the reading's class of settings.
            watch: told in words what is being done.
        """

    @abstractmethod
    def lines(self, report: Mapping[str, Any]) -> Iterator[str]:
        """The report for people."""

    @abstractmethod
    def pictures(self, report: Mapping[str, Any], table: DataFrame | None) -> Iterator[tuple[str, Figure]]:
        """Pictures by name; none where nothing was found."""
