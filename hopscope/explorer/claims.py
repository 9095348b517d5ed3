"""The claims of results folders in a bundle: each with its table, its figure, and the command that makes its runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

from hopscope.core import catalogue
from hopscope.core.places import CLAIMS, TABLE, has
from hopscope.core.storage import read_listed
from hopscope.experiments.results import FIGURE, claims_in, results_in
from hopscope.explorer.bundle import Block

#: Authors and a year, as texts have them: `Nichani, Lee & Bietti, 2024`, `Musat (ICLR 2025`.
PAPER = re.compile(
    r"\b(?P<first>(?!ICLR)[A-Z]\w+)(?P<others>(?: et al\.|, (?!ICLR)[A-Z][^.()\[\]]*|,? (?:and|&) [A-Z][^.()\[\]]*)"
    r"(?: et al\.)?(?:, \*[^*]+\*)?)?,? ?[(\[]?(?:ICLR )?(?P<year>20\d\d)"
)
LARGEST = 400_000  # bytes of a table or figure that goes into a bundle; a larger one is told of by its folder alone
KEYS = ("experiment", "id", "section", "sentence", "scale", "number", "spread", "n", "threshold", "verdict", "runs")


def claims_of(results: Path) -> tuple[list[dict[str, Any]], dict[str, Block]]:
    """All claims in a folder of results, or of studies, as the manifest has them, and their tables and figures.

    Raises Damaged if a file is not what was written.
    """
    judged = [folder for folder in results_in(results) if has(folder, CLAIMS)]
    rows = [row for folder in judged for row in claims_in(folder / CLAIMS)]
    texts = {folder.name: texts_of(folder.name) for folder in judged}
    blocks: dict[str, Block] = {}
    for folder in judged:
        for kind, file in (("table", TABLE), ("figure", FIGURE)):
            if has(folder, file) and len(data := read_listed(folder, file)) <= LARGEST:
                blocks[f"claims/{folder.name}/{kind}"] = Block.of_text(data)
    return [claim(row, blocks, texts[row["experiment"]]) for row in rows], blocks


def claim(row: dict[str, Any], blocks: dict[str, Block], texts: Texts | None) -> dict[str, Any]:
    """One of them."""
    name = row["experiment"]
    held = {kind: f"claims/{name}/{kind}" for kind in ("table", "figure")}
    return {
        **{key: row[key] for key in KEYS},
        "version": row.get("version", ""),
        "command": f"hopscope reproduce {name} --scale {row['scale']}",
        "about": texts.summary if texts else "",
        "paper": paper_of(row["section"], texts),
        **{kind: block if block in blocks else None for kind, block in held.items()},
    }


class Texts(NamedTuple):
    """What says where an experiment comes from: the first sentence of its file, and the README of its study."""

    summary: str
    readme: str


def texts_of(experiment: str) -> Texts | None:
    """Those of an experiment; None for one that is not here."""
    if experiment not in catalogue.names("experiments"):
        return None
    file = Path(inspect.getfile(catalogue.module("experiments", experiment))).parents[1] / "README.md"
    readme = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return Texts(catalogue.summary("experiments", experiment), readme)


def paper_of(section: str, texts: Texts | None) -> str:
    """Whose claim it is, such as `Bietti et al. (2023)`.

    That is the first paper that its section names with a year, else the first sentence of its experiment's file, else
    the README of its experiment's study. Of an experiment that is not here it is `other`.
    """
    found = next(filter(None, map(PAPER.search, (section, *texts))), None) if texts else None
    if found is None:
        return "other"
    return f"{found['first']}{' et al.' if found['others'] else ''} ({found['year']})"
