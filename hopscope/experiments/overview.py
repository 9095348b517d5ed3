"""All claims on one page, and a table with a row per study, for the README and the documentation.

A study's finding is in the docstring of its package, in a paragraph that begins with "Found:".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from hopscope.core import catalogue
from hopscope.experiments.counting import HOW_COUNTED, VERDICTS, Claim, counted
from hopscope.experiments.priors import WITH_PRIOR

experiment_of = itemgetter("experiment")
FOUND = "Found: "  # the beginning of the paragraph with the finding


def studies_markdown(claims: Iterable[Claim], pages: str, rest: str | None = None, most: int = 12) -> str:
    """A table with a row per study of ours that has claims: its page, its finding, and its claims by verdict.

    Args:
        claims: as `hopscope.experiments.results.all_claims` returns them; counted by `counted`.
        pages: the link to a study's page, with `{}` for the study's name.
        rest: for a short table, the link to the page of all studies. The table then has the studies with the most
            claims, each with the first sentence of its finding, and all others together in the last row.
        most: the number of rows of a short table.
    """
    rows = [
        (f"[{title_of(study)}]({pages.format(study.name)})", found_by(study), some) for study, some in by_study(claims)
    ]
    if rest is not None:
        others = rows[most - 1 :] if len(rows) > most else []
        rows = [(page, first_sentence(finding), some) for page, finding, some in rows[: len(rows) - len(others)]]
        if others:
            together = [row for *_, some in others for row in some]
            rows.append((f"[{len(others)} more studies]({rest})", "–", together))
    lines = ["| study | what was found | hold | fail | undecided | controls that hold |", "|---|---|---|---|---|---|"]
    for page, finding, some in rows:
        tally = counted(some)
        numbers = [str(tally.claims[verdict]) for verdict in VERDICTS]
        apart = f"{tally.controls['holds']} of {tally.controls.total()}" if tally.controls else "–"
        lines.append(f"| {' | '.join([page, finding, *numbers, apart])} |")
    return "\n".join(lines) + "\n"


def first_sentence(text: str) -> str:
    """The text up to the first full stop that ends a sentence."""
    return re.split(r"(?<=[.!?]) (?=[A-Z0-9])", text, maxsplit=1)[0]


def claims_page(claims: Iterable[Claim], pages: str) -> str:
    """Every claim with its numbers, study by study, as a page in Markdown. Arguments as for `studies_markdown`."""
    claims = list(claims)
    parts = [
        f"# All claims\n\n{counted(claims)} {HOW_COUNTED}\n",
        "Each is judged from the committed table of its experiment alone. The spread is from the lowest to the highest "
        "value, mostly one per seed. If every value must meet a limit, the number is at the end of the spread that "
        "decides. If there is one value for each of three or more seeds, their mean has a 95 % interval (Student's t, "
        "whose ends can lie beyond what is possible; Wilson's for truth values). n counts the runs or samples behind "
        "the number.\n",
    ]
    for study, some in by_study(claims):
        parts.append(f"## [{title_of(study)}]({pages.format(study.name)})\n\n{found_by(study)}\n\n{counted(some)}\n")
        for name, rows in groupby(sorted(some, key=experiment_of), key=experiment_of):
            parts.append(f"### `{name}`\n\n{claims_markdown(rows)}")
    return "\n".join(parts)


def claims_markdown(claims: Iterable[Claim]) -> str:
    """Claims as a table in Markdown, with priors in notes below it."""
    notes: list[str] = []
    lines = [
        "| claim | section | scale | our number | spread | mean, 95 % | n | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in claims:
        numbers = (show(row["number"]), ends(row["spread"]), ends(row.get("interval")), str(row["n"]))
        cells = (noted(row["sentence"], notes), row["section"], row["scale"], *numbers)
        lines.append(f"| {' | '.join(cells)} | **{row['verdict']}** |")
    return "\n".join(lines) + "\n" + notes_markdown(notes)


def noted(sentence: str, notes: list[str]) -> str:
    """A claim's sentence with a note's number in place of its prior; a new note is added to `notes`."""
    claim, note, prior = sentence.removesuffix(")").partition(WITH_PRIOR)
    if not note:
        return sentence
    if prior not in notes:
        notes.append(prior)
    return f"{claim}<sup>{notes.index(prior) + 1}</sup>"


def notes_markdown(notes: list[str]) -> str:
    """The notes below a table of claims, one for each prior."""
    return "".join(f"\n<sup>{number}</sup> With a prior: {prior}\n" for number, prior in enumerate(notes, 1))


def ends(interval: Sequence[float | None] | None) -> str:
    """The two ends of an interval for people; a dash if there is none."""
    return " to ".join(map(show, interval)) if interval else "–"


def show(number: object) -> str:
    """A claim's number for people; anything else, as in an altered file, is shown as it is."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return "none" if number is None else str(number)
    return f"{number:.4g}"


def by_study(claims: Iterable[Claim]) -> Iterator[tuple[Path, Sequence[Claim]]]:
    """The folders of our studies, with their claims; the study with the most claims first."""
    claims_of: dict[Path, list[Claim]] = {}
    homes = catalogue.homes("experiments")
    for row in claims:
        if (home := homes.get(row["experiment"])) and not home.outside:
            claims_of.setdefault(home.path, []).append(row)
    yield from sorted(claims_of.items(), key=lambda item: (-len(item[1]), item[0].name))


def title_of(study: Path) -> str:
    """The heading of a study's README."""
    heading = re.match(r"# (.+)", (study / "README.md").read_text(encoding="utf-8"))
    return heading[1].strip() if heading else study.name


def found_by(study: Path) -> str:
    """The finding in the docstring of a study's package; a dash if there is none. Nothing is imported."""
    docstring = ast.get_docstring(ast.parse((study / "__init__.py").read_text(encoding="utf-8"))) or ""
    finding = next((part for part in docstring.split("\n\n") if part.startswith(FOUND)), "")
    return " ".join(finding.removeprefix(FOUND).split()) or "–"
