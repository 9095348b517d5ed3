"""A run's circuit, from the search to pictures, for `hopscope circuit` and the end of `hopscope demo`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.components.patching import Patching
from hopscope.circuits.discovery import Discovery, discover
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.export.formats import to_eap_ig
from hopscope.circuits.judging.stability import Stability, stability
from hopscope.circuits.words import paragraph, symbols_at
from hopscope.core.settings import BadInput
from hopscope.core.storage import enlist, unlist, write_file
from hopscope.drawing.attention_page import attention_page
from hopscope.drawing.circuit_diagram import circuit_diagram
from hopscope.drawing.style import save
from hopscope.drawing.views import views
from hopscope.models.base import Model
from hopscope.problem.relations import Relations
from hopscope.runs.run import Run
from hopscope.tasks.base import Task
from hopscope.theory.depth import Mask, minimum_depth

SHOWN = 64  # sequences that losses on the page are taken over
DRAWN = ("circuit.svg", "circuit.png", "attention.html", "circuit_eap_ig.json")


@dataclass(frozen=True)
class Investigation:
    """A circuit in words, and where it is stored.

    Attributes:
        circuit: the result of the search.
        least: the fewest layers that any circuit for this task needs; None if theory does not say.
        words: the circuit in a paragraph.
        files: written files, with what they show.
        stability: whether other seeds of the search agree, if asked for.
    """

    circuit: Circuit
    least: int | None
    words: str
    files: list[tuple[list[Path], str]]
    stability: Stability | None = None


def investigate(
    run: Run,
    folder: Path,
    settings: Discovery | None = None,
    *,
    step: int | None = None,
    seeds: int = 1,
    watch: Callable[[str], None] = lambda _: None,
) -> Investigation:
    """Search for the circuit of a run; write it, its proof log, its picture and its page of attention.

    Args:
        run: trained, built or imported.
        folder: the output folder; made if it is missing.
        settings: of the search; by default all at their defaults.
        step: the checkpoint's step; by default the newest.
        seeds: number of searches; with more than one they are compared.
        watch: called with a description of each step of the work.

    Raises:
        BadInput: there is no such checkpoint.
        CannotSave: the folder cannot be written to.
    """
    model = run.model if step is None else run.at(step)
    circuit = discover(model, run.task, settings or Discovery(), watch)
    circuit = replace(circuit, protocol={**circuit.protocol, **run.told_of(step)})
    least = least_for(run.task, model)
    words = paragraph(circuit, run.task, least)
    how = settings or Discovery()
    stable = stability(circuit, model, run.task, how, seeds, watch) if seeds > 1 else None
    stored = circuit.save(folder, **({"stability": stable.as_dict()} if stable else {}))
    files = [(stored, "the circuit, and every hypothesis that was tried")]
    watch("drawing")
    files += draw(model, run.task, circuit, words, folder / "pictures", shown_name(run.path))
    return Investigation(circuit, least, words, files, stable)


def shown_name(path: Path) -> str:
    """A folder's name on pages and pictures, which others may see; of an absolute path only its last part."""
    return path.name if path.is_absolute() else str(path)


def least_for(task: Task, model: Model) -> int | None:
    """The exact minimum depth of plain retrieval (docs/theory.md); None if theory does not say."""
    hops, order = getattr(task, "n_hops", None), getattr(task, "order", None)
    if task.name() not in ("retrieval", "symbolic_retrieval") or hops is None or order is None:
        return None
    mask: Mask = "causal" if model.architecture.causal else "none"
    return minimum_depth(hops, mask, "one" if model.architecture.n_heads == 1 else "many", order).min_layers


def lab_of(evaluator: Evaluator) -> Patching | None:
    """The model as a graph of edges; None if its layers cannot be run separately."""
    try:
        return Patching(evaluator.model, evaluator.batch)
    except BadInput:
        return None


def draw(
    model: Model, task: Task, circuit: Circuit, words: str, folder: Path, name: str
) -> list[tuple[list[Path], str]]:
    """Draw the circuit's picture and its page of attention, and export its component graph.

    The files are listed in the manifest of the folder above, which holds circuit.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unlist(folder.parent, [f"{folder.name}/{drawn}" for drawn in DRAWN])
    evaluator = Evaluator(model, task.sample(SHOWN, 0))
    batch = evaluator.batch
    files = []
    if circuit.paths and not isinstance(batch.searched, Relations):  # paths of relations start at all positions
        figure = circuit_diagram(
            [part.path for part in circuit.paths],
            batch.roles,
            symbols_at(batch, 0),
            strengths={part.path: part.strength for part in circuit.paths},
            removal={part.path: part.removal_loss for part in circuit.paths},
            interchangeable=circuit.interchangeable,
            n_layers=model.architecture.n_layers,
            title=name,
        )
        files.append((save(figure, folder / "circuit"), "who attends to whom, layer by layer"))
    page = attention_page(views(evaluator, circuit, words=words), name)
    write_file(folder / "attention.html", page.encode())
    files.append(([folder / "attention.html"], "attention as it is, by hand, and the difference (opens offline)"))
    write_file(folder / "circuit_eap_ig.json", to_eap_ig(circuit, model.architecture, lab=lab_of(evaluator)).encode())
    files.append(([folder / "circuit_eap_ig.json"], "the circuit's component graph, as EAP-IG and MIB read it"))
    enlist(folder.parent, [f"{folder.name}/{path.name}" for paths, _ in files for path in paths])
    return files
