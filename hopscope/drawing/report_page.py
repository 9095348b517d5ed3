"""Everything that was judged, drawn and found, as one HTML file that works offline.

Nothing is fetched: figures are in the file, and its content security policy forbids anything else. Text from results
is escaped; the only script is that of the attention views, each in a frame of its own that may do nothing but draw.
"""

from __future__ import annotations

import base64
import html
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_suffix(".html")
PREVIEW = 12  # lines of a table that are shown
EMBEDDED = 400_000  # bytes of a table that is put into the page whole
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


@dataclass(frozen=True)
class Opened:
    """A run's circuit on the page.

    Attributes:
        name: of the run.
        circuit: as in circuit.json.
        pictures: folder with circuit.svg and attention.html.
    """

    name: str
    circuit: Mapping[str, Any]
    pictures: Path


def report_page(sections: Sequence[Section], circuits: Sequence[Opened] = (), version: str = "") -> str:
    """The page, as a whole file's text."""
    body = [heading(sections, circuits, version)]
    body += [experiment_part(section) for section in sections]
    body += [circuit_part(opened, f"circuit-{i}") for i, opened in enumerate(circuits)]
    before, after = TEMPLATE.read_text(encoding="utf-8").split("@BODY@")
    return before + "\n".join(body) + after


def heading(sections: Sequence[Section], circuits: Sequence[Opened], version: str) -> str:
    """What the page is, how the verdicts stand, and where to go."""
    counts = Counter(row["verdict"] for section in sections for row in section.claims)
    stand = ", ".join(f'<b class="{name}">{counts[name]}</b> {word}' for name, word in VERDICTS.items())
    links = [f'<li><a href="#{text(s.name)}">{text(s.name)}</a>: {text(first_line(s.about))}</li>' for s in sections]
    links += [f'<li><a href="#circuit-{i}">circuit of {text(c.name)}</a></li>' for i, c in enumerate(circuits)]
    return f"""<h1>hopscope: claims and figures</h1>
<p>Every claim with our number, its spread over seeds (or its interval) and a verdict. {stand}.
A verdict at scale <code>cpu</code> is about models that two cores train in minutes, not about the paper's.</p>
<p class="faint">Made by hopscope {text(version)} from the tables in results/: <code>hopscope report --html</code>.</p>
<nav><ul>{"".join(links)}</ul></nav>"""


VERDICTS = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}


def experiment_part(section: Section) -> str:
    """An experiment: what it asks, its figure, its claims, its table, and how to make all that again."""
    scales = list(dict.fromkeys(row["scale"] for row in section.claims))
    commands = "\n".join(f"hopscope reproduce {section.name} --scale {scale}" for scale in scales)
    versions = sorted({version for row in section.claims for version in row["version"].split(", ")})
    runs = {run for row in section.claims for run in row["runs"]}
    rest = section.about.strip().partition("\n")[2].strip()
    return f"""<h2 id="{text(section.name)}">{text(section.name)}: {text(first_line(section.about))}</h2>
<p>{text(rest)}</p>
{picture(section.folder / "figure.svg", f"figure of {section.name}")}
<div class="wide">{claims_part(section.claims)}</div>
<details><summary>How it was made, and its table</summary>
<pre>{text(commands)}</pre>
<p class="faint">{len(runs)} runs; code {text(", ".join(versions))}.</p>
{table_part(section.folder / "table.csv")}</details>"""


def claims_part(claims: Iterable[Row]) -> str:
    """Claims as a table."""
    lines = [
        "<table><thead><tr><th>claim</th><th>section</th><th>scale</th><th class=number>our number</th>"
        "<th class=number>spread</th><th class=number>n</th><th>judged by</th><th>verdict</th></tr></thead><tbody>"
    ]
    for row in claims:
        low, high = (shown(end) for end in row["spread"])
        cells = [f"<td>{text(row[name])}</td>" for name in ("sentence", "section", "scale")]
        cells += [f"<td class=number>{shown(row['number'])}</td>", f"<td class=number>{low} to {high}</td>"]
        cells += [f"<td class=number>{row['n']}</td>", f"<td>{text(row['threshold'])}</td>"]
        cells += [f'<td class="verdict {text(row["verdict"])}">{text(row["verdict"])}</td>']
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join(lines) + "</tbody></table>"


def table_part(path: Path) -> str:
    """The first lines of a table, and the whole of it to save, unless it is very long."""
    if not path.is_file():
        return ""
    data = path.read_bytes()
    lines = data.decode().splitlines()
    first = "\n".join(line[:160] for line in lines[:PREVIEW])
    whole = ""
    if len(data) <= EMBEDDED:
        whole = f', <a download="{text(path.parent.name)}.csv" href="{as_url(data, "text/csv")}">save it</a>'
    return f"<p>table.csv, {len(lines) - 1} rows{whole}:</p><pre>{text(first)}</pre>"


def circuit_part(opened: Opened, anchor: str) -> str:
    """A run's circuit: drawn, in numbers, and its attention to look through."""
    circuit = opened.circuit
    losses = ", ".join(f"{name} {shown(value)}" for name, value in circuit["loss"].items())
    rows = "".join(
        f"<tr><td><code>L{p['layer']}H{p['head']} {text(p['query'])}-&gt;{text(p['key'])}"
        f"{' (other)' if p['chain'] == 'other' else ''}</code></td><td class=number>{shown(p['strength'])}</td>"
        f"<td class=number>{shown(p['removal_loss'])}</td><td>{text(p['hypothesis'])}</td></tr>"
        for p in circuit["paths"]
    )
    page = opened.pictures / "attention.html"
    view = ""
    if page.is_file():
        view = f'<iframe loading="lazy" sandbox="allow-scripts" srcdoc="{html.escape(page.read_text())}"></iframe>'
    return f"""<h2 id="{anchor}">Circuit of {text(opened.name)}</h2>
<p><b>{text(circuit["verdict"])}</b>: {text(circuit["reason"])}. Losses: {losses}.</p>
{picture(opened.pictures / "circuit.svg", f"circuit of {opened.name}")}
<div class="wide"><table><thead><tr><th>path</th><th class=number>attention</th><th class=number>loss without it</th>
<th>replaced by</th></tr></thead><tbody>{rows}</tbody></table></div>
<details><summary>Attention as it is, by hand, and the difference</summary>{view}</details>
<details><summary>Protocol</summary><pre>{text(json.dumps(circuit["protocol"], indent=1))}</pre></details>"""


# Small pieces ----------------------------------------------------------------------------------------------------


def text(value: object) -> str:
    """As text of the page, never markup."""
    return html.escape(str(value))


def first_line(about: str) -> str:
    return about.strip().split("\n")[0]


def shown(number: float | None) -> str:
    return "none" if number is None else f"{number:.4g}"


def as_url(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def picture(path: Path, words: str) -> str:
    """A figure, in the page itself; nothing if it is not there."""
    if not path.is_file():
        return ""
    return f'<img alt="{text(words)}" src="{as_url(path.read_bytes(), "image/svg+xml")}">'
