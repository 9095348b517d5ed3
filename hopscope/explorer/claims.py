"""Claims of results folders in a bundle, with their tables, figures, and the commands that reproduce them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hopscope.core import catalogue
from hopscope.core.places import CLAIMS, TABLE, has
from hopscope.core.storage import read_listed
from hopscope.experiments.counting import HOW_COUNTED, at_last, counted, is_control
from hopscope.experiments.overview import found_by, title_of
from hopscope.experiments.results import FIGURE, claims_in, results_in
from hopscope.explorer.bundle import Block

#: Authors and a year, as texts have them: `Nichani, Lee & Bietti, 2024`, `Musat (ICLR 2025`.
PAPER = re.compile(
    r"\b(?P<first>(?!ICLR)[A-Z]\w+)(?P<others>(?: et al\.|, (?!ICLR)[A-Z][^.()\[\]]*|,? (?:and|&) [A-Z][^.()\[\]]*)"
    r"(?: et al\.)?(?:, \*[^*]+\*)?)?,? ?[(\[]?(?:ICLR )?(?P<year>20\d\d)"
)
LARGEST = 4_000_000  # most bytes of a table or figure in a bundle; larger ones are left out
KEYS = ("experiment", "id", "section", "sentence", "scale", "number", "spread", "n", "threshold", "verdict", "runs")


class Shown(NamedTuple):
    """The results in a bundle.

    Attributes:
        claims: in the format of the manifest.
        counts: verdicts counted over all claims and by study, in the format of the manifest.
        blocks: tables and figures, by name.
    """

    claims: list[dict[str, Any]]
    counts: dict[str, Any]
    blocks: dict[str, Block]


def claims_of(*places: Path) -> Shown:
    """All claims in folders of results, or of studies, with their tables and figures.

    Raises Damaged if a file differs from its manifest.
    """
    judged = [folder for folder in results_in(*places) if has(folder, CLAIMS)]
    rows = [row for folder in judged for row in claims_in(folder / CLAIMS)]
    texts = {folder.name: texts_of(folder.name) for folder in judged}
    blocks: dict[str, Block] = {}
    for folder in judged:
        for kind, file in (("table", TABLE), ("figure", FIGURE)):
            if has(folder, file) and len(data := read_listed(folder, file)) <= LARGEST:
                blocks[f"claims/{folder.name}/{kind}"] = Block.of_text(data)
    decided = {id(row) for row in at_last(rows)}
    claims = [claim(row, blocks, texts[row["experiment"]]) | {"counts": id(row) in decided} for row in rows]
    return Shown(claims, counts_of(rows, texts), blocks)


def counts_of(rows: list[dict[str, Any]], texts: Mapping[str, Texts]) -> dict[str, Any]:
    """The verdicts counted in a sentence, over all claims and for each study; studies with most claims come first."""
    by_study: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_study.setdefault(texts[row["experiment"]].study, []).append(row)
    found = {one.study: one.found for one in texts.values()}
    studies = [
        {"study": study, "found": found.get(study, ""), "told": str(counted(some))}
        for study, some in sorted(by_study.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return {"told": str(counted(rows)), "how": HOW_COUNTED, "studies": studies}


def claim(row: dict[str, Any], blocks: dict[str, Block], texts: Texts) -> dict[str, Any]:
    """One claim in the format of the manifest."""
    name = row["experiment"]
    held = {kind: f"claims/{name}/{kind}" for kind in ("table", "figure")}
    return {
        **{key: row[key] for key in KEYS},
        "interval": row.get("interval"),
        "version": row.get("version", ""),
        "command": f"hopscope reproduce {name} --scale {row['scale']}",
        "about": texts.summary,
        "study": texts.study,
        "paper": paper_of(row["section"], texts),
        "control": is_control(row),
        **{kind: block if block in blocks else None for kind, block in held.items()},
    }


class Texts(NamedTuple):
    """Texts about an experiment: the first sentence of its file, and its study's title, README and result."""

    summary: str
    study: str
    readme: str
    found: str


def texts_of(experiment: str) -> Texts:
    """The texts about an experiment; for an unknown experiment only the study name `other`."""
    if experiment not in catalogue.names("experiments"):
        return Texts("", "other", "", "")
    study = catalogue.home("experiments", experiment).path
    readme = study / "README.md"
    if not readme.is_file():
        return Texts(catalogue.summary("experiments", experiment), study.name, "", "")
    text = readme.read_text(encoding="utf-8", errors="replace")
    return Texts(catalogue.summary("experiments", experiment), title_of(study), text, found_by(study))


def paper_of(section: str, texts: Texts) -> str:
    """The paper that a claim is from, such as `Bietti et al. (2023)`.

    It is the first paper with a year in the claim's section, else in the first sentence of the experiment's file, else
    in the README of the experiment's study; `other` if there is none.
    """
    found = next(filter(None, map(PAPER.search, (section, texts.summary, texts.readme))), None)
    if found is None:
        return "other"
    return f"{found['first']}{' et al.' if found['others'] else ''} ({found['year']})"
