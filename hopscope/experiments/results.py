"""The results of experiments on disk: `results/NAME/table.csv`, and from it alone a figure and claims.json.

A study keeps its results in its own folder. A table holds rows of several scales; a scale that is measured again
replaces its own rows, and at scale `long` each cell replaces its own. All other rows are kept character for character.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import filelock
from pandas import DataFrame, concat, read_csv

from hopscope.configuration.config import Config
from hopscope.core import catalogue
from hopscope.core.places import CLAIMS, TABLE, has, inside, is_installed
from hopscope.core.storage import (
    Damaged,
    enlist,
    listed,
    make_folder,
    parse_json,
    parse_shaped,
    read_listed,
    unlist,
    write_file,
    write_json,
)
from hopscope.core.strangers import misfit
from hopscope.drawing.style import rendered
from hopscope.experiments.base import CELL_BY_CELL, SCALES, declared, experiment
from hopscope.experiments.judging import Claim
from hopscope.experiments.priors import COLUMN, prior_of
from hopscope.experiments.work import Finished, Work
from hopscope.runs.run import Run

LOCK = ".lock"
FIGURE = "figure.svg"
DRAWN = (FIGURE, CLAIMS)  # made from the table
HERE = Path("results")


TEXTS = ("id", "section", "sentence", "scale", "threshold", "verdict", "version")
CLAIM = {
    **{f.name: object for f in fields(Claim) if f.name != "interval"},  # which older files lack
    **dict.fromkeys(TEXTS, str),
    "spread": list,
    "interval?": (list, None),
    "runs": [str],
    "seeds": [int],
    "n": int,
}


def room(name: str) -> Path:
    """The folder of an experiment's results: in its study, or `results` here if the study is an installed package."""
    study = catalogue.home("experiments", name).path
    return HERE if is_installed(study) else study / "results"


def rooms() -> list[Path]:
    """All folders of results: `results` here, and those of all studies."""
    return [HERE, *(root.path / "results" for plugin in catalogue.plugins() for root in (plugin, *plugin.studies()))]


def results_in(*places: Path) -> list[Path]:
    """Every experiment's results in these places, or in studies there, by name; earlier places take precedence."""
    folders: dict[str, Path] = {}
    for folder in (folder for place in places for folder in inside(place)):
        if has(folder, TABLE) or has(folder, CLAIMS):
            folders.setdefault(folder.name, folder)
    return [folders[name] for name in sorted(folders)]


def today(folder: Path) -> Path:
    """A folder of results; an old path `results/NAME` that does not exist becomes the one in the study."""
    is_of_old = folder.parent == HERE and not folder.exists() and folder.name in catalogue.names("experiments")
    return room(folder.name) / folder.name if is_of_old else folder


def gone(folder: Path) -> str:
    """A sentence about a missing folder of results: where it is now, or what makes one."""
    if folder == HERE:
        ours = " or ".join(str(root.path) for root in catalogue.ours())
        return f"there is no folder {folder}: each study keeps its own; name {ours} for all of them"
    if (now := today(folder)) != folder:
        return f"there is no folder {folder}: it is in its study now, {now}"
    return f"there is no folder {folder}; 'hopscope reproduce NAME --scale cpu' makes results"


def make_ready(results: Path, name: str) -> None:
    """Make the folder of results before training, so that an unwritable one is noticed first.

    Raises CannotSave; and Damaged if the existing table, whose other scales are kept, was altered.
    """
    make_folder(results)
    if (results / name / TABLE).is_file():
        table_in(results / name)


def measured(source: ModuleType, done: Sequence[Run | Finished], scale: str) -> DataFrame:
    """An experiment's table of finished runs and work, with added columns for the scale and, if missing, the prior.

    The prior is added here so that no claim can leave it out.
    """
    table = source.table(done, scale).assign(scale=scale)
    priors = {run.config.identity: prior_of(run.config) for run in done if isinstance(run, Run)}
    is_complete = COLUMN in table or "run" not in table  # rows that are about no run have no prior
    return table if is_complete or not priors else table.assign(**{COLUMN: table.run.map(priors)})


def publish(name: str, table: DataFrame, results: Path) -> Path:
    """Merge a table into the one on disk, replacing its scales, and write figure and claims."""
    scales = set(table.scale)
    return rewrite(name, results, lambda earlier: [earlier[~earlier.scale.isin(scales)], as_text(table)])


def publish_cell(name: str, cell: Run | Finished, results: Path) -> Path:
    """Measure one cell, merge its rows into the table, and judge the claims again.

    Raises TypeError if the experiment's table has no rows of the cell, or rows of others.
    """
    table = measured(experiment(name), [cell], CELL_BY_CELL)
    identity = (cell.work if isinstance(cell, Finished) else cell.config).identity
    if set(table.get("run", ())) != {identity}:
        raise TypeError(f"the experiment {name} offers {CELL_BY_CELL}: each run must have rows of its own in the table")
    return publish_rows(name, table, results)


def publish_rows(name: str, table: DataFrame | None, results: Path) -> Path:
    """Merge cells' rows in the order of their declaration; rows of cells that are no longer declared are removed."""
    place = {config.identity: index for index, config in enumerate(declared(name, CELL_BY_CELL))}

    def merged(earlier: DataFrame) -> list[DataFrame]:
        cells = earlier[earlier.scale == CELL_BY_CELL]
        if table is not None:
            cells = concat([cells[~cells.run.isin(set(table.run))], as_text(table)])
        cells = cells[cells.run.isin(place)].sort_values("run", key=lambda run: run.map(place), kind="stable")
        return [earlier[earlier.scale != CELL_BY_CELL], cells]

    return rewrite(name, results, merged)


def rewrite(name: str, results: Path, merge: Callable[[DataFrame], list[DataFrame]]) -> Path:
    """Replace a table by its merged parts, then redraw figure and claims, under a lock.

    Rows are handled as text, so that kept rows stay the same character for character.
    """
    folder = results / name
    make_folder(folder)
    with filelock.FileLock(results / LOCK):  # drivers on several machines may end together
        there = (folder / TABLE).is_file()
        earlier = table_in(folder, as_text=True) if there else DataFrame(columns=["scale", "run"], dtype=str)
        table = concat([part for part in merge(earlier) if len(part)], ignore_index=True)
        unlist(folder, (TABLE, *DRAWN))
        write_file(folder / TABLE, table.to_csv(index=False).encode())
        redraw(name, folder)
    return folder


def as_text(table: DataFrame) -> DataFrame:
    """A table as its file has it: every entry as text, unknown ones empty."""
    written = io.StringIO(table.to_csv(index=False, float_format="%.6g"))
    return read_csv(written, dtype=str, keep_default_na=False)


def table_in(folder: Path, *, as_text: bool = False) -> DataFrame:
    """The table of a results folder; `as_text` keeps every entry as text.

    Raises Damaged if it is missing, altered, or not a table of results.
    """
    if not (folder / TABLE).is_file():
        raise Damaged(f"{folder / TABLE} cannot be read as a table: it is missing")
    data = read_listed(folder, TABLE)
    how: dict[str, Any] = {"dtype": str} if as_text else {"na_values": [""], "dtype": {"run": str, "version": str}}
    try:
        table = read_csv(io.BytesIO(data), keep_default_na=False, **how)
    except ValueError as error:  # includes pandas' own errors
        raise Damaged(f"{folder / TABLE} cannot be read as a table: {error}") from error
    if not {"scale", "run", "version"} <= set(table.columns):
        raise Damaged(f"{folder / TABLE} is not a table of results: it lacks a column scale, run or version")
    return table


def standing(folder: Path) -> set[str]:
    """Identities of the cells with rows in a folder of results. Raises Damaged as `table_in` does."""
    if not (folder / TABLE).is_file():
        return set()
    table = table_in(folder, as_text=True)
    return set(table.run[table.scale == CELL_BY_CELL])


def outstanding(name: str, scale: str, results: Path | None = None) -> list[Config | Work]:
    """An experiment's runs and work, at scale `long` without cells that have rows already. Raises BadInput, Damaged."""
    stand = standing(results / name) if results and scale == CELL_BY_CELL else ()
    return [config for config in declared(name, scale) if config.identity not in stand]


def redraw(name: str, folder: Path) -> None:
    """Write figure and claims, from table.csv alone: the figure at the largest scale in it, claims at each scale.

    All files are then listed in the folder's manifest. Raises Damaged if the table does not match the manifest.
    """
    source = experiment(name)
    table = table_in(folder)
    unlist(folder, DRAWN)
    scales = [scale for scale in SCALES if (table.scale == scale).any()]
    write_file(folder / FIGURE, rendered(source.figure(table[table.scale == scales[-1]]), "svg"))
    rows = [row for scale in scales for row in judged(source, table[table.scale == scale], scale)]
    write_json(folder / CLAIMS, rows)
    enlist(folder, (TABLE, *DRAWN))


def judged(source: ModuleType, table: DataFrame, scale: str) -> Iterator[dict[str, Any]]:
    """The claims as rows of claims.json. At scale `quick`, which only tests the code, every verdict is undecided.

    Raises the error of `catalogue.not_whole` if two claims have the same id.
    """
    claim: Claim
    ids: set[str] = set()
    for claim in source.claims(table):
        if claim.id in ids:
            raise catalogue.not_whole(source, f"makes two claims with the id {claim.id}; each needs its own")
        ids.add(claim.id)
        row = asdict(claim) | {"spread": list(claim.spread), "seeds": list(claim.seeds)}
        row |= {"verdict": "undecided" if scale == "quick" else claim.verdict}
        row |= {"number": finite(claim.number), "spread": [finite(x) for x in claim.spread]}
        row |= {"interval": claim.interval and [finite(x) for x in claim.interval]}
        yield {
            **row,
            "scale": scale,
            "runs": sorted(map(str, table.run.unique())),
            "version": ", ".join(sorted(map(str, table.version.unique()))),
        }


def finite(number: float) -> float | None:
    """A number for JSON, rounded to six decimals; None for NaN and infinities, which JSON does not have."""
    return round(float(number), 6) if math.isfinite(number) else None


def claim_ids(name: str) -> list[str]:
    """The ids of an experiment's claims in its study's results; empty without results. Raises Damaged."""
    path = catalogue.home("experiments", name).path / "results" / name / CLAIMS
    rows = parse_shaped(path, read_listed(path.parent, CLAIMS), [CLAIM]) if path.is_file() else []
    return list(dict.fromkeys(row["id"] for row in rows))


def all_claims(*places: Path) -> list[dict[str, Any]]:
    """Every claim in these places, with its experiment: the data of `hopscope report`. Raises Damaged."""
    return [row for folder in results_in(*places) if has(folder, CLAIMS) for row in claims_in(folder / CLAIMS)]


def claims_in(path: Path) -> list[dict[str, Any]]:
    """The rows of a claims.json, with the experiment's name. Raises Damaged if they are not as `publish` wrote them."""
    rows = parse_json(path, read_listed(path.parent, path.name))
    if TABLE in listed(path.parent):
        read_listed(path.parent, TABLE)  # raises if the table behind them was altered
    if misfit(rows, [CLAIM], "rows") or not all(len(row["spread"]) == 2 for row in rows):
        raise Damaged(f"{path} is altered: it is not a list of claims; 'hopscope report --redraw' makes it anew")
    return [{"experiment": path.parent.name, **row} for row in rows]
