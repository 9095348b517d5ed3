"""The figure of the study: contributions to the answer, topic heads, replaced outputs, and the toy models."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled

SETS = (
    ("random", "random tens"),
    ("same layers", "tens of the\nsame layers"),
    ("answer", "the ten that add\nmost to the answer"),
    ("topic", "the ten that write\nthe subject"),
)
SHARES = (
    ("lost", "lost at the mean"),
    ("exchanged", "exchanged with another subject's"),
    ("by_mlps", "of that, by MLPs"),
)


@styled
def figure(table: DataFrame) -> Figure:
    """Contributions of layers; heads by layer; shares with outputs replaced; both parts of an answer by layer."""
    shown = picture(12.5, 7.4)
    layers, heads, instead, parts = shown.subplots(2, 2, width_ratios=[1.0, 1.05]).flatten().tolist()
    language = table[table.part == "language"]
    draw_layers(layers, language)
    draw_heads(heads, language)
    draw_instead(instead, language)
    draw_parts(parts, language, table[table.part == "toy"])
    return shown


def first_of(rows: DataFrame) -> DataFrame:
    """The rows of the first seed."""
    return rows[rows.run == rows.run.iloc[0]]


def draw_layers(ax: Axes, rows: DataFrame) -> None:
    """Draw by layer what it adds to the answer, its MLP's part of that, and the share within all words."""
    first = first_of(rows)
    for index, (kind, name, words) in enumerate(
        (
            ("adds", "layers", "the layer, to the answer among its kind"),
            ("adds", "mlps", "of that its MLP"),
            ("answer: layers", "all", "the layer, to the answer among all words"),
        )
    ):
        some = first[(first.kind == kind) & (first.name == name)]
        ax.plot(some.step, some.value, color=colour(index), lw=1.5, label=words)
        ax.fill_between(some.step, some.low, some.high, color=colour(index), alpha=0.15, lw=0)
    ax.axhline(0, color=GREY, lw=0.8, ls="--")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="layer", ylabel="nats", title=f"What is added to the answer, {first.model.iloc[0]}")
    ax.legend(loc="upper left", fontsize=7.5)


def draw_heads(ax: Axes, rows: DataFrame) -> None:
    """Draw every head of the first seed by layer and by how much it writes along the subject, on held-out groups."""
    first = first_of(rows)
    heads = first[first.kind == "head: topic"]
    names = set(first[(first.kind == "chosen") & (first.name == "topic")].other)
    chosen = heads[heads.name.isin(names)]
    ax.plot(heads.step, heads.value, ls="", marker="o", ms=3, color=GREY, alpha=0.6)
    ax.plot(chosen.step, chosen.value, ls="", marker="o", ms=5, color=colour(0))
    for _, head in chosen.nlargest(5, "value").iterrows():
        ax.annotate(head["name"], (head.step, head.value), fontsize=7, xytext=(-4, 3), textcoords="offset points",
                    ha="right")  # fmt: skip
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="layer", ylabel="nats to the subject, among subjects", title="Heads (blue: the ten topic heads)")


def draw_instead(ax: Axes, rows: DataFrame) -> None:
    """Draw by set of heads the shares with their outputs replaced, a mark per seed or random set."""
    for index, (kind, words) in enumerate(SHARES):
        found = rows[rows.kind == f"instead: {kind}"]
        for at, (name, _) in enumerate(SETS):
            some = found[found.name.str.startswith(name)]
            height = at + 0.22 * (index - 1)
            ax.plot(some.value, [height] * len(some), "o", ms=3.5, color=colour(index), label="_" if at else words)
            if len(some) <= rows.run.nunique():
                ax.hlines([height] * len(some), some.low, some.high, color=colour(index), lw=1)
    ax.axvline(0, color=GREY, lw=0.8, ls="--")
    ax.set_yticks(range(len(SETS)), [words for _, words in SETS])
    ax.set(xlabel="share", title="With their outputs replaced at the token that asks")
    ax.legend(loc="lower right", fontsize=7.5)


def draw_parts(ax: Axes, rows: DataFrame, toys: DataFrame) -> None:
    """Draw how often each part of the answer is right by layer; the legend says when toy models learn it."""
    first = first_of(rows)
    for index, name in enumerate(("relation", "subject")):
        some = first[(first.kind == "lens: right") & (first.name == name)]
        steps = toys[(toys.kind == "toy: halved after") & (toys.name == name)].value
        ax.plot(some.step, some.value, color=colour(index), lw=1.6,
                label=f"the {name}'s part (toys: from step {steps.mean():.0f} on)")  # fmt: skip
        ax.fill_between(some.step, some.low, some.high, color=colour(index), alpha=0.15, lw=0)
        chance = first[(first.kind == "chance") & (first.name == name)].value.iloc[0]
        ax.axhline(chance, color=colour(index), lw=0.8, ls="--")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="layers read", ylabel="share that is right", ylim=(0, 1.03),
           title="Kind and fact, as read off after each layer (dashed: chance)")  # fmt: skip
    ax.legend(loc="upper left", fontsize=7.5)
