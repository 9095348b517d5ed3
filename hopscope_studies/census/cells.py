"""The models that are counted: every combination of the factors that may decide which circuit is learnt, over seeds.

All are trained on D hops of the retrieval problem (Musat, ICLR 2025, section 3), have one head per layer and no MLP,
and start with the prior of this project's presets: in layer 0 the bias by distance starts at 4 for the previous token.
A run stops at a fifth of the loss that a circuit must stay below.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval

ORDERS = ("deepest_first", "shuffled", "nearest_first")
#: Neither is a large step from the presets, 1e-3 and `early_layers`.
RATES, WEIGHTS = (1e-3, 2e-3), ("early_layers", "fan_in")
#: By D, numbers of layers and orders of facts. At D = 3 other orders than deepest first are seldom learnt so soon.
LAYERS = {2: (3, 4, 5), 3: (4, 5), 4: (4, 5)}
TAUGHT = {2: ORDERS, 3: ORDERS[:1], 4: ORDERS[:1]}
#: By scale and D, how many seeds; and how many models are searched as they begin, as control.
SEEDS = {"quick": {2: 1}, "cpu": {2: 2, 3: 1}, "long": {2: 6, 3: 6, 4: 2}, "paper": {2: 20, 3: 20, 4: 20}}
UNTRAINED = {"quick": 1, "cpu": 4, "long": 12, "paper": 20}
SOLVED = 0.01  # every hop's validation loss; circuits of models that have only just passed 0.05 narrowly miss it
STEPS = {2: 600, 3: 600, 4: 800}
TINY = {"batch": 16, "val_size": 32}  # of the scale quick
PRIOR = "relative(start='L0 1:4')"


def cells(scale: str) -> Iterator[Config]:
    """Every combination, one seed after another, so that a spent budget leaves a balanced set; then untrained ones."""
    if scale == "quick":
        yield from (cell(2, 3, order, 1e-3, WEIGHTS[0], 0, steps=10, **TINY) for order in ORDERS[:2])
    else:
        for seed in range(max(SEEDS[scale].values())):
            for hops in (hops for hops, seeds in SEEDS[scale].items() if seed < seeds):
                for layers, order, rate, weights in itertools.product(LAYERS[hops], TAUGHT[hops], RATES, WEIGHTS):
                    yield cell(hops, layers, order, rate, weights, seed)
    for seed in range(UNTRAINED[scale]):
        yield cell(2, 3 + seed % 3, ORDERS[seed % 2], RATES[0], WEIGHTS[seed // 2 % 2], seed, steps=0)


def cell(
    hops: int, layers: int, order: str, rate: float, weights: str, seed: int, *, steps: int | None = None, **how: Any
) -> Config:
    """The configuration of one run; `how` has further training settings."""
    steps = STEPS[hops] if steps is None else steps
    model = Architecture(n_layers=layers, d_model=128, mlp=False, init=weights, positions=PRIOR)
    training = Training(
        steps=steps,
        lr=rate,
        schedule="linear",
        decay_steps=steps // 2 or None,
        dtype="bfloat16",
        stop_below=SOLVED,
        checkpoints=str(steps or 1),
        seed=seed,
        **how,
    )
    return Config(Retrieval(n_hops=hops, order=order, position_base=100.0), model, training)
