"""`hopscope report`: every judged claim, from the committed results."""

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
from hopscope.experiments.overview import claims_page, ends, show, studies_markdown
from hopscope.experiments.results import all_claims, gone, redraw, results_in, rooms
from hopscope.runs.integrity import is_unverified, vouch

# Relative to the README.
STUDY_PAGES, ALL_STUDIES = "hopscope_studies/{}/README.md", "hopscope_studies/README.md"


@click.command("report")
@click.option(
    "--results", type=PATH, help="A folder of results, or of studies  [default: all studies', and results here]"
)
@click.option(
    "--redraw", "again", is_flag=True, help="First redraw every figure and judge every claim again, from tables."
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
    """List every claim with its number, spread and verdict; or write them as one offline HTML page.

    The page is the explorer's view of claims, in which they can be searched, filtered and opened with figure and table.
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
        raise BadInput("--run puts a circuit on the page; say where to write it with --html FILE")
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
    """Raise BadInput for more than one kind of report; --json may be given with one that is printed."""
    printed = [name for name in ("paper", "markdown", "studies", "all_studies") if given_here(name)]
    kinds = ["page", *printed, *filter(given_here, ["as_json"])] if given_here("page") else printed
    if len(kinds) > 1:
        flags = " and ".join(map(option_of, kinds))
        raise BadInput(f"{flags} are different reports; choose one of them")


def draw_again(places: Sequence[Path], watch: Callable[[str], None] = lambda _: None) -> None:
    """Redraw every figure and judge every claim from tables; write missing manifests of results without claims.

    Results of an installed package, which come without tables, stay as they are. Raises Damaged for a table that
    differs from its manifest.
    """
    for folder in (folder for folder in results_in(*places) if not is_installed(folder.resolve())):
        if has(folder, CLAIMS) or folder.name in catalogue.names("experiments"):
            watch(f"drawing and judging {folder.name}")
            redraw(folder.name, folder)
        elif is_unverified(folder):
            vouch(folder)


COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow"}


def tell_claims(claims: Iterable[dict[str, Any]]) -> None:
    """Print each claim after its verdict, and below it the number with spread and n, and the interval of a mean."""
    out = console()
    for row in claims:
        verdict = row["verdict"]
        where = ", ".join(filter(None, (row["experiment"], row["section"], row["scale"])))
        said = beside(verdict, f"{row['sentence']} [{where}]", out.width, 11)
        out.print(tinted(verdict, COLOURS.get(verdict, "")), said.removeprefix(verdict), sep="")
        mean = f"; mean {ends(row['interval'])} (95 %)" if row.get("interval") else ""
        out.print(f"{'':11}{show(row['number'])} ({ends(row['spread'])}), n = {row['n']}{mean}")
