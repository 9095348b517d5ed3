"""The style of figures, and how they are written: colour-blind safe, without global state.

Figures are made without pyplot, so none stays in memory and no display is needed. But notebooks show a plain `Figure`
only after pyplot's inline backend is active. So ours are `Picture`s, which give IPython a PNG by its own protocol. A
figure whose axes the caller passes in stays the caller's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox

from hopscope.core.storage import write_file

P = ParamSpec("P")
R = TypeVar("R")

#: Okabe and Ito (2008), without yellow, which is faint on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555", "#8C564B")
GREY = "#777777"
QUERY_INK = "#444444"  # of what a query holds

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.dpi": 110.0,
    "savefig.dpi": 150.0,
    "svg.hashsalt": "hopscope",  # names inside an SVG are random otherwise, and equal tables must give equal files
}


class Picture(Figure):
    """A figure that notebooks show."""

    def _repr_png_(self) -> bytes:
        return rendered(self, "png")


class SettledLayout(ConstrainedLayoutEngine):
    """The constrained layout, rounded so that equal figures have equal positions.

    Its solver takes terms in the order of their memory addresses, so positions differ in their last bit between runs.
    An SVG has six decimals of a point, of which one sometimes changes.
    """

    DECIMALS = 7  # of the figure's size: far below a pixel, far above the solver's noise

    def execute(self, fig: Figure) -> None:
        """Lay out a figure's panels and axes."""
        super().execute(fig)
        panels = list(fig.subfigs)
        for panel in panels:
            panel.bbox_relative.set_points(panel.bbox_relative.get_points().round(self.DECIMALS))
            panels += panel.subfigs
        for ax in fig.axes:
            if ax.get_in_layout():  # leave axes that were placed by hand
                ax.set_position(Bbox(ax.get_position(original=True).get_points().round(self.DECIMALS)))
                ax.set_in_layout(True)  # setting a position turns this off


def picture(width: float, height: float) -> Picture:
    """An empty figure of this size in inches, with a layout without overlaps."""
    return Picture(figsize=(width, height), layout=SettledLayout())


def canvas(ax: Axes | None, width: float, height: float) -> tuple[Figure, Axes]:
    """The given axes and their figure; else new ones in a figure of this size in inches.

    Raises ValueError for axes without a figure.
    """
    if ax is None:
        figure = picture(width, height)
        return figure, figure.add_subplot()
    owner = ax.get_figure(root=True)
    if owner is None:
        raise ValueError("ax must belong to a figure; got axes that were removed from theirs")
    return owner, ax


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorator: draw in our style, and restore matplotlib's settings."""

    @wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawing


def colour(index: int) -> str:
    """The colour of chain, hop or seed number `index`."""
    return PALETTE[index % len(PALETTE)]


def name_rows(ax: Axes, names: Sequence[str], **text: Any) -> None:
    """Name rows at heights 0, 1, …, the first on top; `text` holds text properties, such as `fontsize`."""
    ax.set_yticks(range(len(names)), names, **text)
    ax.invert_yaxis()


def ink_on(background: str) -> str:
    """White or black, whichever contrasts more with a colour (luminance by Rec. 709)."""
    red, green, blue = to_rgb(background)
    return "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.62 else "black"


def rendered(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of an `svg` or `png` file; equal figures give equal bytes."""
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    with matplotlib.rc_context(STYLE), io.BytesIO() as file:
        figure.savefig(file, format=kind, metadata=metadata)
        return file.getvalue()


def save(figure: Figure, path: Path | str) -> list[Path]:
    """Write a figure as SVG and PNG; `path` is without suffix. Returns the files. Raises CannotSave."""
    files = [Path(f"{path}.{kind}") for kind in ("svg", "png")]
    for file in files:
        write_file(file, rendered(figure, file.suffix[1:]))
    return files
