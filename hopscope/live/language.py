"""`hopscope.find_heads`, `hopscope.find_hop`: the heads and the circuit of a language model that is in memory already.

What `hopscope heads` measures of a model that it opens by name, of one that its owner has: from transformers, nnsight
or TransformerLens (`hopscope.language.lent`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.core.storage import clear_errors, enlist, listed, unlist, write_file, write_json
from hopscope.formulations.base import Formulation, of_one_hop
from hopscope.language.circuit import words as circuit_words
from hopscope.language.circuit.study import CircuitStudy, circuit_study
from hopscope.language.circuit.why import WhyStudy, why
from hopscope.language.heads import words as heads_words
from hopscope.language.heads.hop import HeadStudy
from hopscope.language.heads.study import study
from hopscope.language.layouts.base import Layout
from hopscope.language.lent import lent

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from hopscope.drawing.language_circuit import Shown
    from hopscope.language.checkpoints import Opened

Watch = Callable[[str], None]


def find_heads(
    model: Any,
    tokenizer: Any = None,
    *,
    formulation: str | Formulation = "equations",
    layout: str | Layout = "code",
    settings: HeadStudy | None = None,
    name: str = "",
    watch: Watch = lambda _: None,
) -> FoundHeads:
    """Find the heads of a language model that do one hop; as `hopscope heads` (docs/heads.md).

    Args:
        model: a Hugging Face causal language model, or nnsight's or TransformerLens 3's wrapper of one; float32, on
            the CPU. It is left as it is.
        tokenizer: its tokenizer; the wrapper's by default.
        formulation: the questions' wording: a name, then of one hop if it can be, or one with settings.
        layout: how a question is put: a name, or one with settings.
        settings: how much is measured.
        name: what the model is called.
        watch: told in words what is being done.

    Raises:
        BadInput: model or questions do not fit.
    """
    return heads_of(lent(model, tokenizer, name), worded(formulation), laid_out(layout), settings, watch)


def find_hop(
    model: Any,
    tokenizer: Any = None,
    *,
    formulation: str | Formulation = "equations",
    layout: str | Layout = "code",
    settings: CircuitStudy | None = None,
    name: str = "",
    watch: Watch = lambda _: None,
) -> FoundHop:
    """Find the circuit of a language model's hop in heads, MLPs and edges; as `hopscope heads --circuit`.

    Of a formulation of two hops that the model does not do, it tells why (docs/hop_circuit.md). Arguments and errors
    are those of `find_heads`.
    """
    return hop_of(lent(model, tokenizer, name), worded(formulation), laid_out(layout), settings, watch)


def heads_of(
    opened: Opened, formulation: Formulation, layout: Layout, settings: HeadStudy | None, watch: Watch
) -> FoundHeads:
    """The heads of an opened model."""
    from pandas import DataFrame

    made = study(opened, formulation, layout, settings or HeadStudy(), watch)
    return FoundHeads(made.report, DataFrame(made.rows()))


def hop_of(
    opened: Opened, formulation: Formulation, layout: Layout, settings: CircuitStudy | None, watch: Watch
) -> FoundHop:
    """The circuit of an opened model's hop."""
    settings = settings or CircuitStudy()
    report = circuit_study(opened, formulation, layout, settings, watch)
    if "nodes" not in report and formulation.n_hops == 2:
        further = WhyStudy(count=settings.count, seed=settings.seed)
        report["why"] = why(opened, formulation, layout, further, watch)
    return FoundHop(report)


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
class FoundHeads:
    """What was found; `print` tells it in words.

    Attributes:
        report: what heads.json holds (docs/schema.md).
        table: one row per head, with its scores from 0 to 1.
    """

    report: dict[str, Any] = field(repr=False)
    table: DataFrame = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(heads_words.lines(self.report))

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Pictures by name: `scores`; if a hop was found also `roles` and `stacking`."""
        from hopscope.drawing.heads import head_maps, role_maps, stacking_diagram

        yield "scores", head_maps(self.table, self.report["model"])
        if self.report.get("heads"):
            yield "roles", role_maps(self.report["heads"], self.report["hop"]["roles"], self.report["model"])
            yield "stacking", stacking_diagram(self.report)

    def save(self, folder: Path) -> list[Path]:
        """Write heads.json, table.csv and the pictures, each wholly or not at all. Raises BadInput, CannotSave."""
        from hopscope.drawing.style import save

        begin(folder)
        write_json(folder / "heads.json", self.report)
        write_file(folder / "table.csv", self.table.to_csv(index=False, float_format="%.6g").encode())
        files = [folder / "heads.json", folder / "table.csv"]
        for name, picture in self.figures():
            files += save(picture, folder / name)
        enlist(folder, [file.name for file in files])
        return files


@dataclass(frozen=True)
class FoundHop:
    """What was found; `print` tells it in words.

    Attributes:
        report: what circuit.json holds (docs/schema.md).
    """

    report: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(circuit_words.lines(self.report))

    def diagram(self) -> Figure:
        """The circuit, from the question's tokens to the answer. Raises BadInput where none was found."""
        from hopscope.drawing.language_circuit import hop_circuit

        if "places" not in self.report:
            raise BadInput(f"there is no circuit to draw: {self.report['model']} does not do the hop")
        seen = shown(self.report)
        title = f"{self.report['model']}: one hop by {len(seen.places)} places and {len(seen.edges)} edges"
        return hop_circuit(seen, title)

    def save(self, folder: Path) -> list[Path]:
        """Write circuit.json and the picture, each wholly or not at all. Raises BadInput, CannotSave."""
        from hopscope.drawing.style import save

        begin(folder)
        write_json(folder / "circuit.json", self.report)
        files = [folder / "circuit.json"]
        if "places" in self.report:
            files += save(self.diagram(), folder / "circuit")
        enlist(folder, [file.name for file in files])
        return files


def begin(folder: Path) -> None:
    """Make a folder, or take what was written there before off its list. Raises BadInput, CannotSave."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"the results must be a folder, and {folder} is a file; choose another")
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    unlist(folder, listed(folder))


def shown(report: dict[str, Any]) -> Shown:
    """What the picture shows of a report."""
    from hopscope.drawing.language_circuit import Shown
    from hopscope.language.circuit.portrait import looked_at

    asks, edges = report["asks"], [(*edge["ends"], edge["score"]) for edge in report["edges"]]
    return Shown(
        [one["place"] for one in report["places"]],
        edges,
        dict(zip(asks["names"], map(repr, asks["tokens"]), strict=True)),
        {one["place"]: seen for one in report["places"] if (seen := looked_at(one)[1])},
        asks["facts"].rpartition("\n")[0],
    ).on_the_way()
