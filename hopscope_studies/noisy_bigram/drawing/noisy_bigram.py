"""The figure of `noisy_bigram`: samples, training, truncation, and a language model by layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Index

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled

NAMES = {"last": "last feed-forward trained", "both": "both trained", "all": "everything trained"}
SAMPLED = (
    ("feed_forward_error", "feed-forward", 0),
    ("attention_error", "attention", 1),
)


@styled
def figure(table: DataFrame) -> Figure:
    """Top: samples and the paper's setting. Bottom: our setting and a language model.

    Args:
        table: rows of kind `samples`, `official curve`, `official truncation`, `curve`, `truncation`, and perhaps
            `language`.
    """
    table = table.reindex(
        columns=table.columns.union(Index(["trains", "state"]), sort=False)
    )  # of runs; there may be none yet
    language = table[table.kind == "language"]
    asked = len(language) > 0 and "prompt" in language and language.prompt.notna().any()
    shown = picture(16.6, 6.4)
    axes = shown.subplots(2, 4).flat
    drawn(axes[0], samples, table[table.kind == "samples"])
    official = table[table.kind == "official curve"]
    drawn(axes[1], pairs, official, {"noise": "p(noise)", "correct": "p(correct)"}, "The paper's setting, no noise")
    drawn(
        axes[2],
        pairs,
        official,
        {"margin_late": "margin, late MLP (logits)", "margin_early": "margin, early MLP", "attended": "attention"},
        "Noise in MLPs; attention to answers",
    )
    drawn(axes[3], one_matrix, table[table.kind == "official truncation"])
    drawn(axes[4], curves, table[(table.kind == "curve") & (table.trains == "last")])
    drawn(axes[5], shares, table[(table.kind == "truncation") & (table.state == "trained")])
    if asked:
        layers(axes[6], language[language.prompt == "Madrid"], 'SmolLM2, "Madrid is located in", one layer')
        layers(axes[7], language, "the same, mean over ten cities")
    else:
        for ax in (axes[6], axes[7]):
            blank(ax, "no language model was asked")
    return shown


def drawn(ax: Axes, how: Callable[..., None], rows: DataFrame, *more: Any) -> None:
    """Draw a panel, or a note if none of its runs is finished yet."""
    if len(rows):
        how(ax, rows, *more)
    else:
        blank(ax, "not measured yet")


def blank(ax: Axes, words: str) -> None:
    """Draw a note in place of a panel."""
    ax.axis("off")
    ax.text(0.5, 0.5, words, ha="center", color=GREY, transform=ax.transAxes)


def pairs(ax: Axes, rows: DataFrame, names: dict[str, str], title: str) -> None:
    """Draw numbers over training: a thin line per run, and means."""
    for index, (column, label) in enumerate(names.items()):
        run_lines(ax, rows, column, color=colour(index), label=label, middle="mean", thick=1.8)
    ax.set(xlabel="optimizer steps", title=title)
    ax.legend(loc="best")


def one_matrix(ax: Axes, rows: DataFrame) -> None:
    """Draw p(correct), solid, and p(noise), dotted, by the share of one matrix's rank that is kept."""
    for index, ((layer, matrix), part) in enumerate(rows.groupby(["layers", "matrix"])):
        for column, style in (("correct", "-"), ("noise", ":")):
            mean = part.groupby("share")[column].mean()
            label = f"{layer} {matrix}" if column == "correct" else "_"
            ax.plot(mean.index, mean, color=colour(index), ls=style, marker="o", ms=3, lw=1.4, label=label)
    ax.set(xlabel="kept share of the rank (0: removed)", ylim=(0, 1), title="One matrix: p(correct); dotted p(noise)")
    ax.legend(loc="best")


def samples(ax: Axes, rows: DataFrame) -> None:
    """Draw the relative squared error of the first gradient by number of samples; a line per vocabulary size."""
    sizes = sorted(rows.n_tokens.unique())
    for column, name, index in SAMPLED:
        for place, n_tokens in enumerate(sizes):
            line = rows[rows.n_tokens == n_tokens].groupby("samples")[column].mean()
            label = name if place == len(sizes) - 1 else "_"
            ax.plot(line.index, line, color=colour(index), lw=0.7 + 0.25 * place, alpha=0.8, label=label)
    ax.axhline(1.0, color=GREY, lw=0.8, ls="--", zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="sequences", ylabel="noise / signal of the gradient")
    ax.set_title(f"First step, N = {int(sizes[0])} (thin) to {int(sizes[-1])}")
    ax.legend(loc="lower left")


def curves(ax: Axes, rows: DataFrame) -> None:
    """Draw both probabilities over training, with a line per run and dashes at α."""
    for index, alpha in enumerate(sorted(rows.alpha.unique())):
        for column, style in (("noise", "-"), ("correct", ":")):
            part = rows[rows.alpha == alpha]
            run_lines(ax, part, column, color=colour(index), label="_", lw=1.0, alpha=0.8, ls=style)
        ax.axhline(alpha, color=colour(index), lw=0.7, ls="--", zorder=0, label=f"α = {alpha:g}")
    ax.set(xlabel="optimizer steps", ylim=(0, 1), title="Even tokens: p(noise) solid, p(correct) dotted")
    ax.legend(loc="upper right")


def shares(ax: Axes, rows: DataFrame) -> None:
    """Draw the margin by the kept share of the late layer's rank, a line per run; 1 is the whole model.

    If there are several α, the one that most kinds of model have is shown.
    """
    alpha = min(rows.alpha.unique(), key=lambda a: (-rows[rows.alpha == a].trains.nunique(), a))
    rows = rows[(rows.layers != "early") & (rows.alpha == alpha)]
    names = [name for name in NAMES if (rows.trains == name).any()]
    for index, name in enumerate(names):
        part = rows[rows.trains == name].sort_values("share")
        how: dict[str, Any] = {"color": colour(index), "label": NAMES[name], "lw": 1.0, "alpha": 0.8}
        run_lines(ax, part, "margin", "share", marker="o", ms=3, **how)
    ax.axhline(0.0, color=GREY, lw=0.8, ls="--", zorder=0)
    ax.set(xlabel="kept share of the rank (0: removed)", title="Even tokens: log p(correct) − log p(noise)")
    ax.legend(loc="best")


def layers(ax: Axes, rows: DataFrame, title: str) -> None:
    """Draw the log-odds of the country over " the" by truncated layer, with a line per kept share of the rank."""
    odds = rows.assign(odds=numpy.log(rows.correct / rows.noise))
    one = odds[(odds["first"] >= 0) & ~odds.layers.str.contains("-")]
    for index, (share, part) in enumerate(one.groupby("share")):
        line = part.groupby("first").odds.mean()
        ax.plot(line.index, line, color=colour(index), marker="o", ms=3, lw=1.0, label=f"{share:.0%} of the rank")
    ax.axhline(float(odds[odds.layers == "none"].odds.mean()), color=GREY, lw=0.8, ls=":", label="whole model")
    ax.axhline(0.0, color=GREY, lw=0.8, ls="--", zorder=0)
    ax.set(xlabel="truncated layer", ylabel='log p(country) − log p(" the")', title=title)
    ax.legend(loc="lower left")
