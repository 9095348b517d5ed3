"""`hopscope export DIR`: a model or its circuit in the format of another tool."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from hopscope.cli.options import out_option, run_folder, say, say_unverified
from hopscope.core.places import check_out
from hopscope.core.settings import BadInput
from hopscope.core.storage import discard, enlist, make_folder, unlist, write_file
from hopscope.runs.run import Run, load, place_for

LENS = ("load.py", "config.json", "weights.safetensors", "inputs.safetensors")  # the first identifies an export
GRAPH = ("graph.json",)
#: The first bytes of files that identify an export of hopscope.
OURS = (b'"""Loads this model: python -i load.py', b'{"hopscope"', b'{"metadata": {"slug": "hopscope-')


def watch(words: str) -> None:
    """Print what is being done on stderr."""
    print(f"hopscope: {words} …", file=sys.stderr)


def to_transformer_lens(run: Run, place: Path) -> tuple[dict[str, bytes], str]:
    """Weights, configuration and a script that loads them."""
    from hopscope.runs.exporting import transformer_lens_files

    words = f"the model, as a HookedTransformer of TransformerLens: python -i {place / 'load.py'}"
    return transformer_lens_files(run.model, run.task), words


def to_neuronpedia(run: Run, place: Path) -> tuple[dict[str, bytes], str]:
    """The circuit on one sequence as an attribution graph."""
    from hopscope.circuits.discovery import discover
    from hopscope.circuits.export.neuronpedia import attribution_graph

    circuit = discover(run.model, run.task, watch=watch)
    shape, name = run.model.architecture, f"hopscope-{run.task.name()}-{run.config.identity}"
    graph = attribution_graph(circuit, run.task.sample(1, 0), shape, run.task.name(), name)
    words = f"the circuit as an attribution graph (verdict: {circuit.verdict}; {circuit.reason})"
    return {"graph.json": json.dumps(graph, allow_nan=False).encode()}, words


class Format(NamedTuple):
    """The format of a tool.

    Attributes:
        names: of all files that may be written; the first one identifies an earlier export.
        make: gives the contents of the files of a run by name, and a sentence about them.
    """

    names: tuple[str, ...]
    make: Callable[[Run, Path], tuple[dict[str, bytes], str]]


FORMATS = {
    "transformer-lens": Format(LENS, to_transformer_lens),
    "neuronpedia": Format(GRAPH, to_neuronpedia),
}


def check_place(place: Path, names: Sequence[str]) -> None:
    """Raise BadInput for files that would be replaced and are not from an earlier export."""
    there = [place / name for name in names if os.path.lexists(place / name)]
    if folders := [path for path in there if path.is_dir()]:
        raise BadInput(f"could not write {folders[0]}: there is a folder of this name; choose another --out")
    if there and not is_export(place / names[0]):
        raise BadInput(f"could not write {there[0]}: it exists and is no export of hopscope; choose another --out")


def is_export(file: Path) -> bool:
    """Whether a file begins as an export does; False for one that cannot be read."""
    try:
        with file.open("rb") as stream:
            return stream.read(64).startswith(OURS)
    except OSError:
        return False


def write(run: Run, place: Path, files: Mapping[str, bytes], names: Sequence[str]) -> list[Path]:
    """Write an export in place of an earlier one; inside its run's folder it is listed in the run's manifest.

    Raises CannotSave, Damaged (the run's manifest).
    """
    inside = place.relative_to(run.path) if place.is_relative_to(run.path) else None
    if inside is not None:
        unlist(run.path, [str(inside / name) for name in names])
    make_folder(place)
    for name in sorted(files, key=names.index):
        write_file(place / name, files[name])
    for name in {*names} - {*files}:
        discard(place / name)
    if inside is not None:
        enlist(run.path, [str(inside / name) for name in files])
    return [place / name for name in files]


@click.command("export")
@run_folder
@click.option(
    "--to",
    "tool",
    required=True,
    type=click.Choice(list(FORMATS)),
    help="transformer-lens: the model; neuronpedia: its circuit as an attribution graph.",
)
@out_option("Where to write; default a folder of the tool's name in DIR.", "OUT")
def command(folder: Path, tool: str, out: Path | None) -> None:
    """Write the model in DIR, or its circuit, in the format of another tool."""
    run = load(folder)
    place = out or place_for(folder, "export") / tool
    check_out(place, run.path, whole=False)
    say_unverified([run.path])
    names, make = FORMATS[tool]
    check_place(place, names)
    files, words = make(run, place)
    written = write(run, place, files, names)
    say(f"{' '.join(map(str, written))}\n    {words}")
