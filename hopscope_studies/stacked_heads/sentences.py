"""The paper's own sentences (Musat, ICLR 2025, sections 7 to 9, appendix E), each with the claims that judge it.

They are in `data/sentences.toml`, in our words and in the paper's order. Here they are combined with the verdicts of
`results/`, for the site's page "The paper, claim by claim".
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.configuration.presets import recipe
from hopscope.experiments.base import SCALES

LISTED = Path(__file__).parent / "data" / "sentences.toml"
PARTS = ("task", "model", "training")
PRIOR = "(With a prior:"  # in the sentence of a claim on runs with a prior (`hopscope.experiments.priors`)


@dataclass(frozen=True)
class Sentence:
    """A statement of the paper.

    Attributes:
        number: its place in the paper's order, from 1.
        section: its section.
        says: the statement in our words.
        claims: the claims that judge it, each as `experiment/id`.
        settings: recipes that must have these values: `preset`, and values of its `task`, `model` and `training`.
        not_judged: why nothing judges it.
    """

    number: int
    section: str
    says: str
    claims: Sequence[str] = ()
    settings: Sequence[Mapping[str, Any]] = ()
    not_judged: str = ""


def sentences() -> list[Sentence]:
    """All sentences, in the paper's order."""
    listed = tomllib.loads(LISTED.read_text())["sentence"]
    return [Sentence(**row) for row in listed]


def differing(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a recipe that differ from a sentence, by name, for both orders of the facts."""
    said = [(part, name, value) for part in PARTS for name, value in settings.get(part, {}).items()]
    found: dict[str, Any] = {}
    for preset in (settings["preset"], f"{settings['preset']}_deepest"):
        config = recipe(preset).config()
        has = {name: getattr(getattr(config, part), name) for part, name, _ in said}
        found |= {name: has[name] for _, name, value in said if has[name] != value}
    return found


def page(claims: Iterable[Mapping[str, Any]]) -> str:
    """All sentences as a Markdown table, with the verdicts of these claims (`hopscope.experiments.results`)."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for row in claims:
        by_name.setdefault(f"{row['experiment']}/{row['id']}", []).append(row)
    lines = ["| | section | the paper says | judged by | verdict |", "|---|---|---|---|---|"]
    for sentence in sentences():
        for place, (judge, verdict) in enumerate(verdicts(sentence, by_name)):
            first = (str(sentence.number), sentence.section, sentence.says) if place == 0 else ("", "", "")
            lines.append(f"| {' | '.join(first)} | {judge} | {verdict} |")
    return "\n".join(lines) + "\n"


def verdicts(sentence: Sentence, by_name: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[tuple[str, str]]:
    """What judges a sentence, and its verdict at each scale."""
    for name in sentence.claims:
        rows = sorted(by_name.get(name, []), key=lambda row: SCALES.index(row["scale"]))
        yield f"`{name}`", "; ".join(map(verdict, rows)) or "not run yet"
    if sentence.settings:
        names = " and ".join(f"`{one['preset']}`" for one in sentence.settings)
        wrong = {name: value for one in sentence.settings for name, value in differing(one).items()}
        told = ", ".join(f"{name} is {value}" for name, value in wrong.items())
        yield f"the preset{'s' * (len(sentence.settings) > 1)} {names}", f"**differs**: {told}" if wrong else "set so"
    if sentence.not_judged:
        yield "nothing", sentence.not_judged


def verdict(row: Mapping[str, Any]) -> str:
    """A claim at one scale, in words."""
    number = "" if row["number"] is None else f" ({row['number']:.3g}, n = {row['n']})"
    prior = ", with the prior" if PRIOR in row["sentence"] else ""
    return f"{row['scale']}{prior}: **{row['verdict']}**{number}"
