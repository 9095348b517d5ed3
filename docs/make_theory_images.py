"""Draws the pictures of docs/theory.md: docs/images/theory_*.svg."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from hopscope.drawing.flow_diagram import flow_diagram
from hopscope.drawing.style import rendered
from hopscope.theory.algorithms.linear import linear
from hopscope.theory.depth import Mask, chain_of, minimum_depth

IMAGES = Path(__file__).parent / "images"


def of_depth(hops: int, mask: Mask, order: str = "nearest_first") -> Figure:
    """The schedule of a minimum depth, with many heads where there is no mask."""
    chain = chain_of(hops, mask, order)
    depth = minimum_depth(hops, mask, "one" if mask == "causal" else "many", order)
    return flow_diagram(depth.schedule, hops, order=chain.order, causal=chain.causal)


def pictures() -> dict[str, Figure]:
    """By file name."""
    return {
        "theory_start": flow_diagram([], 2, order=(2, 1)),
        "theory_llama": of_depth(2, "causal", "deepest_first"),
        "theory_doubling": of_depth(7, "causal"),
        "theory_free": of_depth(6, "none"),
        "theory_linear": flow_diagram(linear(3, (1, 2, 3), True, "chain"), 3),
    }


if __name__ == "__main__":
    for name, figure in pictures().items():
        (IMAGES / f"{name}.svg").write_bytes(rendered(figure, "svg"))
