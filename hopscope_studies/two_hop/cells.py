"""The models of `two_hop`, by condition and seed; sizes by scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.two_hop import TwoHop

#: One head of layer 0 and one of layer 1 start with attention to the token before. The first joins pairs; the second
#: can #: distinguish the end of a chain from other tokens.
PRIOR = "relative(start='L0H0 1:4; L1H0 1:4')"


@dataclass(frozen=True)
class Condition:
    """The differences from plain attention with the prior, asked for every hop.

    Attributes:
        attention: the kind of attention.
        positions: the position code.
        layers: the number of layers.
        every_hop: whether the chain's middle is asked, too.
        distractors: whether there are 1 to 4 chains among other pairs, instead of five chains alone.
        steps: the most steps of training at `cpu`.
    """

    attention: str = "softmax"
    positions: str = PRIOR
    layers: int = 3
    every_hop: bool = True
    distractors: bool = False
    steps: int = 1000


SEEDS = {"quick": 1, "cpu": 5, "paper": 8}
CONDITIONS = {
    "prior": Condition(),
    "KV shift": Condition("kv_shift", "relative"),
    "distractors": Condition(distractors=True),
    "end alone": Condition(every_hop=False),
    "no prior": Condition(positions="relative"),
    "KV shift, end alone": Condition("kv_shift", "relative", every_hop=False, steps=2000),
    "two layers": Condition(layers=2, steps=600),
}
TRAINING = Training(batch=128, lr=2e-3, weight_decay=1e-4, log_every=10, val_size=256, stop_below=0.05)


def cells(scale: str) -> Iterator[Config]:
    """All conditions, seed by seed, so that a spent budget leaves whole seeds; at `quick` one run of each."""
    for seed in range(SEEDS[scale]):
        yield from (cell(one, seed, scale) for one in CONDITIONS.values())


def cell(one: Condition, seed: int, scale: str = "cpu") -> Config:
    """The configuration of one run; `paper` has the authors' width, batch, rate and steps (train-3-layer-tf.sh)."""
    official = {} if one.distractors else {"n_pairs": 10, "n_chains": 5, "fewest": 5}
    shape = Architecture(
        n_layers=one.layers,
        n_heads=2,
        d_model={"quick": 16, "cpu": 64, "paper": 256}[scale],
        mlp=False,
        positions=one.positions,
        attention=one.attention,
        init="early_layers",
    )
    return Config(TwoHop(**official, every_hop=one.every_hop), shape, training(one, seed, scale))


def training(one: Condition, seed: int, scale: str) -> Training:
    """The training settings, with a checkpoint every 50 steps."""
    if scale == "quick":
        return TRAINING.but(steps=4, batch=8, log_every=2, val_size=16, checkpoints="2", seed=seed)
    if scale == "paper":
        return TRAINING.but(steps=10_000, batch=512, lr=3e-4, checkpoints="100", seed=seed)
    return TRAINING.but(steps=one.steps, checkpoints="50", seed=seed)
