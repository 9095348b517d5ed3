"""`hopscope draw DIR`: the pictures of a run."""

from __future__ import annotations

from pathlib import Path

import click

from hopscope.cli.options import run_folder, say, say_unverified
from hopscope.runs.run import is_shipped, load, place_for


@click.command("draw")
@run_folder
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to; default DIR/pictures (for the demo that comes with hopscope, demo-pictures).",
)
def command(folder: Path, out: Path | None) -> None:
    """Draw the run in DIR: its problem, its curves, its attention maps (SVG and PNG)."""
    from hopscope.drawing.run_pictures import draw

    run = load(folder)
    _ = run.model  # complains at once if there is nothing to draw
    say_unverified([run.path])
    tell(draw(run, out or (place_for(folder, "pictures") if is_shipped(folder) else folder / "pictures")))


def tell(drawn: list[tuple[list[Path], str]]) -> None:
    """Where the pictures are, and what they show."""
    for paths, words in drawn:
        say(f"{' '.join(map(str, paths))}\n    {words}")
