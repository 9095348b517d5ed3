"""Information flow as a picture: attention layer by layer, and what every position holds (after Musat, ICLR 2025).

It follows the paper's figures 5 and 7. Columns are the positions of one chain, in order of reachability from the query;
time runs upwards, from the sequence at the bottom. Between two rows is a layer, whose arrows lead from attended to
attending positions. Each position is a bar in each row: the track is the whole chain's pieces e_0 … e_2D, and it is
filled as far as the position holds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path as Curve

from hopscope.core.settings import BadInput
from hopscope.drawing.attention_maps import COUNTING
from hopscope.drawing.style import GREY, PALETTE, canvas, colour, styled
from hopscope.problem.paths import Path, place_of, role_name
from hopscope.theory.flow import Chain, Flow, Interval, simulate

MOST_HOPS = 16
BAR = 0.84, 0.13  # width and height, in columns and in layers
TRACK, FILL, SOLVED, BROKEN = "#e6e6e6", PALETTE[4], PALETTE[2], PALETTE[1]


@styled
def flow_diagram(
    paths: Iterable[Path],
    hops: int,
    *,
    order: Sequence[int] | None = None,
    causal: bool = True,
    ax: Axes | None = None,
) -> Figure:
    """A schedule, or a circuit from a search, as a picture.

    Arrows have the colour of their head. A path whose positions share no piece (see `hopscope.theory.flow`) when they
    attend, or that violates the mask, is dashed and red, and moves nothing. Paths between chains are left out.

    Args:
        paths: paths of one chain; layers without paths are empty bands.
        hops: D, the chain's length.
        order: the steps in order of presentation, by default nearest first; the small numbers under the roles are the
            times at which positions are presented.
        causal: whether positions may attend only to earlier ones.
        ax: axes to draw on; by default those of a new figure.

    Raises:
        BadInput: there are more than `MOST_HOPS` hops.
    """
    if hops > MOST_HOPS:
        raise BadInput(f"a diagram shows at most {MOST_HOPS} hops; got {hops}")
    chain = Chain(hops, tuple(order or range(1, hops + 1)), causal)
    drawn = sorted(path for path in paths if path.chain == "same")
    flow = simulate(chain, drawn)
    rows = len(flow.held)
    figure, ax = canvas(ax, 0.82 * (chain.last + 1) + 0.9, 0.85 * rows + 0.8)
    draw_rows(ax, chain, flow)
    for path in drawn:
        draw_path(ax, path, broken=path in {*flow.blind, *flow.masked})
    draw_names(ax, chain, rows)
    ax.set_axis_off()
    ax.set(xlim=(-1.25, chain.last + 0.6), ylim=(-0.62, rows - 0.7))
    return figure


def draw_rows(ax: Axes, chain: Chain, flow: Flow) -> None:
    """Draw the bars, and a line from each up to the next, because a position keeps what it holds."""
    width, height = BAR
    for row, held in enumerate(flow.held):
        for place, interval in enumerate(held):
            if row:
                ax.plot([place, place], [row - 1, row], color=TRACK, lw=1.2, zorder=0)
            ax.add_patch(Rectangle((place - width / 2, row - height / 2), width, height, color=TRACK, lw=0, zorder=2))
            left, right = span(interval, chain, width)
            solved = place == 0 and interval[1] == chain.last
            fill = Rectangle((place + left, row - height / 2), right - left, height, lw=0, zorder=3)
            fill.set_facecolor(SOLVED if solved else FILL)
            fill.set_gid(f"{role_name(place)} {row} holds {interval[0]} to {interval[1]}")
            ax.add_patch(fill)


def span(interval: Interval, chain: Chain, width: float) -> tuple[float, float]:
    """The filled part of a bar, relative to its middle: every piece takes an equal part of the track."""
    part = width / (chain.last + 1)
    return interval[0] * part - width / 2, (interval[1] + 1) * part - width / 2


def draw_path(ax: Axes, path: Path, broken: bool) -> None:
    """Draw an arrow from the attended position, in the row below its layer, to the attending one in the row above."""
    start, end = (place_of(path.key), path.layer), (place_of(path.query), path.layer + 1)
    tint = BROKEN if broken else colour((0, 3, 5, 6)[path.head % 4])
    low, high = start[1] + BAR[1] / 2 + 0.02, end[1] - BAR[1] / 2 - 0.02
    middle = (low + high) / 2
    corners = [(start[0], low), (start[0], middle), (end[0], middle), (end[0], high)]
    arrow = FancyArrowPatch(
        path=Curve(corners, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]),
        arrowstyle="-|>",
        mutation_scale=10,
        color=tint,
        lw=1.4,
        linestyle="--" if broken else "-",
        zorder=4,
    )
    arrow.set_gid(str(path))
    ax.add_patch(arrow)


def draw_names(ax: Axes, chain: Chain, rows: int) -> None:
    """Draw roles and times below, layers at the left."""
    for place, time in enumerate(chain.times):
        ax.text(place, -0.14, role_name(place), ha="center", va="top", fontsize=8)
        ax.text(place, -0.34, str(time), ha="center", va="top", fontsize=7, color=GREY)
    ax.text(-0.62, -0.34, "time", ha="right", va="top", fontsize=7, color=GREY)
    for layer in range(rows - 1):
        ax.text(-0.62, layer + 0.5, f"layer {layer}", ha="right", va="center", fontsize=8, color=GREY)
    ax.text(chain.last + 0.5, -0.52, COUNTING, ha="right", va="top", fontsize=6.5, color=GREY)
