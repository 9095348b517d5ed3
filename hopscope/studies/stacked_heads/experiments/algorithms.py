"""Which algorithm is learnt? Circuits named by the schedules that they realise (beyond Musat, ICLR 2025, section 8.2).

The paper describes one hop after the other: the query follows the chain, a fact per layer. Theory knows faster ways
(docs/theory.md): facts join with facts ahead of the query, and pointer doubling does five hops in four layers. Here
every trained model's circuit is found (`hopscope.circuits`) and named (`hopscope.theory.naming`), at the exact minimum
depth and where one hop per layer would fit. All models have the prior of `minimum_depth`, which the paper does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.configuration.config import Config
from hopscope.studies.stacked_heads.experiments import minimum_depth
from hopscope.studies.stacked_heads.experiments.minimum_depth import least

#: D and layers by order, and the number of seeds: at the minimum depth, and at D + 1, where one hop per layer fits.
CELLS = {
    "deepest_first": (((2, 3), (3, 3), (3, 4), (4, 4), (4, 5), (5, 4), (5, 6)), 5),
    "shuffled": (((2, 3), (3, 4), (4, 5)), 3),
    "nearest_first": (((2, 3), (3, 4), (4, 5)), 3),
}


def runs(scale: str) -> Iterator[Config]:
    """Every order; those of deepest first are largely runs of `minimum_depth`. On paper scale all cells, five seeds."""
    if scale == "quick":
        yield minimum_depth.cell(1, 2, 0, scale)
        return
    for order, (cells, n_seeds) in CELLS.items():
        for seed in range(n_seeds):
            for hops, layers in cells:
                yield minimum_depth.cell(hops, layers, seed, "cpu", order)
