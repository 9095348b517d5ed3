"""The results of experiments on disk: `results/NAME/table.csv`, and from it alone a figure and claims.json.

A study keeps its results in its own folder. Rows of several scales stand side by side in a table; a scale that is
measured anew replaces its own, and at scale `long` each cell its own. Rows that stay are kept to the letter.
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
import pandas
from pandas import DataFrame

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
DRAWN = (FIGURE, CLAIMS)  # from the table
OF_OLD = "figure.png"  # which once stood beside figure.svg
HERE = Path("results")


TEXTS = ("id", "section", "sentence", "scale", "threshold", "verdict", "version")
CLAIM = {
    **{f.name: object for f in fields(Claim)},
    **dict.fromkeys(TEXTS, str),
    "spread": list,
    "runs": [str],
    "seeds": [int],
    "n": int,
}


def room(name: str) -> Path:
    """The folder of results for an experiment's: its study's own, or `results` here where that is installed."""
    study = catalogue.home("experiments", name).path
    return HERE if is_installed(study) else study / "results"


def rooms() -> list[Path]:
    """The folders of results that there are: `results` here, and those of all studies."""
    return [HERE, *(root.path / "results" for one in catalogue.plugins() for root in (one, *one.studies()))]


def results_in(*places: Path) -> list[Path]:
    """Every experiment's results in these places, or in studies there, by name; the first place has the first word."""
    found: dict[str, Path] = {}
    for folder in (folder for place in places for folder in inside(place)):
        if has(folder, TABLE) or has(folder, CLAIMS):
            found.setdefault(folder.name, folder)
    return [found[name] for name in sorted(found)]


def today(folder: Path) -> Path:
    """A folder of results; `results/NAME`, of before studies kept theirs, is in its study where it is not here."""
    is_of_old = folder.parent == HERE and not folder.exists() and folder.name in catalogue.names("experiments")
    return room(folder.name) / folder.name if is_of_old else folder


def gone(folder: Path) -> str:
    """The sentence about a folder of results that is not there: where it went, or what makes one."""
    if folder == HERE:
        ours = " or ".join(str(root.path) for root in catalogue.ours())
        return f"there is no folder {folder}: each study keeps its own; name {ours} for all of them"
    if (now := today(folder)) != folder:
        return f"there is no folder {folder}: it is in its study now, {now}"
    return f"there is no folder {folder}; 'hopscope reproduce NAME --scale cpu' makes results"


def make_ready(results: Path, name: str) -> None:
    """Make the folder of results before anything is trained that could not be written there.

    Raises CannotSave; and Damaged if the table that is there, of which other scales are kept, is altered.
    """
    make_folder(results)
    if (results / name / TABLE).is_file():
        table_in(results / name)


def measured(source: ModuleType, done: Sequence[Run | Finished], scale: str) -> DataFrame:
    """An experiment's table of what is finished; the frame adds the scale, and the prior of runs where it is left out.

    So no claim can be silent about a prior.
    """
    table = source.table(done, scale).assign(scale=scale)
    priors = {run.config.identity: prior_of(run.config) for run in done if isinstance(run, Run)}
    told = COLUMN in table or "run" not in table  # rows about no run have none
    return table if told or not priors else table.assign(**{COLUMN: table.run.map(priors)})


def publish(name: str, table: DataFrame, results: Path) -> Path:
    """Write a table's figure and claims beside it; rows of other scales that stand there are kept."""
    scales = set(table.scale)
    return rewrite(name, results, lambda earlier: [earlier[~earlier.scale.isin(scales)], as_text(table)])


def publish_cell(name: str, cell: Run | Finished, results: Path) -> Path:
    """Measure one cell and put its rows into the table, with the claims judged anew.

    Raises TypeError if the experiment's table has no rows of it, or rows of others.
    """
    table = measured(experiment(name), [cell], CELL_BY_CELL)
    identity = (cell.work if isinstance(cell, Finished) else cell.config).identity
    if set(table.get("run", ())) != {identity}:
        raise TypeError(f"the experiment {name} offers {CELL_BY_CELL}: each run must have rows of its own in the table")
    return publish_rows(name, table, results)


def publish_rows(name: str, table: DataFrame | None, results: Path) -> Path:
    """Put cells' rows where they belong: in the order in which cells are declared; rows of what no longer is, go."""
    place = {config.identity: index for index, config in enumerate(declared(name, CELL_BY_CELL))}

    def merged(earlier: DataFrame) -> list[DataFrame]:
        cells = earlier[earlier.scale == CELL_BY_CELL]
        if table is not None:
            cells = pandas.concat([cells[~cells.run.isin(set(table.run))], as_text(table)])
        cells = cells[cells.run.isin(place)].sort_values("run", key=lambda run: run.map(place), kind="stable")
        return [earlier[earlier.scale != CELL_BY_CELL], cells]

    return rewrite(name, results, merged)


def rewrite(name: str, results: Path, merge: Callable[[DataFrame], list[DataFrame]]) -> Path:
    """Replace a table by what becomes of it, then its figure and claims; nobody else writes in the meantime.

    Rows are handled as text, so that those that are kept are kept to the letter.
    """
    folder = results / name
    make_folder(folder)
    with filelock.FileLock(results / LOCK):  # drivers on several machines may end together
        there = (folder / TABLE).is_file()
        earlier = table_in(folder, as_text=True) if there else DataFrame(columns=["scale", "run"], dtype=str)
        table = pandas.concat([part for part in merge(earlier) if len(part)], ignore_index=True)
        unlist(folder, (TABLE, *DRAWN))
        write_file(folder / TABLE, table.to_csv(index=False).encode())
        redraw(name, folder)
    return folder


def as_text(table: DataFrame) -> DataFrame:
    """A table as its file has it: every entry as text, what is not known as none."""
    written = io.StringIO(table.to_csv(index=False, float_format="%.6g"))
    return pandas.read_csv(written, dtype=str, keep_default_na=False)


def table_in(folder: Path, *, as_text: bool = False) -> DataFrame:
    """The table of a results folder, perhaps with every entry as text.

    Raises Damaged if it is missing, altered, or none of ours.
    """
    if not (folder / TABLE).is_file():
        raise Damaged(f"{folder / TABLE} cannot be read as a table: it is missing")
    data = read_listed(folder, TABLE)
    how: dict[str, Any] = {"dtype": str} if as_text else {"na_values": [""], "dtype": {"run": str, "version": str}}
    try:
        table = pandas.read_csv(io.BytesIO(data), keep_default_na=False, **how)
    except ValueError as error:  # of which pandas' own are
        raise Damaged(f"{folder / TABLE} cannot be read as a table: {error}") from error
    if not {"scale", "run", "version"} <= set(table.columns):
        raise Damaged(f"{folder / TABLE} is no table of results: it lacks a column scale, run or version")
    return table


def standing(folder: Path) -> set[str]:
    """Identities of the cells whose rows stand in a folder of results. Raises Damaged if its table is none of ours."""
    if not (folder / TABLE).is_file():
        return set()
    table = table_in(folder, as_text=True)
    return set(table.run[table.scale == CELL_BY_CELL])


def outstanding(name: str, scale: str, results: Path | None = None) -> list[Config | Work]:
    """What of an experiment is to be done: all of it, but for cells whose rows stand. Raises BadInput, Damaged."""
    stand = standing(results / name) if results and scale == CELL_BY_CELL else ()
    return [config for config in declared(name, scale) if config.identity not in stand]


def redraw(name: str, folder: Path) -> None:
    """Figure and claims, from table.csv alone: the figure at the largest scale there is, claims at each.

    Then all of it is listed in the folder's manifest. Raises Damaged if the table is not what the manifest lists.
    """
    source = experiment(name)
    table = table_in(folder)
    if OF_OLD in listed(folder):
        (folder / OF_OLD).unlink(missing_ok=True)
    unlist(folder, (*DRAWN, OF_OLD))
    scales = [scale for scale in SCALES if (table.scale == scale).any()]
    write_file(folder / FIGURE, rendered(source.figure(table[table.scale == scales[-1]]), "svg"))
    rows = [row for scale in scales for row in judged(source, table[table.scale == scale], scale)]
    write_json(folder / CLAIMS, rows)
    enlist(folder, (TABLE, *DRAWN))


def judged(source: ModuleType, table: DataFrame, scale: str) -> Iterator[dict[str, Any]]:
    """The claims as rows of claims.json. At the scale `quick`, which tests plumbing, every verdict is undecided.

    Raises what `catalogue.not_whole` makes where two claims have one id.
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
        yield {
            **row,
            "scale": scale,
            "runs": sorted(map(str, table.run.unique())),
            "version": ", ".join(sorted(map(str, table.version.unique()))),
        }


def finite(number: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return round(float(number), 6) if math.isfinite(number) else None


def claim_ids(name: str) -> list[str]:
    """The ids of an experiment's claims, as its study's results have them; none without results. Raises Damaged."""
    path = catalogue.home("experiments", name).path / "results" / name / CLAIMS
    rows = parse_shaped(path, read_listed(path.parent, CLAIMS), [CLAIM]) if path.is_file() else []
    return list(dict.fromkeys(row["id"] for row in rows))


def all_claims(*places: Path) -> list[dict[str, Any]]:
    """Every claim in these places, with its experiment: the data of `hopscope report`. Raises Damaged."""
    return [row for folder in results_in(*places) if has(folder, CLAIMS) for row in claims_in(folder / CLAIMS)]


def claims_in(path: Path) -> list[dict[str, Any]]:
    """The rows of a claims.json, with the experiment. Raises Damaged if they are not what `publish` wrote."""
    rows = parse_json(path, read_listed(path.parent, path.name))
    if TABLE in listed(path.parent):
        read_listed(path.parent, TABLE)  # of which they tell
    if misfit(rows, [CLAIM], "rows") or not all(len(row["spread"]) == 2 for row in rows):
        raise Damaged(f"{path} is altered: it is no list of claims; 'hopscope report --redraw' makes it anew")
    return [{"experiment": path.parent.name, **row} for row in rows]
