"""`hopscope export DIR`: a model, or its circuit, for another tool."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import click

from hopscope.cli.options import PATH, say, say_unverified
from hopscope.core.places import check_out
from hopscope.core.storage import clear_errors, enlist, listed, unlist, write_file
from hopscope.runs.run import Run, load, place_for

SHOWN = "the model, as a HookedTransformer of TransformerLens"


def watch(words: str) -> None:
    """Say on stderr what is being done."""
    print(f"hopscope: {words} …", file=sys.stderr)


def to_transformer_lens(run: Run, folder: Path) -> tuple[list[Path], str]:
    """Weights, configuration and the lines that load them."""
    from hopscope.runs.exporting import write_transformer_lens

    return write_transformer_lens(run.model, run.task, folder), f"{SHOWN}: python -i {folder / 'load.py'}"


def to_neuronpedia(run: Run, folder: Path) -> tuple[list[Path], str]:
    """The circuit on one sequence as an attribution graph."""
    from hopscope.circuits.discovery import discover
    from hopscope.circuits.neuronpedia import attribution_graph

    circuit = discover(run.model, run.task, watch=watch)
    shape, name = run.model.architecture, f"hopscope-{run.task.name()}-{run.config.identity}"
    graph = attribution_graph(circuit, run.task.sample(1, 0), shape, run.task.name(), name)
    return written(folder / "graph.json", json.dumps(graph, allow_nan=False)), "the circuit as an attribution graph"


def to_eap_ig(run: Run, folder: Path) -> tuple[list[Path], str]:
    """The circuit of edges, all measured."""
    from hopscope.circuits.components.search import find_components
    from hopscope.circuits.exports import eap_ig_json, graph_of

    found = find_components(run.model, run.task, watch=watch)
    text = eap_ig_json(graph_of(found, run.model.architecture), {"edges": {**found.protocol, "verdict": found.verdict}})
    return written(folder / "graph.json", text), "the circuit of edges, as EAP-IG and MIB read it"


def written(path: Path, text: str) -> list[Path]:
    with clear_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode())
    return [path]


FORMATS: dict[str, Callable[[Run, Path], tuple[list[Path], str]]] = {
    "transformer-lens": to_transformer_lens,
    "neuronpedia": to_neuronpedia,
    "eap-ig": to_eap_ig,
}


@click.command("export")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--to",
    "tool",
    required=True,
    type=click.Choice(list(FORMATS)),
    help="transformer-lens: the model; neuronpedia: its circuit as an attribution graph; eap-ig: its circuit of edges.",
)
@click.option(
    "--out",
    type=PATH,
    metavar="OUT",
    help="Where to; default a folder of the tool's name in DIR.",
)
def command(folder: Path, tool: str, out: Path | None) -> None:
    """Write the model in DIR, or its circuit, in the format of another tool."""
    run = load(folder)
    place = out or place_for(folder, "export") / tool
    check_out(place, run.path, whole=False)
    say_unverified([run.path])
    if place.is_relative_to(run.path):
        inside = f"{place.relative_to(run.path)}/"
        unlist(run.path, [name for name in listed(run.path) if name.startswith(inside)])
    files, words = FORMATS[tool](run, place)
    if place.is_relative_to(run.path):  # as whatever else is found out about it, and kept with it
        enlist(run.path, [str(file.relative_to(run.path)) for file in files])
    say(f"{' '.join(map(str, files))}\n    {words}")
