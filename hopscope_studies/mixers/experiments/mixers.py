"""Can recurrent layers hop, and in how wide a window of learning rates? (after arXiv:2508.19029)

Okpekpe and Orvieto find that tuned recurrent models recall in one layer, in a narrow window of learning rates. Here the
task is retrieval with four chains and two hops. The first hop is multi-query recall, with four keys asked at the end.
Attention without shifted keys needs three layers for the second hop, and with shifted keys two (`hopscope.theory`).
Every mixer has two layers and is trained at four learning rates, a factor of about three apart.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame, Series, concat

from hopscope.configuration.config import Config, Training
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.curves import LEARNT, endings_of
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.variants import TINY_TRAINING
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 9, "cpu": 640, "paper": 6000}

CONVOLVED = ("state_space", "delta_rule")
BARE = tuple(f"{name}(convolution=0)" for name in CONVOLVED)
WITHOUT = ("softmax", "linear")
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
STEPS = {"quick": 10, "cpu": 400, "paper": 3000}
TASK = Retrieval(n_hops=2, order="deepest_first", position_base=100.0)
SHAPE = Architecture(n_layers=2, n_heads=2, d_model=64, init="early_layers")
WINDOW = "number of rates of four"
#: What is claimed, by experiment and id.
SENTENCES = tomllib.loads((Path(__file__).parents[1] / "data" / "sentences.toml").read_text())


def runs(scale: str) -> Iterator[Config]:
    """Every mixer at every rate, seed by seed."""
    for seed in range(SEEDS[scale]):
        yield from (config(scale, name, rate, seed) for name in (*WITHOUT, *BARE, *CONVOLVED) for rate in RATES)


def config(scale: str, attention: str, rate: float, seed: int) -> Config:
    """The configuration of one run."""
    steps, tiny = STEPS[scale], scale == "quick"
    lasting: dict[str, Any] = {"steps": steps, "decay_steps": steps // 2, "checkpoints": str(steps)}
    training = Training(batch=64, schedule="linear", log_every=20, val_size=256).but(lr=rate, seed=seed, **lasting)
    shape = SHAPE.but(attention=attention, d_model=8 if tiny else SHAPE.d_model)
    return Config(TASK, shape, training.but(**TINY_TRAINING) if tiny else training)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop: the columns of `endings_of`, mixer and rate."""
    return endings_of(
        runs,
        mixer=lambda config: config.model.as_dict()["attention"],
        rate=lambda config: config.training.lr,
    )


def windows(table: DataFrame, reached: Series) -> dict[Any, Series]:
    """By mixer and hop, the number of learning rates at which it is reached, by seed."""
    return {key: reached[rows.index].groupby(rows.seed).sum() for key, rows in table.groupby(["mixer", "k"])}


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims. Thresholds are ours and were committed before the runs; README.md states what we expected."""
    claim, rates = teller(table, "mixers"), windows(table, table.loss < LEARNT)
    state_space, delta_rule = (rates[mixer, 1] for mixer in CONVOLVED)
    yield claim("recall", concat([state_space, delta_rule]), CONVOLVED, at_least=1)
    for mixer in CONVOLVED:
        yield claim(f"two_hops_{mixer}", rates[mixer, 2], (mixer,), at_least=1)
    yield claim("needs_convolution", concat([rates[mixer, 2] for mixer in BARE]), BARE, at_most=0)
    yield claim("needs_depth", concat([rates[mixer, 2] for mixer in WITHOUT]), WITHOUT, at_most=0)
    yield claim("wider", delta_rule - state_space, CONVOLVED, "difference of windows", at_least=1, of="median")
    yield claim("narrow", state_space, CONVOLVED[:1], at_most=2, of="median")


def teller(table: DataFrame, name: str) -> Callable[..., Claim]:
    """A function that makes an experiment's claims: from an id, values by seed, and the mixers that they are of."""

    def claim(id: str, values: Series, mixers: tuple[str, ...], what: str = WINDOW, **limit: Any) -> Claim:
        evidence, n = Evidence(table[table.mixer.isin(mixers)], "arXiv:2508.19029", among=table), values.index.nunique()
        return evidence.claim(id, SENTENCES[name][id], values, what, n=n, **limit)

    return claim


@styled
def figure(table: DataFrame) -> Figure:
    """Final loss by learning rate, a panel per hop: a dot per run, a line through the medians of each mixer."""
    shown = picture(9.4, 3.7)
    [panels] = shown.subplots(1, table.k.nunique(), sharey=True, squeeze=False)
    for ax, (k, hop) in zip(panels, table.groupby("k"), strict=True):
        for index, (mixer, rows) in enumerate(hop.groupby("mixer", sort=False)):
            ax.plot(rows.rate, rows.loss, "o", ms=3, alpha=0.6, color=colour(index))
            ax.plot(rows.groupby("rate").loss.median(), color=colour(index), label=mixer)
        ax.axhline(LEARNT, color=GREY, lw=0.8, ls=":")
        ax.set(xscale="log", ylim=(0, 1.1), xlabel="learning rate", title=f"hop {k}")
    shown.axes[0].set_ylabel("validation loss, last 100 steps")
    shown.axes[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return shown
