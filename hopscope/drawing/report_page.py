"""Everything that was judged, drawn and found, as one HTML file that works offline.

Nothing is fetched: figures are in the file, and its content security policy forbids anything else. Whatever comes from
results or runs is escaped by the template (Jinja2, autoescaping). The only script that may run is that of the attention
views, known by its hash, each in a frame of its own that may do nothing but draw: a run folder's own script does not.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

from hopscope.drawing.attention_page import TEMPLATE as ATTENTION
from hopscope.drawing.page_policy import hashes

TEMPLATE = Path(__file__).with_suffix(".html")
PREVIEW = 12  # lines of a table that are shown
EMBEDDED = 400_000  # bytes of a table that is put into the page whole
VERDICTS = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """An experiment's part of the page.

    Attributes:
        name: of the experiment.
        about: its docstring: what it asks, and of which section of which paper.
        folder: with table.csv, figure.svg and claims.json.
        claims: rows of claims.json.
    """

    name: str
    about: str
    folder: Path
    claims: Sequence[Row]

    @property
    def title(self) -> str:
        return self.about.strip().partition("\n")[0]

    @property
    def rest(self) -> str:
        return self.about.strip().partition("\n")[2].strip()

    @property
    def scales(self) -> list[str]:
        return list(dict.fromkeys(row["scale"] for row in self.claims))

    @property
    def versions(self) -> list[str]:
        """Of the code that made the runs."""
        return sorted({version for row in self.claims for version in row["version"].split(", ")})

    @property
    def n_runs(self) -> int:
        return len({run for row in self.claims for run in row["runs"]})


@dataclass(frozen=True)
class Opened:
    """A run's circuit on the page.

    Attributes:
        name: of the run.
        circuit: as in circuit.json.
        pictures: folder with circuit.svg and attention.html.
        explorer: address of the page in which the run's model runs (`hopscope explore --export`), if there is one.
    """

    name: str
    circuit: Mapping[str, Any]
    pictures: Path
    explorer: str | None = None

    @cached_property
    def view(self) -> str:
        """The attention page, as text; empty if there is none."""
        page = self.pictures / "attention.html"
        return page.read_text(encoding="utf-8") if page.is_file() else ""


class Table(NamedTuple):
    """A table.csv: how many rows, its first lines, and all of it as an address, unless it is very long."""

    rows: int
    first: str
    source: str


def report_page(
    sections: Sequence[Section],
    circuits: Sequence[Opened] = (),
    version: str = "",
    *,
    results: str = "results",
    explorer: str | None = None,
) -> str:
    """The page, as a whole file's text.

    Args:
        sections: of experiments.
        circuits: of runs.
        version: of hopscope.
        results: the folder from which it is made, as people call it.
        explorer: address of the explorer's page on the same results (`hopscope explore --export`), if there is one.
    """
    counts = Counter(row["verdict"] for section in sections for row in section.claims)
    said = {"sections": sections, "circuits": circuits, "version": version, "counts": counts, "verdicts": VERDICTS}
    return template().render(policy=policy(), results=results, explorer=explorer, **said)


def template() -> Template:
    """The page's template, which escapes whatever is put into it."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    own = {"shown": shown, "image": image, "table_of": table_of, "as_json": as_json, "place": place, "prose": prose}
    environment.filters |= own
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def policy() -> str:
    """What the page may do: its own style, and the attention page's style and script, each known by its hash."""
    own, view = hashes(TEMPLATE), hashes(ATTENTION)
    styles, scripts = (" ".join([*own[tag], *view[tag]]) for tag in ("style", "script"))
    return f"default-src 'none'; style-src {styles}; script-src {scripts}; img-src data:; frame-src 'self'"


# What the template asks for --------------------------------------------------------------------------------------


def shown(number: object) -> str:
    """A number in four digits; what is none is shown as it is."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return "none" if number is None else str(number)
    return f"{number:.4g}"


def place(row: Row) -> str:
    """A claim as the explorer's addresses have it."""
    return f"{row['experiment']}.{row['id']}@{row['scale']}"


def as_json(value: object) -> str:
    return json.dumps(value, indent=1)


def prose(text: object) -> Markup:
    """Text in which what stands in backticks is code, and an empty line begins a paragraph; all of it escaped."""
    parts = re.split(r"``?([^`]+)``?", str(text))
    made = Markup("").join(Markup("<code>{}</code>").format(p) if n % 2 else escape(p) for n, p in enumerate(parts))
    return Markup("</p><p>").join(Markup(part) for part in re.split(r"\n\s*\n", made))


def image(path: Path) -> str:
    """A figure's address, which holds the figure; empty if there is none."""
    return as_url(path.read_bytes(), "image/svg+xml") if path.is_file() else ""


def table_of(folder: Path) -> Table | None:
    """What is shown of a folder's table; None if it has none."""
    if not (path := folder / "table.csv").is_file():
        return None
    data = path.read_bytes()
    lines = data.decode(errors="replace").splitlines()
    first = "\n".join(line[:160] for line in lines[:PREVIEW])
    return Table(len(lines) - 1, first, as_url(data, "text/csv") if len(data) <= EMBEDDED else "")


def as_url(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
