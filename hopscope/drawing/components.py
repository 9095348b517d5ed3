"""Circuits of components: their files, and the picture of faithfulness over sizes (after MIB, 2025)."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopscope.circuits.components.circuit import SIGNED, ComponentCircuit
from hopscope.circuits.components.curve import normalised
from hopscope.circuits.export.formats import eap_ig_json, graph_of
from hopscope.core.storage import enlist, make_folder, unlist, write_file
from hopscope.drawing.style import GREY, canvas, colour, save, styled
from hopscope.models.base import Shape


@styled
def faithfulness_curves(circuit: ComponentCircuit, *, ax: Axes | None = None) -> Figure:
    """Faithfulness of the first k units of each ranking (dotted: by signed scores), and of the circuit.

    Args:
        circuit: the circuit with its curves.
        ax: axes to draw on; by default those of a new figure.
    """
    figure, ax = canvas(ax, 7.6, 3.8)
    for height in (0.0, 1.0):
        ax.axhline(height, color=GREY, lw=0.8)
    methods = [name for name in circuit.curves if not name.endswith(SIGNED)]
    for index, name in enumerate(methods):
        for ranking, style in ((name, "-"), (name + SIGNED, ":")):
            if ranking in circuit.curves:
                curve = circuit.curves[ranking]
                inside = [(k, f) for k, f in zip(curve.sizes, curve.faithfulness, strict=True) if k]
                label = f"ranked by {name}" if ranking == name else None
                ax.plot(*zip(*inside, strict=True), color=colour(index), lw=1.6, ls=style, marker=".", label=label)
    if circuit.kept:
        one = circuit.curves[methods[0]]
        at = normalised(circuit.losses["circuit"].mean, one.model, one.null)
        ax.plot([len(circuit.kept)], [at], "*", ms=12, color=colour(len(methods)), label="the circuit")
    ax.set(xscale="log", xlabel=f"{circuit.unit} kept", ylabel="faithfulness", ylim=(-0.6, 1.4))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.3)
    return figure


def store_components(circuit: ComponentCircuit, shape: Shape, folder: Path) -> list[tuple[list[Path], str]]:
    """Write the circuit, its graph for EAP-IG and its picture; returns files with what they show. Raises CannotSave."""
    stored, pictures = circuit.save(folder), folder / "pictures"
    make_folder(pictures)
    names = [f"pictures/{circuit.unit}{end}" for end in (".svg", ".png", "_eap_ig.json")]
    unlist(folder, names)
    figure = save(faithfulness_curves(circuit), pictures / circuit.unit)
    graph = folder / names[-1]
    ours = {"edges": {**circuit.protocol, "verdict": circuit.verdict}}
    write_file(graph, eap_ig_json(graph_of(circuit, shape), ours).encode())
    enlist(folder, names)
    return [
        (stored, f"every one of the {circuit.unit}, measured, and the circuit"),
        (figure, "faithfulness over sizes (dotted: ranked by signed scores)"),
        ([graph], "the circuit as EAP-IG and MIB read it"),
    ]
