"""The figure of the study: retrieval heads, their share, the cost of masking, and induction heads."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, PALETTE, name_rows, picture, styled

BAR, FEW = 0.1, 0.05


@styled
def figure(table: DataFrame) -> Figure:
    """Draw scores by layer and head, shares of heads, costs of masking, induction scores, and how often heads hit."""
    shown = picture(12.5, 7.4)
    grid = shown.add_gridspec(2, 3, width_ratios=[0.62, 1.0, 1.0])
    language = table[table.part == "language"]
    first = language[(language.seed == language.seed.min()) & (language.model == language.model.iloc[0])]
    draw_map(shown.add_subplot(grid[:, 0]), first)
    draw_shares(shown.add_subplot(grid[0, 1]), language, table[table.part == "published"])
    draw_masking(shown.add_subplot(grid[0, 2]), language)
    draw_induction(shown.add_subplot(grid[1, 1]), first)
    draw_firing(shown.add_subplot(grid[1, 2]), first)
    return shown


def draw_map(ax: Axes, rows: DataFrame) -> None:
    """Draw every head's score with the answer given; layers run upward."""
    scores = rows[rows.kind == "forced"]
    places = scores.name.str.extract(r"L(\d+)H(\d+)").astype(int)
    values = scores.assign(layer=places[0], head=places[1]).pivot(index="layer", columns="head", values="value")
    image = ax.imshow(values.to_numpy(), cmap="Blues", vmin=0, vmax=1, origin="lower", aspect="auto")
    ax.set(xlabel="head", ylabel="layer", title=f"Retrieval score,\n{rows.model.iloc[0]}")
    bar = ax.figure.colorbar(image, ax=ax, location="bottom", aspect=14, pad=0.09)
    bar.outline.set_visible(False)  # type: ignore[operator]


def draw_shares(ax: Axes, language: DataFrame, published: DataFrame) -> None:
    """Draw the shares of heads with a score of 0.1 or more, and the paper's bound."""
    shares = published[published.kind == "share"]
    labels = list(shares.name)
    ax.plot(shares.value, range(len(shares)), "o", ms=4.5, color=GREY)
    ax.hlines(range(len(shares)), shares.low, shares.high, color=GREY, lw=1)
    for way, ink in (("forced", PALETTE[0]), ("free", PALETTE[1])):
        rows = language[(language.kind == f"sparsity {way}") & (language.name == "share")]
        heights = range(len(labels), len(labels) + len(rows))
        labels += [f"{model}, {way}, seed {seed}" for model, seed in zip(rows.model, rows.seed, strict=True)]
        ax.plot(rows.value, heights, "o", ms=4.5, color=ink)
        ax.hlines(heights, rows.low, rows.high, color=ink, lw=1)
    ax.axvline(FEW, color=GREY, lw=0.9, ls="--")
    name_rows(ax, labels, fontsize=7.5)
    ax.set(xlim=(0, None), title="Share of heads with a score ≥ 0.1 (95 %)")


def draw_masking(ax: Axes, rows: DataFrame) -> None:
    """Draw the nats lost with the highest, random, other same-layer and induction heads masked."""
    lost = rows[rows.kind == "lost: log_p"].copy()
    lost["size"] = lost.name.str.extract(r"(\d+)", expand=False).astype(int)
    kinds = (
        ("random", GREY, 0.94, "random"),
        ("same layers", PALETTE[2], 1.0, "others of the same layers"),
        ("induction", PALETTE[1], 1.06, "highest induction heads"),
        ("retrieval", PALETTE[0], 1.0, "highest retrieval heads"),
    )
    for name, ink, shift, label in kinds:
        some = lost[lost.name.str.startswith(name)]
        ax.plot(some["size"] * shift, some.value, ls="", marker="o", ms=5 if name == "retrieval" else 3.2, color=ink,
                label=label)  # fmt: skip
        if name in ("retrieval", "induction"):
            ax.vlines(some["size"] * shift, some.low, some.high, color=ink, lw=1)
    ax.set(xscale="log", xlabel="heads masked", ylabel="nats per token", title="What masking costs, on other needles")
    sizes = sorted(lost["size"].unique())
    ax.set_xticks(sizes, sizes)
    ax.minorticks_off()
    ax.legend(loc="upper left")


def draw_induction(ax: Axes, rows: DataFrame) -> None:
    """Draw every head by its induction score and its retrieval score."""
    both = rows[rows.kind.isin(["forced", "induction"])].pivot(index="name", columns="kind", values="value")
    ax.plot(both.induction, both.forced, ls="", marker="o", ms=3.5, color=PALETTE[0], alpha=0.7)
    for name, head in both.nlargest(5, "forced").iterrows():
        ax.annotate(str(name), (head.induction, head.forced), fontsize=7, xytext=(3, 2), textcoords="offset points")
    ax.axhline(BAR, color=GREY, lw=0.8, ls="--")
    ax.set(xlabel="induction score", ylabel="retrieval score", ylim=(-0.03, 1.03), title="Against induction scores")


def draw_firing(ax: Axes, rows: DataFrame) -> None:
    """Draw retrieval heads by the share of questions in which they hit a token."""
    active = rows[rows.kind == "active"].set_index("name").value.sort_values(ascending=False)
    ax.bar(range(len(active)), active, color=[PALETTE[0] if value > 0.95 else PALETTE[1] for value in active])
    ax.axhline(0.95, color=GREY, lw=0.8, ls="--")
    ax.set_xticks(range(len(active)), active.index, rotation=90, fontsize=6.5)
    ax.set(ylim=(0, 1.02), ylabel="share of asks with a hit", title="Always on, and by context")
