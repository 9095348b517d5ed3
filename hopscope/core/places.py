"""What a folder is, and what may be written where: nothing of a run or of results is lost to a page or a picture.

Whatever is found out about a run goes into that run's folder, or into one that is nobody's. A page replaces a page of
ours, or nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from hopscope.core.settings import BadInput
from hopscope.core.storage import MANIFEST, enlist, listed, read_json, unlist

Kind = Literal["run", "work", "results", "files"]
TABLE, CLAIMS = "table.csv", "claims.json"
DONE = "DONE"  # lists nothing and is listed nowhere: it is written after the manifest
CHECKPOINTS = "checkpoints"
PAGE = "explorer.html"  # of a run, or of results, in their folder
HEAD = 1 << 16  # bytes in which a page of ours shows that it is one
BEGUN, ICON = b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">', b'<link rel="icon" href="data:,">'
CALLED: dict[Kind, str] = {
    "run": "the folder of a run",
    "work": "the folder of an experiment's work",
    "results": "a folder of results",
}


def kind_of(folder: Path) -> Kind | None:
    """What a folder is; None if it is nothing of ours."""
    if has(folder, "config.json") and not is_foreign(folder):
        return "run"
    if has(folder, CLAIMS) or has(folder, TABLE):
        return "results"
    if has(folder, DONE):
        return "run" if os.path.isdir(folder / CHECKPOINTS) else "work"  # a run's, whose config.json is gone
    return "files" if has(folder, MANIFEST) else None


def has(folder: Path, name: str) -> bool:
    """Whether there is such a file; one that may not be looked for is not there."""
    return os.path.isfile(folder / name)


def is_foreign(folder: Path) -> bool:
    """Whether a folder's config.json is another program's; one that cannot be read is taken for a run's."""
    if os.path.isdir(folder / CHECKPOINTS):
        return False
    try:
        stored = read_json(folder / "config.json")
    except BadInput:
        return False
    return isinstance(stored, dict) and bool(stored) and not {"format", "identity"} & {*stored}


def home_of(path: Path) -> Path | None:
    """The run, work or results that a path, of something that need not be there yet, is or is in; None if in none.

    A table.csv, or a DONE, that no manifest of ours lists or accompanies may be anybody's.
    """
    place = Path(os.path.realpath(path))
    for folder in (place, *place.parents):
        kind = kind_of(folder)
        if kind == "run" or (kind in ("work", "results") and (has(folder, CLAIMS) or names_in(folder))):
            return folder
    return None


def names_in(folder: Path) -> dict[str, Any]:
    """What a folder's manifest lists; nothing where there is none of ours, or an altered one."""
    try:
        return listed(folder)
    except BadInput:
        return {}


def inside(folder: Path) -> list[Path]:
    """Folders of something of ours: in a folder, in its `results/`, or in the `results/` of a study in it."""
    found = sorted(path for pattern in ("*", "results/*", "*/results/*") for path in folder.glob(pattern))
    return [path for path in found if not path.name.startswith(".") and path.is_dir() and kind_of(path) is not None]


def is_installed(path: Path) -> bool:
    """Whether a path is in an installed package, which is no place for what a person makes."""
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


# What may be written ---------------------------------------------------------------------------------------------


def check_out(out: Path, run: Path | None = None, *, whole: bool = True, tables: bool = False) -> None:
    """Raise BadInput for a folder to write into that is, or is in, what is not to be mixed with anything else.

    Args:
        out: the folder, which need not be there yet.
        run: whose own folder it may be, but not among its checkpoints.
        whole: whether it may be that very folder, and not only one in it.
        tables: whether it may be one that holds a table without claims, as evaluations do.
    """
    home = home_of(out)
    if home is None:
        return
    place = Path(os.path.realpath(out))
    if run is not None and home == Path(os.path.realpath(run)):
        if place.relative_to(home).parts[:1] == (CHECKPOINTS,):
            raise BadInput(f"{out} is among the checkpoints of {run}; choose another folder")
        if place == home and not whole:
            raise BadInput(f"{out} is the run itself, whose files would be replaced; choose another folder")
        return
    kind = kind_of(home)
    if tables and place == home and kind == "results" and not has(home, CLAIMS):
        return
    where = "is" if place == home else f"is in {home}, which is"
    raise BadInput(f"{out} {where} {CALLED[kind or 'run']}, of which this would be no part; choose another folder")


def check_page(page: Path) -> None:
    """Raise BadInput for a file that no page may be written to.

    It is one of a run or of results, listed in a manifest, or is there and no page of ours.
    """
    place, home = Path(os.path.realpath(page)), home_of(page.parent)
    if home is not None and (place.suffix != ".html" or place.relative_to(home).parts[:1] == (CHECKPOINTS,)):
        what = CALLED[kind_of(home) or "run"]
        raise BadInput(f"could not write {page}: {home} is {what}; choose a file elsewhere, or another name in .html")
    if place.name != PAGE and any(str(place.relative_to(above)) in names_in(above) for above in place.parents):
        raise BadInput(f"could not write {page}: a manifest lists it as it is; choose another file")
    if os.path.lexists(place) and not os.path.isdir(place) and not is_page(place):
        raise BadInput(f"could not write {page}: it is there, and is no page of ours; choose another file")


def is_page(file: Path) -> bool:
    """Whether a file is a page of ours, or empty."""
    if not os.path.isfile(file):
        return False
    try:
        with file.open("rb") as stream:
            head = stream.read(HEAD)
    except OSError:
        return False
    return not head or (head.startswith(BEGUN) and ICON in head)


@contextmanager
def replacing(page: Path) -> Iterator[None]:
    """Write a page; where its folder's manifest lists it, it is listed anew. Raises BadInput as `check_page` does."""
    check_page(page)
    folder = page.parent
    listed_here = page.name in names_in(folder)
    if listed_here:
        unlist(folder, [page.name])
    yield
    if listed_here:
        enlist(folder, [page.name])
