"""`hopscope.find_heads`, `hopscope.find_hop`: the heads and the circuit of a language model that is in memory.

They measure what `hopscope lm heads` measures, on a model of transformers, nnsight or TransformerLens that the caller
has loaded (`hopscope.language.lent`). The measurements are plug-ins, which studies provide
(`hopscope.language.readings.base`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hopscope.core import catalogue
from hopscope.core.settings import BadInput, Settings
from hopscope.core.storage import enlist, listed, make_folder, unlist, write_file, write_json
from hopscope.formulations.base import Formulation, of_one_hop
from hopscope.language.layouts.base import Layout
from hopscope.language.lent import lent
from hopscope.language.readings.base import Reading, Watch

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from hopscope.language.checkpoints import Opened


def find_heads(
    model: Any,
    tokenizer: Any = None,
    *,
    formulation: str | Formulation = "equations",
    layout: str | Layout = "code",
    settings: Settings | None = None,
    name: str = "",
    watch: Watch = lambda _: None,
) -> FoundHeads:
    """Find the heads of a language model that do one hop, as `hopscope lm heads` does (docs/heads.md).

    Args:
        model: a Hugging Face causal language model, or nnsight's or TransformerLens 3's wrapper of one; float32, on
            the CPU. It is not changed.
        tokenizer: its tokenizer; by default that of the wrapper.
        formulation: the wording of questions: a name, or an instance with settings. By name it has one hop if its
            wording allows that.
        layout: how a question is presented: a name, or an instance with settings.
        settings: how much is measured: an instance of the reading's `settings`, by default with default values.
        name: the model's name in reports.
        watch: called with a description of each stage.

    Raises:
        BadInput: model or questions do not fit.
    """
    return read(FoundHeads, lent(model, tokenizer, name), worded(formulation), laid_out(layout), settings, watch)


def find_hop(
    model: Any,
    tokenizer: Any = None,
    *,
    formulation: str | Formulation = "equations",
    layout: str | Layout = "code",
    settings: Settings | None = None,
    name: str = "",
    watch: Watch = lambda _: None,
) -> FoundHop:
    """Find the circuit of a language model's hop in heads, MLPs and edges, as `hopscope lm heads --circuit` does.

    For a formulation of two hops that the model fails, the result says why (docs/hop_circuit.md). Arguments and errors
    are those of `find_heads`.
    """
    return read(FoundHop, lent(model, tokenizer, name), worded(formulation), laid_out(layout), settings, watch)


def worded(formulation: str | Formulation) -> Formulation:
    """The formulation of a name, with one hop if its wording allows that; an instance is returned unchanged."""
    return of_one_hop(formulation) if isinstance(formulation, str) else formulation


def laid_out(layout: str | Layout) -> Layout:
    """The layout of a name; an instance is returned unchanged."""
    return catalogue.find("language.layouts", layout)() if isinstance(layout, str) else layout


@dataclass(frozen=True)
class Found:
    """The result of a reading; `print` summarises it.

    Attributes:
        report: the content of the report's file (docs/schema.md).
        table: one row per head, with scores from 0 to 1; None if the reading has no table.
        reading: the reading that measured it.
    """

    kind: ClassVar[str]
    report: dict[str, Any] = field(repr=False)
    table: DataFrame | None = field(repr=False)
    reading: Reading = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(self.reading.lines(self.report))

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """The pictures with their names."""
        return self.reading.pictures(self.report, self.table)

    def save(self, folder: Path) -> list[Path]:
        """Write report, table and pictures, each file completely or not at all. Raises BadInput, CannotSave."""
        from hopscope.drawing.style import save

        if folder.exists() and not folder.is_dir():
            raise BadInput(f"results are written to a folder, and {folder} is a file; choose another name")
        make_folder(folder)
        unlist(folder, listed(folder))
        files = [folder / self.reading.file]
        write_json(files[0], self.report)
        if self.table is not None:
            files.append(folder / "table.csv")
            write_file(files[1], self.table.to_csv(index=False, float_format="%.6g").encode())
        for name, picture in self.figures():
            files += save(picture, folder / name)
        enlist(folder, [file.name for file in files])
        return files


class FoundHeads(Found):
    """The heads that do one hop: heads.json, and the picture `scores`; if a hop was found also `roles`, `stacking`."""

    kind = "heads"


class FoundHop(Found):
    """The circuit of one hop: circuit.json."""

    kind = "circuit"

    def diagram(self) -> Figure:
        """The circuit, from the question's tokens to the answer. Raises BadInput if none was found."""
        for _, picture in self.figures():
            return picture
        raise BadInput(f"there is no circuit to draw: {self.report['model']} does not do the hop")


class FoundNeedles(Found):
    """The heads that copy from a long text: retrieval.json, and the picture `scores`."""

    kind = "needles"


SomeFound = TypeVar("SomeFound", bound=Found)


def reading_of(found: type[Found]) -> Reading:
    """The reading that makes a kind of result."""
    return catalogue.find("language.readings", found.kind)()


def read(
    found: type[SomeFound],
    opened: Opened,
    formulation: Formulation,
    layout: Layout,
    settings: Settings | None,
    watch: Watch,
) -> SomeFound:
    """The result of a reading on an opened model."""
    reading = reading_of(found)
    report, table = reading.measure(opened, formulation, layout, settings or reading.settings(), watch)
    return found(report, table, reading)
