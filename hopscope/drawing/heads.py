"""The heads of a real model as a picture: scores by layer and head, both from 0, from the rows of table.csv."""

from __future__ import annotations

import numpy
from pandas import DataFrame

from hopscope.drawing.attention_maps import add_caption
from hopscope.drawing.style import Picture, picture, styled

TITLES = {
    "induction": "induction",
    "previous_token": "previous token",
    "duplicate_token": "duplicate token",
    "retrieval": "retrieval",
    "attribution": "worth to the hop (nats)",
}


@styled
def head_maps(table: DataFrame, name: str) -> Picture:
    """A map per score, layers upward; attribution is the metric's drop without the head, approximated by gradients."""
    columns = [column for column in TITLES if column in table]
    n_layers, n_heads = int(table["layer"].max()) + 1, int(table["head"].max()) + 1
    figure = picture(1.2 + len(columns) * (0.9 + 0.14 * n_heads), 1.4 + 0.13 * n_layers)
    for index, column in enumerate(columns):
        ax = figure.add_subplot(1, len(columns), index + 1)
        values = table.pivot(index="layer", columns="head", values=column).to_numpy()
        signed = column == "attribution"
        bound = float(numpy.abs(values).max()) or 1.0
        image = ax.imshow(
            -values if signed else values,
            cmap="RdBu" if signed else "Blues",
            vmin=-bound if signed else 0,
            vmax=bound if signed else 1,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
        )
        ax.set_title(TITLES[column])
        ax.set_xlabel("head")
        ax.set_xticks(range(0, n_heads, 2))
        if not index:
            ax.set_ylabel("layer")
        bar = figure.colorbar(image, ax=ax, location="bottom", aspect=12, pad=0.02)
        bar.outline.set_visible(False)  # type: ignore[operator]
    add_caption(
        figure, f"{name}: what each head does", "Layers and heads count from 0. Blue worth: the answer needs it."
    )
    return figure
