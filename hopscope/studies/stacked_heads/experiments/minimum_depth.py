"""How many layers are enough? D = 1 to 8 with one layer fewer than the exact minimum, with it, and with one more.

Theory (docs/theory.md) asks for ⌈log2(D+1)⌉ + 1 layers of one head under a causal mask, and no fewer; the paper proves
⌈log3 2D⌉ (Musat, ICLR 2025, section 5, theorem 1). Does training find what theory allows, and never more? All runs have
the prior that the paper does not have (a learnt bias by distance, which starts at 5 for the token before in layer 0),
no MLP, and deepest facts first (section 3.1). Where the minimum leaves no slack, D = 1, 3, 7, every head must be used
just so.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.runs.run import Run
from hopscope.theory.depth import minimum_depth

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 720, "long": 4200}
CELL_SECONDS = 200
CLAIMS = ("nothing_below_the_minimum", "minimum_is_enough", "one_more_is_enough", "no_slack_is_hard")

PRIOR = "relative(start='L0 1:5')"
SEEDS = {"quick": 1, "cpu": 3, "long": 5}
MOST_HOPS = 8
TINY = {"steps": 10, "batch": 8, "log_every": 5, "val_size": 16, "checkpoints": "10", "decay_steps": 5}


def runs(scale: str) -> Iterator[Config]:
    """Each D with three numbers of layers, over seeds; seed by seed, so that what a budget leaves is whole."""
    for seed in range(SEEDS[scale]):
        for hops in (1, 2) if scale == "quick" else range(1, MOST_HOPS + 1):
            for more in (-1, 0, 1):
                yield cell(hops, least(hops) + more, seed, scale)


def cell(hops: int, layers: int, seed: int, scale: str, order: str = "deepest_first") -> Config:
    """One run: the preset `minimum_depth` with other hops and layers, and a prior that is strong enough for D = 8."""
    training = TINY if scale == "quick" else budget(hops, scale)
    config = recipe("minimum_depth").config(seed=seed, **training)
    model = config.model.but(n_layers=layers, positions=PRIOR, d_model=16 if scale == "quick" else 128)
    return Config(config.task.but(n_hops=hops, order=order), model, config.training)


def budget(hops: int, scale: str) -> dict[str, object]:
    """Steps; the rate falls over the second half of them. Those whose circuits are looked at have dense checkpoints."""
    steps = 1500 if scale == "long" else 400 if hops < 5 else 500
    return {"steps": steps, "decay_steps": steps // 2, "checkpoints": "20:400,100" if hops <= 5 else "500"}


def least(hops: int) -> int:
    """The exact minimum depth with one head, the same for every order of the facts."""
    return minimum_depth(hops, "causal", "one", "deepest_first").min_layers
