"""`hopscope board [RUN…]`: rank models by the hops that they learnt and the resources these took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hopscope.cli.given import refuse_beside
from hopscope.cli.options import PATH, as_json, console, print_json, say
from hopscope.core.settings import BadInput

COSTS = ("layers", "parameters", "sequences", "seconds", "hops")
NUMBERS = ("hops", "d_symbol", "layers", "least", "loops", "heads", "parameters", "sequences", "seconds", "loss")
WORDS = ("curriculum", "prior")
OF_TABLE = ("by", "d_symbol", "no_curriculum", "no_prior", "rerun", "how", "as_json")  # what --add has no use for


@click.command("board")
@click.argument("runs", metavar="[RUN]…", nargs=-1, type=PATH)
@click.option(
    "--by",
    type=click.Choice(COSTS),
    default="layers",
    show_default=True,
    help="Among equal hops, the least; hops: the lowest loss.",
)
@click.option("--d-symbol", type=click.IntRange(2), metavar="K", help="Only rows whose symbols have K dimensions.")
@click.option(
    "--no-curriculum",
    is_flag=True,
    help="Only rows whose training asks the last hop alone, read off after the last layer.",
)
@click.option(
    "--no-prior", is_flag=True, help="Only rows without a prior, a clamp or another path that is there before training."
)
@click.option("--rerun", type=click.IntRange(1), metavar="N", help="Measure every loss anew on N fresh sequences.")
@click.option("--how", is_flag=True, help="Print the command that trains each row, in place of the table.")
@click.option("--add", metavar="NAME", help="Put the one RUN on the board, as a folder of rows that you can commit.")
@as_json
def command(
    runs: tuple[Path, ...],
    by: str,
    d_symbol: int | None,
    no_curriculum: bool,
    no_prior: bool,
    rerun: int | None,
    how: bool,
    add: str | None,
    as_json: bool,
) -> None:
    """Rank trained models by the hops that they have learnt, then by the resources that these took.

    Finished RUNs of your own stand among the committed rows. All answer retrieval with four chains. A hop counts
    where its loss is below 0.1 on fresh sequences ('hopscope show' calls it learnt below 0.5). --by chooses the
    category; --by hops ranks equal hops by their loss. With --d-symbol, --no-curriculum or --no-prior the category is
    judged among fewer rows.
    """
    from hopscope.runs.run import load
    from hopscope_studies.board.rerun import losses
    from hopscope_studies.board.row import add as add_row, row_of, rows_in

    if add is not None:
        refuse_beside("has no effect with --add", *OF_TABLE)
        if len(runs) != 1:
            raise BadInput(f"--add takes one RUN; got {len(runs)}")
        place = add_row(load(runs[0]), add).run.path
        say(f"{place}: a row; commit this folder, and 'hopscope reproduce board' judges it")
        return
    rows = [*rows_in(), *(row_of(load(path)) for path in runs)]
    if how:
        for row in rows:
            say(f"{row.name}: {row.command()}")
        return
    values = [row.as_dict(losses(row, rerun) if rerun else None) for row in rows]
    ranked = [
        value
        for value in sorted(values, key=lambda value: (-value["hops"], value[by], value["loss"]))
        if d_symbol in (value["d_symbol"], None)
        if value["curriculum"] == "none" or not no_curriculum
        if value["prior"] == "none" or not no_prior
    ]
    if not ranked:
        asked = {f"symbols of {d_symbol} dimensions": d_symbol, "no curriculum": no_curriculum, "no prior": no_prior}
        say(f"hopscope: no row has {', '.join(words for words, given in asked.items() if given)}", err=True)
    if ranked or as_json:
        print_json(ranked) if as_json else console().print(as_table(ranked))


def as_table(ranked: list[dict[str, Any]]) -> Any:
    """The rows as a table; the first row of each number of hops is marked."""
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for name in ("row", *NUMBERS, *WORDS):
        shown.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=name != "curriculum")
    before = None
    for value in ranked:
        first, before = value["hops"] != before, value["hops"]
        cells = {**value, "loss": f"{value['loss']:.3f}", "prior": "no" if value["prior"] == "none" else "yes"}
        if value["least"] is None:
            cells["least"] = "no bound known"
        texts = [f"{cells[n]:,}" if isinstance(cells[n], int) else str(cells[n]) for n in (*NUMBERS, *WORDS)]
        shown.add_row(f"{value['row']}{' *' * first}", *texts)
    return shown
