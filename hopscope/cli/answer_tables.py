"""Accuracies of language models as tables for the terminal: one table per model, one row per kind of question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from hopscope.core.strangers import json_of
from hopscope.core.terminal import tinted
from hopscope.core.wording import duration
from hopscope.language.costs import Cost

Row = dict[str, Any]
COLUMNS = ("question", "asked", "accuracy", "95 %", "to chance")
MORE = ("n", "valid", "tries", "mass", "corrected", "run out", "answers given")
LEFT = ("question", "asked", "to chance", "answers given")


def as_table(rows: Sequence[dict[str, Any]], wide: bool = False) -> Table:
    """One model's accuracies with their intervals, compared with chance; `wide` adds the columns of `MORE`."""
    table = Table(title=rows[0]["model"], title_justify="left", box=None, pad_edge=False)
    for name in COLUMNS + MORE if wide else COLUMNS:
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=wide or name not in LEFT)
    for row in rows:
        cells: list[str | Text] = [
            f"{row['formulation']} {row['hops']}",
            f"{row['layout']}, {row['protocol']}",
            number(row["accuracy"]),
            f"{row['low']:.2f}\u2013{row['high']:.2f}",
            standing(row) + f" {row['chance']:.2f}",
        ]
        if wide:
            cells += [str(row["n"]), *(number(row[name]) for name in ("valid", "tries", "mass", "prior_corrected"))]
            cells += [f"{row['run_outs']}", shortened(row["labels"])]
        table.add_row(*cells)
    return table


def benchmark_table(rows: Sequence[Row]) -> Table:
    """One model's measures on benchmarks, each with its interval and compared with chance."""
    table = Table(title=rows[0]["model"], title_justify="left", box=None, pad_edge=False)
    for name in ("benchmark", "asked", "measure", "mean", "95 %", "to chance"):
        table.add_column(name, justify="left" if name in ("benchmark", "asked", "measure", "to chance") else "right")
    for row in rows:
        chance = standing(row) + f" {number(row['chance'])}"
        asked = [row["benchmark"], f"{row['layout']}, {row['protocol']}", row["measure"].replace("_", " ")]
        table.add_row(*asked, number(row["value"]), f"{row['low']:.2f}\u2013{row['high']:.2f}", chance)
    return table


def cost_lines(rows: Sequence[Row]) -> Iterator[str]:
    """What an evaluation would take, a line a cell, and all of it together."""
    for row in rows:
        yield f"{row['model']}, {row['question']}, {row['asked']}: {amount(row)}"
    total = {name: sum(row[name] or 0 for row in rows) for name in (*Cost._fields, "price", "seconds")}
    yield f"in all at most {amount(total)}"


def amount(row: Row) -> str:
    """`120 requests, 14,160 tokens in, 3,840 out`, with price and time where they are known."""
    words = [f"{row['requests']:,} requests", f"{row['tokens_in']:,} tokens in", f"{row['tokens_out']:,} out"]
    words += [f"{row['price']:,.2f} to pay"] if row["price"] else []
    return ", ".join(words + ([duration(row["seconds"])] if row["seconds"] else []))


def standing(row: dict[str, Any]) -> Text:
    """Where the interval lies relative to chance: `above`, `at` or `below`; or how many answers are missing."""
    if row["partial"]:
        return tinted(f"{row['left']} missing", "yellow")
    if row["n"] == 0:
        return Text("unknown")
    if row["chance"] != row["chance"]:  # NaN: the measure has no chance level
        return Text("")
    if row["low"] > row["chance"]:
        return tinted("above", "green")
    return Text("below" if row["high"] < row["chance"] else "at")


def shortened(labels: str, most: int = 4) -> str:
    """The commonest answers with their counts."""
    counts = sorted(json_of(labels).items(), key=lambda item: -item[1])
    return " ".join(f"{label}×{n}" for label, n in counts[:most]) + (" …" if len(counts) > most else "")


def number(value: float) -> str:
    """Two decimals; empty for NaN."""
    return "" if value != value else f"{value:.2f}"
