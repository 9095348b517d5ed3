"""`hopscope report`: every claim that was judged, from results alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from hopscope.cli.commands.explore import export_runs
from hopscope.cli.given import given_here, option_of
from hopscope.cli.options import (
    PATH,
    as_json,
    console,
    opened,
    print_json,
    progress,
    say,
    say_unverified,
    show_page,
)
from hopscope.core import catalogue
from hopscope.core.places import CLAIMS, TABLE, check_page, has, is_installed
from hopscope.core.settings import BadInput
from hopscope.core.terminal import Narrator, tinted
from hopscope.core.wording import beside
from hopscope.experiments.counting import counted
from hopscope.experiments.overview import claims_page, show, studies_markdown
from hopscope.experiments.results import all_claims, gone, redraw, results_in, rooms
from hopscope.runs.integrity import is_unverified, vouch

# From the README.
STUDY_PAGES, ALL_STUDIES = "hopscope_studies/{}/README.md", "hopscope_studies/README.md"


@click.command("report")
@click.option(
    "--results", type=PATH, help="A folder of results, or of studies  [default: all studies', and results here]"
)
@click.option(
    "--redraw", "again", is_flag=True, help="First draw every figure and judge every claim anew, from tables."
)
@click.option("--html", "page", type=PATH, metavar="FILE", help="Write all claims, tables and figures as one page.")
@click.option("--run", "runs", multiple=True, type=PATH, help="On the page: this run and its circuit; repeatable.")
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
    """List every claim with our number, its spread and the verdict; or write all of it as one offline HTML page.

    The page is the explorer's view of claims: search them, filter them, open their figures and tables.
    """
    if results is not None and not results.is_dir():
        raise BadInput(gone(results))
    places = rooms() if results is None else [results]
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
        export_runs(runs, page, "tour", places, opens="claims")
        say(str(counted(claims)))
        if open_it:
            show_page(page)
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
        say(str(counted(claims)))


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
