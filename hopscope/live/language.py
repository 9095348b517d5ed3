"""`hopscope.find_heads`, `hopscope.find_hop`: the heads and the circuit of a language model that is in memory already.

What `hopscope lm heads` measures of a model that it opens by name, of one that its owner has: from transformers,
nnsight or TransformerLens (`hopscope.language.lent`). How it is measured and told stands with the studies that bring
each reading (`hopscope.language.readings.base`).
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
    """Find the heads of a language model that do one hop; as `hopscope lm heads` (docs/heads.md).

    Args:
        model: a Hugging Face causal language model, or nnsight's or TransformerLens 3's wrapper of one; float32, on
            the CPU. It is left as it is.
        tokenizer: its tokenizer; the wrapper's by default.
        formulation: the questions' wording: a name, then of one hop if it can be, or one with settings.
        layout: how a question is put: a name, or one with settings.
        settings: how much is measured: of the reading's class of settings, by default as it stands.
        name: what the model is called.
        watch: told in words what is being done.

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
    """Find the circuit of a language model's hop in heads, MLPs and edges; as `hopscope lm heads --circuit`.

    Of a formulation of two hops that the model does not do, it tells why (docs/hop_circuit.md). Arguments and errors
    are those of `find_heads`.
    """
    return read(FoundHop, lent(model, tokenizer, name), worded(formulation), laid_out(layout), settings, watch)


def worded(formulation: str | Formulation) -> Formulation:
    """A formulation by its name, of one hop where its wording allows it; one that is given, as it is."""
    return of_one_hop(formulation) if isinstance(formulation, str) else formulation


def laid_out(layout: str | Layout) -> Layout:
    """A layout by its name; one that is given, as it is."""
    if not isinstance(layout, str):
        return layout
    found: Layout = catalogue.find("language.layouts", layout)()
    return found


@dataclass(frozen=True)
class Found:
    """What was found; `print` tells it in words.

    Attributes:
        report: what the report's file holds (docs/schema.md).
        table: one row per head, with its scores from 0 to 1; None where there is none.
        reading: what found it.
    """

    kind: ClassVar[str]
    report: dict[str, Any] = field(repr=False)
    table: DataFrame | None = field(repr=False)
    reading: Reading = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(self.reading.lines(self.report))

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Pictures by name."""
        return self.reading.pictures(self.report, self.table)

    def save(self, folder: Path) -> list[Path]:
        """Write report, table and pictures, each wholly or not at all. Raises BadInput, CannotSave."""
        from hopscope.drawing.style import save

        if folder.exists() and not folder.is_dir():
            raise BadInput(f"the results must be a folder, and {folder} is a file; choose another")
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
    """The heads that do one hop: heads.json, and pictures `scores`; if a hop was found also `roles` and `stacking`."""

    kind = "heads"


class FoundHop(Found):
    """The circuit of one hop: circuit.json."""

    kind = "circuit"

    def diagram(self) -> Figure:
        """The circuit, from the question's tokens to the answer. Raises BadInput where none was found."""
        for _, picture in self.figures():
            return picture
        raise BadInput(f"there is no circuit to draw: {self.report['model']} does not do the hop")


class FoundNeedles(Found):
    """The heads that copy out of a long text: retrieval.json, and the picture `scores`."""

    kind = "needles"


SomeFound = TypeVar("SomeFound", bound=Found)


def reading_of(found: type[Found]) -> Reading:
    """How it is found."""
    reading: Reading = catalogue.find("language.readings", found.kind)()
    return reading


def read(
    found: type[SomeFound],
    opened: Opened,
    formulation: Formulation,
    layout: Layout,
    settings: Settings | None,
    watch: Watch,
) -> SomeFound:
    """What a reading finds in an opened model."""
    reading = reading_of(found)
    report, table = reading.measure(opened, formulation, layout, settings or reading.settings(), watch)
    return found(report, table, reading)
