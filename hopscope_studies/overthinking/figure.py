"""The figure of the study: answers after every layer, heads, accuracy without them, and the toy models."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame, Series

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope.experiments.reports import of

CHANCE = 1 / 3
SHOWN = ("true", "permuted", "half", "random")
SETS = (
    ("random", "random fives"),
    ("same layers", "fives of the\nsame layers"),
    ("top", "the five highest"),
    ("late attention", "late attention"),
    ("late MLPs", "late MLPs"),
)
BESIDE = (
    ("true", "answers after\ntrue labels"),
    ("permuted", "after permuted"),
    ("best", "best layer,\npermuted"),
    ("critical", "critical layer,\nof all"),
    ("share", "of the gap, by\nfew heads"),
)


@styled
def figure(table: DataFrame) -> Figure:
    """Accuracy after each layer; scores by layer; accuracies with parts silenced; the toy models' numbers."""
    shown = picture(12.5, 7.0)
    layers, heads, left, beside = shown.subplots(2, 2, width_ratios=[1.1, 1.0]).flatten().tolist()
    language = table[table.part == "language"]
    draw_layers(layers, table, language)
    draw_heads(heads, language)
    draw_left(left, language)
    draw_toys(beside, language, table[table.part == "toy"])
    return shown


def draw_layers(ax: Axes, table: DataFrame, language: DataFrame) -> None:
    """Draw a line per kind of label, with its interval at the first seed; other words are dotted."""
    first = language[language.run == language.run.iloc[0]]
    for index, kind in enumerate(SHOWN):
        rows = first[(first.kind == "lens") & (first.name == kind)]
        ax.plot(rows.step, rows.value, color=colour(index), lw=1.6, label=f"{kind} labels")
        ax.fill_between(rows.step, rows.low, rows.high, color=colour(index), alpha=0.12, lw=0)
    for index, kind in enumerate(SHOWN[:2]):
        rows = table[(table.part == "other words") & (table.kind == "lens") & (table.name == kind)]
        run_lines(ax, rows, color=colour(index), label="_" if index else "other words", lw=1, alpha=1, ls=":")
    ax.axhline(CHANCE, color=GREY, lw=0.8, ls="--")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="layers read", ylabel="calibrated accuracy", ylim=(0, 1.03),
           title=f"After each layer, {first.model.iloc[0]}")  # fmt: skip
    ax.legend(loc="upper left", fontsize=7.5)


def draw_heads(ax: Axes, rows: DataFrame) -> None:
    """Draw every head of the first seed by layer and by score on held-out texts; the chosen heads are named."""
    first = rows[rows.run == rows.run.iloc[0]]
    scores = first[first.kind == "again"]
    chosen = first[first.kind == "chosen"]
    ax.plot(scores.step, scores.value, ls="", marker="o", ms=3, color=GREY, alpha=0.6)
    ax.plot(chosen.step, chosen.value, ls="", marker="o", ms=5, color=colour(0))
    for _, head in chosen.iterrows():
        ax.annotate(head["name"], (head.step, head.value), fontsize=7, xytext=(4, 1), textcoords="offset points")
    ax.axhline(first[first.kind == "classes mixed"].value.max(), color=GREY, lw=0.8, ls="--")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="layer", ylabel="to labels of the class, minus others",
           title="Heads (dashed: the highest with classes mixed)")  # fmt: skip


def draw_left(ax: Axes, rows: DataFrame) -> None:
    """Draw accuracies with true and permuted labels for each silenced set, and those of the whole model."""
    for index, kind in enumerate(("true", "permuted")):
        whole = rows[(rows.kind == "whole") & (rows.name == kind)].value.mean()
        ax.axvline(whole, color=colour(index), lw=0.9, ls="--")
        found = rows[rows.kind == f"without: {kind}"]
        for at, (name, _) in enumerate(SETS):
            some = found[found.name.str.startswith(name)]
            height = at + 0.2 * index - 0.1
            ax.plot(some.value, [height] * len(some), "o", ms=3.5, color=colour(index),
                    label="_" if at else f"{kind} labels")  # fmt: skip
            if len(some) <= rows.run.nunique():
                ax.hlines([height] * len(some), some.low, some.high, color=colour(index), lw=1)
    name_rows(ax, [words for _, words in SETS])
    ax.set(xlim=(0, 1.03), xlabel="calibrated accuracy (dashed: of the whole)", title="With these silenced")
    ax.legend(loc="upper left", fontsize=7.5)


def draw_toys(ax: Axes, rows: DataFrame, toys: DataFrame) -> None:
    """Draw the same numbers for the language model (filled) and for the toy models of `false_demonstrations`."""
    ours = beside(rows.sort_values("run"))
    for at, (name, _) in enumerate(BESIDE):
        small = toys[toys.name == name].value
        ax.plot(small, [at + 0.12] * len(small), "o", ms=4, mfc="none", color=colour(1), label="_" if at else "toys")
        ax.plot(ours[name], [at - 0.12] * len(ours[name]), "o", ms=4.5, color=colour(0),
                label="_" if at else "language model")  # fmt: skip
    name_rows(ax, [words for _, words in BESIDE])
    ax.set(xlim=(-0.03, 1.05), title="Against small models (`false_demonstrations`)")
    ax.legend(loc="upper left", fontsize=7.5)


def beside(rows: DataFrame) -> dict[str, Series]:
    """The language model's numbers under the toy models' names, by run."""
    curve = rows[(rows.kind == "lens") & (rows.name == "permuted")].sort_values("step").groupby("run").value
    return {
        **{name: of(rows, "whole", name) for name in ("true", "permuted")},
        "best": curve.agg(lambda values: values.iloc[:-1].max()),
        "critical": of(rows, "critical", "all texts") / of(rows, "layers", "all"),
        "share": of(rows, "share", "top"),
    }
