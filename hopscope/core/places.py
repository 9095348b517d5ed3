"""What a folder is, and what may be written into it, so that no page or picture overwrites a run or results.

What is computed about a run is written into that run's folder, or into a folder that belongs to no run or results. A
page may replace only a page that hopscope wrote.
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
DONE = "DONE"  # in no manifest, because it is written after it
CHECKPOINTS = "checkpoints"
PAGE = "explorer.html"  # in the folder of a run or of results
HEAD = 1 << 16  # bytes at the start of a page in which its marks are looked for
BEGUN, ICON = b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">', b'<link rel="icon" href="data:,">'
CALLED: dict[Kind, str] = {
    "run": "the folder of a run",
    "work": "the folder of an experiment's work",
    "results": "a folder of results",
}


def kind_of(folder: Path) -> Kind | None:
    """What a folder is; None if it is none of ours."""
    if has(folder, "config.json") and not is_foreign(folder):
        return "run"
    if has(folder, CLAIMS) or has(folder, TABLE):
        return "results"
    if has(folder, DONE):
        return "run" if os.path.isdir(folder / CHECKPOINTS) else "work"  # a run that lost its config.json
    return "files" if has(folder, MANIFEST) else None


def has(folder: Path, name: str) -> bool:
    """Whether a folder has a file; False also where it may not be looked for."""
    return os.path.isfile(folder / name)


def is_foreign(folder: Path) -> bool:
    """Whether a folder's config.json is another program's; one that cannot be read counts as a run's."""
    if os.path.isdir(folder / CHECKPOINTS):
        return False
    try:
        stored = read_json(folder / "config.json")
    except BadInput:
        return False
    return isinstance(stored, dict) and bool(stored) and not {"format", "identity"} & {*stored}


def home_of(path: Path) -> Path | None:
    """The folder of a run, work or results that a path is, or lies in; None if there is none. It need not exist yet.

    A table.csv or DONE counts only beside claims or a manifest of ours, for other programs write such files too.
    """
    place = Path(os.path.realpath(path))
    for folder in (place, *place.parents):
        kind = kind_of(folder)
        if kind == "run" or (kind in ("work", "results") and (has(folder, CLAIMS) or names_in(folder))):
            return folder
    return None


def names_in(folder: Path) -> dict[str, Any]:
    """A folder's manifest entries, by name; empty where there is no manifest, or an altered one."""
    try:
        return listed(folder)
    except BadInput:
        return {}


def inside(folder: Path) -> list[Path]:
    """Folders of ours within a folder: directly, in its `results/`, or in the `results/` of a study in it."""
    paths = sorted(path for pattern in ("*", "results/*", "*/results/*") for path in folder.glob(pattern))
    return [path for path in paths if not path.name.startswith(".") and path.is_dir() and kind_of(path) is not None]


def is_installed(path: Path) -> bool:
    """Whether a path lies in an installed package, where users' files do not belong."""
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


# What may be written ---------------------------------------------------------------------------------------------


def check_out(out: Path, run: Path | None = None, *, whole: bool = True, tables: bool = False) -> None:
    """Raise BadInput if an output folder is, or lies in, a run, work or results of which its files would be no part.

    Args:
        out: the output folder; it need not exist yet.
        run: a run whose own folder is allowed, except for its checkpoints.
        whole: whether `out` may be the run's folder itself rather than a folder in it.
        tables: whether `out` may hold a table without claims, as the folder of an evaluation does.
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
    raise BadInput(f"{out} {where} {CALLED[kind or 'run']}, to which this would not belong; choose another folder")


def check_page(page: Path) -> None:
    """Raise BadInput for a file that a page must not replace.

    Such a file belongs to a run or results, is listed in a manifest, or exists and is not a page that hopscope wrote.
    """
    place, home = Path(os.path.realpath(page)), home_of(page.parent)
    if home is not None and (place.suffix != ".html" or place.relative_to(home).parts[:1] == (CHECKPOINTS,)):
        what = CALLED[kind_of(home) or "run"]
        raise BadInput(f"could not write {page}: {home} is {what}; choose a file elsewhere, or another name in .html")
    if place.name != PAGE and any(str(place.relative_to(above)) in names_in(above) for above in place.parents):
        raise BadInput(f"could not write {page}: a manifest lists it as it is; choose another file")
    if os.path.lexists(place) and not os.path.isdir(place) and not is_page(place):
        raise BadInput(f"could not write {page}: it exists and is not a page that hopscope wrote; choose another file")


def is_page(file: Path) -> bool:
    """Whether a file is a page that hopscope wrote, or empty."""
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
    """Context manager for writing a page; a manifest that lists it is updated. Raises BadInput as `check_page` does."""
    check_page(page)
    folder = page.parent
    listed_here = page.name in names_in(folder)
    if listed_here:
        unlist(folder, [page.name])
    yield
    if listed_here:
        enlist(folder, [page.name])
