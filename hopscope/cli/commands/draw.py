"""`hopscope draw DIR`: the pictures of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hopscope.cli.options import as_json, out_option, print_json, progress, run_folder, say_unverified, tell_files
from hopscope.core.places import check_out
from hopscope.core.storage import make_folder
from hopscope.core.terminal import Narrator
from hopscope.runs.run import is_shipped, load, place_for


@click.command("draw")
@run_folder
@out_option("Where to write; default DIR/pictures (for packaged, packaged-pictures).")
@progress
@as_json
def command(folder: Path, out: Path | None, as_json: bool) -> None:
    """Draw the run in DIR: its problem, its curves, its attention maps (SVG and PNG)."""
    with Narrator("reading the run") as watch:
        run = load(folder)
        _ = run.model, run.rows  # raises at once if there is nothing to draw, or a file is damaged
        say_unverified([run.path])
        place = out or (place_for(folder, "pictures") if is_shipped(folder) else folder / "pictures")
        check_out(place, run.path)
        make_folder(place)  # before the first message
        watch("loading the plotting library")
        from hopscope.drawing.run_pictures import draw

        drawn = draw(run, place, watch)
    if as_json:
        print_json({"run": str(run.path), "pictures": as_value(drawn)})
    else:
        tell_files(drawn)


Drawn = list[tuple[list[Path], str]]


def as_value(drawn: Drawn) -> list[dict[str, Any]]:
    """For JSON: the files of each picture and what they show."""
    return [{"files": [str(path) for path in paths], "shows": words} for paths, words in drawn]
