"""More hops than trained: which models answer longer chains than they learnt from, with more loops? (ours)

Looped depth is that of Saunshi et al. (ICLR 2025, arXiv:2502.17416). That more loops at test time can answer more hops,
and that too many hurt, is reported in arXiv:2604.07822. Here one layer runs D + 1 times. Training asks for hop h after
loop h + 1, on chains of 1 to D hops. A trained model is then given longer and more chains, and more loops. At
scale `long` D is 16, and the recipe is another (README.md, "Sixteen hops").
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
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.long_table import namer
from hopscope.experiments.tables import rows_of
from hopscope.models.transformer import Architecture
from hopscope.runs.further import further
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 550, "long": 3600, "paper": 2600}
CELL_SECONDS = 1200

PRIOR = "relative(start='L0H0 1:4')"
DATA = Path(__file__).parents[1] / "data"
#: The changes to one looped layer that make each variant, at scale `long` and at all others.
RECIPES = tomllib.loads((DATA / "variants.toml").read_text())
VARIANTS = RECIPES["short"]
TRAINED = {"quick": 2, "cpu": 3, "long": 16, "paper": 3}  # D
ASKED = {"quick": (1, 2, 3, 4), "cpu": range(1, 7), "long": (1, 2, 4, 8, 12, 16, 17, 24, 32), "paper": range(1, 13)}
STEPS = {"quick": 4, "cpu": 1000, "long": 4000, "paper": 4000}
SEEDS = {"quick": 1, "cpu": 5, "long": 5, "paper": 8}
SEQUENCES = {"quick": 8, "cpu": 256, "long": 128, "paper": 1024}
#: What is claimed, by experiment and id.
SENTENCES = tomllib.loads((DATA / "sentences.toml").read_text())
TRAINING = Training(batch=64, lr=3e-3, schedule="linear", weight_decay=0.0, clip=1.0, hop_every=1, log_every=100)


def runs(scale: str) -> Iterator[Config]:
    """Every variant, seed by seed; at `long` one looped layer with the prior, and with KV shift and no prior."""
    yield from (config(one, seed, scale) for seed in range(SEEDS[scale]) for one in variants(scale).values())


def variants(scale: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The changes that make each variant of a scale."""
    variants: dict[str, dict[str, dict[str, Any]]] = RECIPES["long" if scale == "long" else "short"]
    return variants


def config(variant: dict[str, dict[str, Any]], seed: int, scale: str) -> Config:
    """A run of a variant."""
    hops, steps = TRAINED[scale], STEPS[scale]
    task = Retrieval(n_hops=hops, curriculum="mixture", position_base=100.0)
    width = 16 if scale == "quick" else 64
    model = Architecture(n_layers=hops + 1, loops=hops + 1, n_heads=2, d_model=width, positions=PRIOR)
    own = {"steps": steps, "decay_steps": steps // 2, "checkpoints": str(steps), "seed": seed, "val_size": 128}
    model = model.but(init="early_layers", **variant.get("model", {}))
    training = TRAINING.but(**own | variant.get("training", {}))
    return Config(task.but(**variant.get("task", {})), model, training)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, number of hops asked, of loops and of chains.

    Columns: run, version, seed, prior, variant, D (hops trained), own (layers with weights of their own), hops, loops,
    chains, accuracy, low, high (95 % Wilson interval over sequences), n.
    """
    return rows_of(runs, lambda run: measured(run, scale))


def measured(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """One run after hops + 1 loops, as many as in training, and twice as many; also among more chains."""
    shape, trained = run.config.model, TRAINED[scale]
    assert isinstance(shape, Architecture)
    about = {"variant": namer(variants(scale), config, scale)(run.config), "D": trained, "own": shape.own_layers}
    for hops in ASKED[scale]:
        own, n = [hops + 1] if shape.own_layers == 1 else [1], SEQUENCES[scale]
        loops = sorted({hops + 1, trained + 1, 2 * trained + 2}) if shape.own_layers == 1 else own
        yield from (about | row for row in further(run.model, run.task, [hops], loops, n=n))
        if hops <= trained:
            yield from (about | row for row in further(run.model, run.task, [hops], own, 8, n))


def at(table: DataFrame, variant: str, *hops: int, loops: int | None = None, chains: int = 4) -> DataFrame:
    """The rows of a variant for some numbers of hops, by default after one loop more than hops."""
    rows = table[(table.variant == variant) & table.hops.isin(hops) & (table.chains == chains)]
    return rows[(rows.own > 1) | (rows.loops == (rows.hops + 1 if loops is None else loops))]


def claims(table: DataFrame) -> Iterator[Claim]:
    """Thresholds are ours, and were committed before the runs; README.md says which were expected to fail."""
    trained = int(table.D.max())
    claim, learnt = teller(table, "more_hops", D=trained), range(1, trained + 1)
    yield claim("looped_learns", at(table, "looped", *learnt), at_least=0.8)
    if trained == TRAINED["long"]:
        yield claim("kv_shift_learns", at(table, "looped, kv_shift", *learnt), at_least=0.8)
    more, fixed = (at(table, name, trained + 1) for name in ("looped", "looped, always D hops"))
    yield claim("one_more_hop", more, above=0.4)
    yield claim("twice_as_many", at(table, "looped", 2 * trained), above=0.4)
    yield claim("unshared_does_not", at(table, "unshared", trained + 1), below=0.4)
    yield claim("lengths_vary", fixed, less(more, fixed), "difference of accuracies", above=0.0)
    alone = concat([at(table, f"looped, {name}", 2) for name in ("no prior", "rotary", "learned")])
    yield claim("a_prior_is_needed", alone, below=0.4)
    yield claim("kv_shift_needs_none", at(table, "looped, kv_shift", 2), at_least=0.8)
    enough, often = (at(table, "looped", 2, loops=loops) for loops in (3, 2 * trained + 2))
    yield claim("too_many_loops_hurt", enough, less(enough, often), "loss of accuracy", "arXiv:2604.07822", above=0.2)
    yield claim("more_chains", at(table, "looped", trained, chains=8), above=0.4)


def less(rows: DataFrame, others: DataFrame) -> Series:
    """The accuracy of each seed's rows, less that of the same seed's others."""
    return (rows.set_index("seed").accuracy - others.set_index("seed").accuracy).dropna()


def teller(table: DataFrame, name: str, **said: Any) -> Callable[..., Claim]:
    """A function that makes an experiment's claims: from an id, rows, and values, which are by default accuracies."""

    def claim(id: str, rows: DataFrame, values: Any = None, what: str = "", by: str = "ours", **limit: Any) -> Claim:
        values, what = (rows.accuracy, "accuracy") if values is None else (values, what)
        return Evidence(rows, by, among=table).claim(id, SENTENCES[name][id].format(**said), values, what, **limit)

    return claim


@styled
def figure(table: DataFrame) -> Figure:
    """Left: accuracy by hops asked, after hops + 1 loops. Right: that of the looped layer, by number of loops."""
    shown = picture(10.5, 3.9)
    table, trained = table[table.chains == 4], int(table.D.max())
    rows, looped = table[(table.own > 1) | (table.loops == table.hops + 1)], table[table.variant == "looped"]
    panels = {
        "One loop more than hops": {name: rows[rows.variant == name] for name in VARIANTS},
        "One looped layer, by loops": {f"{n} loops": looped[looped.loops == n] for n in (trained + 1, 2 * trained + 2)},
    }
    for ax, (title, lines) in zip(shown.subplots(1, 2), panels.items(), strict=True):
        for index, (name, some) in enumerate((name, some) for name, some in lines.items() if len(some)):
            mean = some.groupby("hops").accuracy.mean()
            ax.plot(mean.index, mean, color=colour(index), marker="o", ms=3, label=name)
        ax.axhline(0.25, color=GREY, lw=0.8, ls="--", zorder=0)
        ax.axvline(trained + 0.5, color=GREY, lw=0.8, ls=":", zorder=0)
        ax.set(xlabel="hops asked (dots: trained to the left)", ylabel="accuracy", ylim=(0, 1.02), title=title)
        ax.legend(fontsize=7)
    return shown
