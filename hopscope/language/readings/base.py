"""The interface of readings: measurements inside a language model with a report, a table and pictures.

A study provides one as a file in its folder `language/readings`, named after the file. `hopscope lm heads` and
`hopscope.live.language` find it there, so the laboratory does not depend on any study.
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
    """A measurement inside a language model, and its presentation.

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
        """The report, and a table with one row per head, or None. Raises BadInput for arguments that do not fit.

        Args:
            opened: the model.
            formulation: the wording of questions; ignored by a reading that has its own prompts.
            layout: how a question is presented.
            settings: an instance of the reading's `settings`.
            watch: called with a description of each stage.
        """

    @abstractmethod
    def lines(self, report: Mapping[str, Any]) -> Iterator[str]:
        """The report as lines of text."""

    @abstractmethod
    def pictures(self, report: Mapping[str, Any], table: DataFrame | None) -> Iterator[tuple[str, Figure]]:
        """Pictures by name; none if nothing was found."""
