"""`hopscope report`: every claim that was judged, from results alone."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from hopscope.cli.options import (
    PATH,
    as_json,
    console,
    given_here,
    opened,
    option_of,
    print_json,
    progress,
    say,
    say_unverified,
    show_page,
)
from hopscope.core import catalogue
from hopscope.core.environment import code_version
from hopscope.core.places import CLAIMS, PAGE, TABLE, check_page, has, is_installed, kind_of, replacing
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged, listed, parse_json, read_listed, write_file
from hopscope.core.strangers import misfit
from hopscope.core.terminal import Narrator, tinted
from hopscope.core.wording import beside, count
from hopscope.experiments.base import experiment
from hopscope.experiments.overview import claims_page, show, studies_markdown
from hopscope.experiments.results import HERE, all_claims, claims_in, gone, redraw, results_in, rooms
from hopscope.runs.integrity import is_unverified, vouch
from hopscope.runs.run import load

# From the README.
STUDY_PAGES, ALL_STUDIES = "hopscope_studies/{}/README.md", "hopscope_studies/README.md"


@click.command("report")
@click.option(
    "--results", type=PATH, help="A folder of results, or of studies  [default: all studies', and results here]"
)
@click.option(
    "--redraw", "again", is_flag=True, help="First draw every figure and judge every claim anew, from tables."
)
@click.option("--html", "page", type=PATH, metavar="FILE", help="Write one page with everything.")
@click.option("--run", "runs", multiple=True, type=PATH, help="On the page: this run's circuit; repeatable.")
@opened
@click.option("--markdown", is_flag=True, help="Print all claims as a page in Markdown.")
@click.option("--studies", is_flag=True, help="Print the README's table of studies in Markdown.")
@click.option("--all-studies", is_flag=True, help="Print a row per study, as in hopscope_studies/README.md.")
@click.option("--paper", is_flag=True, help="Print the paper's sentences with their verdicts, then its settings.")
@progress
@as_json
def command(
    results: Path | None,
    again: bool,
    page: Path | None,
    runs: tuple[Path, ...],
    open_it: bool,
    markdown: bool,
    studies: bool,
    all_studies: bool,
    paper: bool,
    as_json: bool,
) -> None:
    """List every claim with our number, its spread and the verdict; or write all of it as one offline HTML page."""
    if results is not None and not results.is_dir():
        raise BadInput(gone(results))
    places = places_of(results)
    check_kinds()
    if page is not None:
        check_page(page)
    if again:
        with Narrator() as watch:
            draw_again(places, watch)
    claims = all_claims(*places)
    if not claims:
        raise BadInput(f"{results or 'results'} holds no claims; 'hopscope reproduce NAME --scale cpu' makes some")
    tables = [folder for folder in results_in(*places) if has(folder, TABLE)]
    say_unverified(tables, "'hopscope report --redraw' writes it")
    if runs and page is None:
        raise BadInput("--run puts a circuit on the page; say where to with --html FILE")
    if open_it and page is None:
        raise BadInput("--open shows the page; say where to write it with --html FILE")
    if page is not None:
        with Narrator("putting the page together"), replacing(page):
            write_page(page, results, runs)
        if open_it:
            show_page(page)
        say(f"{page}: {count(len(claims), 'claim')}, opens offline")
    elif as_json:
        print_json(claims)
    elif paper:
        click.echo(catalogue.find("reports", "paper")(claims), nl=False)
    elif markdown:
        say(claims_page(claims, STUDY_PAGES), nl=False)
    elif studies:
        say(studies_markdown(claims, STUDY_PAGES, ALL_STUDIES), nl=False)
    elif all_studies:
        say(studies_markdown(claims, "{}/README.md"), nl=False)
    else:
        tell_claims(claims)


def check_kinds() -> None:
    """Raise BadInput where more than one kind of report is asked for; JSON takes the place of what people read."""
    read = [name for name in ("paper", "markdown", "studies", "all_studies") if given_here(name)]
    asked = ["page", *read, *filter(given_here, ["as_json"])] if given_here("page") else read
    if len(asked) > 1:
        told = " and ".join(map(option_of, asked))
        raise BadInput(f"{told} are reports of their own; ask for one of them")


def draw_again(places: Sequence[Path], watch: Callable[[str], None] = lambda _: None) -> None:
    """Every figure and every claim, from tables; and a manifest for what has no claims, such as heads, if it has none.

    What comes with an installed package, without tables, stays as it is. Raises Damaged for a table that is not the one
    that its manifest lists.
    """
    for folder in (folder for folder in results_in(*places) if not is_installed(folder.resolve())):
        if has(folder, CLAIMS) or folder.name in catalogue.names("experiments"):
            watch(f"drawing and judging {folder.name}")
            redraw(folder.name, folder)
        elif is_unverified(folder):
            vouch(folder)


def places_of(results: Path | None) -> list[Path]:
    """Where results are: in a folder, or wherever there are any."""
    return rooms() if results is None else [results]


def write_page(page: Path, results: Path | None, runs: tuple[Path, ...]) -> None:
    """The page: every experiment in a folder of results, or all there are, and the circuits of these runs.

    Raises BadInput, CannotSave, Damaged.
    """
    from hopscope.drawing.circuit_report import shown_name
    from hopscope.drawing.report_page import Opened, Section, report_page

    judged = [folder for folder in results_in(*places_of(results)) if has(folder, CLAIMS)]
    for folder in judged:
        read_all(folder)
    sections = [
        Section(folder.name, experiment(folder.name).__doc__ or "", folder, claims_in(folder / CLAIMS))
        for folder in judged
    ]
    circuits = []
    for run in runs:
        if not (run / "circuit.json").is_file():
            raise BadInput(f"{run} has no circuit.json; 'hopscope circuit {run}' makes one")
        read_all(run, "circuit.json", "pictures/circuit.svg", "pictures/attention.html")
        found = circuit_in(run)
        if bad := misfit(found, CIRCUIT, "its value"):
            raise Damaged(f"{run / 'circuit.json'} is altered: {bad.removeprefix('its value.')} is missing")
        circuits.append(Opened(shown_name(run), found, run / "pictures", explorer_of(run, page)))
    named = results or next((ours.path for ours in catalogue.ours()), HERE)
    explorer = explorer_of(named, page)
    made = report_page(sections, circuits, code_version(), results=shlex.quote(shown_name(named)), explorer=explorer)
    write_file(page, made.encode())


def circuit_in(folder: Path) -> Any:
    """The value of a run's circuit.json, or of one that was written elsewhere. Raises Damaged."""
    if kind_of(folder) == "run":
        return load(folder).finding("circuit.json")
    return parse_json(folder / "circuit.json", read_listed(folder, "circuit.json"))


#: What the page asks of a circuit.json.
PATH_ROW = dict.fromkeys(("layer", "head", "query", "key", "chain", "strength", "removal_loss", "hypothesis"), object)
CIRCUIT = {"verdict": object, "reason": object, "protocol": object, "loss": {str: object}, "paths": [PATH_ROW]}


def explorer_of(folder: Path, page: Path) -> str | None:
    """The address, from the page, of the explorer's on a run, or on results, if it was exported into their folder."""
    if not (folder / PAGE).is_file():
        return None
    return quote(os.path.relpath(folder / PAGE, page.parent), safe="/")


def read_all(folder: Path, *names: str) -> None:
    """Raise Damaged unless these files (by default all) are as the folder's manifest lists them, as far as it does."""
    for name in listed(folder):
        if name in names or not names:
            read_listed(folder, name)


COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow"}


def tell_claims(claims: Iterable[dict[str, Any]]) -> None:
    """Each claim, its verdict first, and below it our number."""
    out = console()
    for row in claims:
        verdict, (low, high) = row["verdict"], map(show, row["spread"])
        where = (
            f"{row['experiment']}, {row['section']}, {row['scale']}"
            if row["section"]
            else f"{row['experiment']}, {row['scale']}"
        )
        said = beside(verdict, f"{row['sentence']} [{where}]", out.width, 11)
        out.print(tinted(verdict, COLOURS.get(verdict, "")), said.removeprefix(verdict), sep="")
        out.print(f"{'':11}{show(row['number'])} ({low} to {high}), n = {row['n']}")
