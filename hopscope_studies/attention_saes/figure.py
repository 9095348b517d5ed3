"""The figure of the study: known features found again, loss recovered, heads by prefix, and what cutting them costs."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import points
from hopscope.drawing.style import GREY, PALETTE, picture, styled

PREFIXES = ["0", "1", "2", "3", "4", "6", "9"]
SHORT, LONG = PALETTE[0], PALETTE[1]
SHOWN = 5  # heads of a kind
RECOVERED = (
    ("features", "features"),
    ("components", "compo-\nnents"),
    ("random", "random\ndictionaries"),
    ("shuffled", "shuffled\nfeatures"),
    ("mean", "mean"),
)


@styled
def figure(table: DataFrame) -> Figure:
    """Known directions recovered; loss recovered; scores by prefix and their ratios; the cost of ablating heads."""
    shown = picture(12.5, 7.0)
    found, loss, hand, *heads = shown.subplots(2, 3).flatten().tolist()
    draw_found(found, table)
    draw_loss(loss, table[table.part == "layer"])
    draw_hand(hand, table[table.part == "by hand"])
    draw_heads(heads, table[table.part == "language"])
    return shown


@styled
def heads_figure(table: DataFrame) -> Figure:
    """The language model's panels alone: scores by prefix, their ratios, and the cost of ablating heads."""
    shown = picture(12.5, 3.6)
    draw_heads(shown.subplots(1, 3), table[table.part == "language"])
    return shown


def draw_heads(axes: Iterable[Axes], language: DataFrame) -> None:
    """Draw scores by prefix and their ratios for the first model and seed, and the cost of ablation for all."""
    curves, kinds, costs = axes
    first = language[(language.seed == language.seed.min()) & (language.model == language.model.iloc[0])]
    draw_curves(curves, first)
    draw_kinds(kinds, first)
    draw_costs(costs, language)


def draw_found(ax: Axes, table: DataFrame) -> None:
    """Draw known directions recovered, by hand and in small models."""
    names = ("recovered", "components", "mixed", "untrained", "random")
    parts = (("by hand", "layer by hand", PALETTE[0], -0.12), ("toy", "small trained models", PALETTE[2], 0.12))
    for part, label, ink, shift in parts:
        rows = table[table.part == part]
        for at, name in enumerate(names):
            some = rows[(rows.kind == name) | ((rows.kind == "autoencoder") & (rows.name == name))]
            ax.plot([at + shift] * len(some), some.value, "o", ms=4.5, color=ink, alpha=0.7,
                    label=None if at else label)  # fmt: skip
    ax.set_xticks(range(len(names)), ["features", "compo-\nnents", "of mixed\ncoordinates", "untrained", "random"])
    ax.set(ylim=(-0.03, 1.03), ylabel="share recovered", title="Known directions with a cosine ≥ 0.9")
    ax.legend(loc="upper right")


def draw_loss(ax: Axes, rows: DataFrame) -> None:
    """Draw the loss recovered, for each kind of replacement of the layer's outputs."""
    recovered = rows[rows.kind == "recovered"]
    for at, (name, _) in enumerate(RECOVERED):
        some = recovered[recovered.name.str.startswith(name)]
        ink = PALETTE[0] if name == "features" else GREY
        points(ax, [at] * len(some), some, ink, lw=1)
    ax.axhline(0.8, color=GREY, lw=0.8, ls="--")
    ax.set_xticks(range(len(RECOVERED)), [label for _, label in RECOVERED])
    layer = int(rows[rows.name == "layer"].value.iloc[0])
    ax.set(ylabel="loss recovered", title=f"{rows.model.iloc[0]}, layer {layer}, on other text (95 %)")


def draw_hand(ax: Axes, rows: DataFrame) -> None:
    """Draw the scores of hand-set heads, whose prefixes are known."""
    some = rows[(rows.kind == "by prefix") & (rows.seed == rows.seed.min()) & rows.other.isin(PREFIXES)]
    for order in (1, 2, 3):
        head = some[some.step == order]
        ax.plot(range(len(PREFIXES)), head.value, "o-", ms=4, label=f"order {order}", color=PALETTE[order - 1])
    prefix_axis(ax, "Heads by hand")


def draw_curves(ax: Axes, rows: DataFrame) -> None:
    """Draw the scores by prefix of the heads with the highest scores, for both kinds."""
    scores = rows[rows.kind == "score"]
    for kind, ink in (("short", SHORT), ("long", LONG)):
        names = scores[scores.other == kind].nlargest(SHOWN, "value").name
        for at, name in enumerate(names):
            head = rows[(rows.kind == "by prefix") & (rows.name == name) & rows.other.isin(PREFIXES)]
            ax.plot(
                range(len(PREFIXES)), head.value, "o-", ms=3, lw=1, color=ink, label=None if at else f"{kind} prefix"
            )
            ax.annotate(name, (len(PREFIXES) - 1, head.value.iloc[-1]), fontsize=7, xytext=(4, -2),
                        textcoords="offset points")  # fmt: skip
    prefix_axis(ax, f"Heads of {rows.model.iloc[0]}")


def prefix_axis(ax: Axes, title: str) -> None:
    """Label the axes of a plot of scores by prefix."""
    ax.set_xticks(range(len(PREFIXES)), PREFIXES)
    ax.set(ylim=(-0.03, 1.2), xlabel="tokens of prefix", ylabel="attention to what followed", title=title)
    ax.legend(loc="upper left", ncols=3)


def draw_kinds(ax: Axes, rows: DataFrame) -> None:
    """Draw for each induction head its score after one token as a share of its full score, on the judging sequences."""
    ratio = rows[(rows.kind == "ratio") & rows.other.isin(["short", "long"])].sort_values("value", ascending=False)
    for at, kind in enumerate(ratio.other):
        points(ax, [at], ratio.iloc[[at]], SHORT if kind == "short" else LONG, lw=1)
    ax.axhline(0.5, color=GREY, lw=0.8, ls="--")
    ax.set_xticks(range(len(ratio)), ratio.name, rotation=90, fontsize=7)
    ax.set(ylim=(0, None), ylabel="share", title="Score after one token, of that after many (95 %)")


def draw_costs(ax: Axes, rows: DataFrame) -> None:
    """Draw the loss without heads of a kind, as a share of what the prefix gains."""
    lost, gained = rows[rows.kind == "lost"], rows[rows.kind == "gained"].groupby("other").value.mean()
    kinds = (("short", SHORT), ("long", LONG), ("random", GREY))
    for at, p in enumerate(("1", "9")):
        for shift, (kind, ink) in zip((-0.2, 0, 0.2), kinds, strict=True):
            some = lost[lost.name.str.startswith(kind) & (lost.other == p)]
            whole = float(gained[p]) if p in gained else 1.0
            ax.plot([at + shift] * len(some), some.value / whole, "o", ms=5 if kind != "random" else 3, color=ink,
                    label=None if at else f"{kind}{'-prefix heads' if kind != 'random' else ' heads'}")  # fmt: skip
            if kind != "random":
                ax.vlines([at + shift] * len(some), some.low / whole, some.high / whole, color=ink, lw=1)
    ax.axhline(0, color=GREY, lw=0.8)
    ax.set_xticks([0, 1], ["one token", "nine tokens"])
    ax.set(xlim=(-0.5, 1.5), ylabel="part of the gain that is lost", title="Heads cut, after a prefix of")
    ax.legend(loc="upper right")


@styled
def sources_figure(table: DataFrame) -> Figure:
    """Effective kinds of each planted head; features by kind of source, and effective kinds of each head, by layer."""
    shown, own, name = picture(12.5, 3.6), table[table.other == "own"], table.model.iloc[-1]
    axes, many = shown.subplots(1, 3, width_ratios=[0.6, 1.2, 1.2]), own[own.kind == "number of kinds"]
    draw_named(axes[1], own[(own.part == "language") & (own.kind == "share")])
    axes[1].set(title=f"{name}: features", ylabel="share of features")
    axes[1].legend(loc="upper left")
    for ax, part, title in ((axes[0], "by hand", "Planted heads"), (axes[2], "language", f"Heads of {name}")):
        draw_named(ax, many[many.part == part])
        ax.axhline(1.2, color=GREY, lw=0.8, ls="--")
        ax.set(title=title, ylabel="effective number of kinds")
    return shown


def draw_named(ax: Axes, rows: DataFrame) -> None:
    """Draw numbers with their intervals by name, with a colour for each layer and a mark for each run."""
    names = list(dict.fromkeys(rows.name))
    for layer, (step, of_layer) in enumerate(rows.groupby("step", dropna=False)):
        for run, (_, some) in enumerate(of_layer.groupby("run")):
            places = [names.index(name) + 0.25 * (layer - 1) + 0.06 * (run - 1) for name in some.name]
            points(ax, places, some, PALETTE[layer], None if run else f"layer {step:g}", ms=3, lw=0.8)
    ax.set_xticks(range(len(names)), [name.replace(" a ", " a\n") for name in names])
