"""k-fold composition at one depth for every k, with half as many heads as symbols, and its growth in k.

In `k_hop` each k has just enough layers and as many heads as symbols. So depth changes with k, and a layer can look up
all symbols at once. Here (after Wang, Nichani et al., 2025, arXiv:2505.23683) every k has the same four layers of two
heads, which are enough for eight hops, and there are four symbols. The talk's "exp(k) without easy data, O(k) with it"
is about growth. So we compare how the steps to learn k hops grow with k, without and with a curriculum. Easy-to-hard
data comes in five ways: all numbers of hops asked of every sequence; one number drawn for every batch; stages that each
add a number; stages that drop the earlier numbers; and such stages with the layers of earlier ones frozen, as the
paper's proof trains layer by layer. The hyper-parameters are ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config, Training
from hopscope.drawing.style import colour, picture, styled
from hopscope.experiments.curves import SOLVED, hop_curves_of
from hopscope.experiments.judging import Claim, bound
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.k_fold import KFold
from hopscope_studies.k_hop.curves_and_costs import costs, curves, name_panels
from hopscope_studies.k_hop.endings import alone, at_k, ends, in_order, listed, over_runs

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 480, "long": 1430, "paper": 40_000}
#: Of one run of `long`, the longest, on one core.
CELL_SECONDS = 150

SYMBOLS = {"quick": 3, "cpu": 4, "paper": 8}
SEEDS = {"quick": 1, "cpu": 2, "long": 8, "paper": 8}
#: By curriculum the k it teaches; and steps by k, whatever the curriculum.
HOPS: dict[str, dict[str, tuple[int, ...]]] = {
    "quick": dict.fromkeys(("none", "implicit", "mixture", "cumulative", "layerwise", "frozen"), (2,)),
    "cpu": {
        "none": (2, 3, 4),
        "implicit": (2, 3, 4, 8),
        **dict.fromkeys(("mixture", "cumulative", "layerwise", "frozen"), (4,)),
    },
    "paper": dict.fromkeys(("none", "implicit", "mixture", "cumulative", "layerwise", "frozen"), (2, 3, 4, 8)),
}
STEPS: dict[str, dict[int, int]] = {
    "quick": {2: 6},
    "cpu": {2: 1500, 3: 2500, 4: 4500, 8: 4500},
    "paper": {2: 20_000, 3: 20_000, 4: 20_000, 8: 20_000},
}
LAYERS = {"quick": 2, "cpu": 4, "paper": 5}
MODEL = Architecture(n_heads=2, d_model=64, mlp=False, causal=False, init="fan_in")
TRAINING = Training(batch=32, lr=1e-3, clip=1.0, weight_decay=0.0, log_every=25, checkpoints="100000", val_size=128)


def runs(scale: str) -> Iterator[Config]:
    """Every k with every curriculum that teaches it, with every seed; `long` has the runs of `cpu` and more seeds."""
    size = "cpu" if scale == "long" else scale
    for seed in range(SEEDS[scale]):
        for curriculum, numbers in HOPS[size].items():
            yield from (config(size, k, curriculum, seed) for k in numbers)


def config(scale: str, k: int, curriculum: str, seed: int) -> Config:
    """The configuration of a run; `frozen` is `layerwise` with the layers of earlier stages frozen."""
    task = KFold(n_hops=k, n_symbols=SYMBOLS[scale], curriculum="layerwise" if curriculum == "frozen" else curriculum)
    steps, layers = STEPS[scale][k], LAYERS[scale]
    training = TRAINING.but(steps=steps, seed=seed)
    if curriculum == "frozen":
        training = training.but(frozen=one_after_the_other(layers, len(task.difficulties), steps))
    if scale == "quick":
        training = training.but(batch=8, log_every=2, val_size=16)
    return Config(task, MODEL.but(n_layers=layers, **({"d_model": 16} if scale == "quick" else {})), training)


def one_after_the_other(layers: int, stages: int, steps: int) -> str:
    """Frozen weights by stage: each layer trains in the stage of its number, the last stage all remaining ones.

    Embeddings train in the first stage alone, the unembedding in all stages.
    """
    ends = [math.ceil(steps * stage / stages) for stage in range(1, stages)]
    frozen = [f"W_E@{ends[0]}", f"W_pos@{ends[0]}"] if ends else []
    for layer in range(layers):
        stage = min(layer, stages - 1)
        if stage:
            frozen.append(f"blocks.{layer}.*@0-{ends[stage - 1]}")
        if stage < stages - 1:
            frozen.append(f"blocks.{layer}.*@{ends[stage]}")
    return ", ".join(frozen)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, logged step (at `long` every other one) and number of hops.

    Columns: as of `hop_curves_of`, with curriculum, task_k (the greatest k), k (of the row), steps, chance (ln N).
    """
    curves = hop_curves_of(
        runs,
        curriculum=lambda config: "frozen" if config.training.frozen else config.task.as_dict()["curriculum"],
        task_k=lambda config: config.task.hardest,
        steps=lambda config: config.training.steps,
        chance=lambda config: config.task.chance,
    )
    if scale == "long":  # otherwise the file would have 2 MB
        curves = curves[curves.step % 50 == 0]
    return curves.assign(k=[int(str(hop).removeprefix("k=")) for hop in curves.hop])


# Judging ---------------------------------------------------------------------------------------------------------


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the talk's three statements, and about stages."""
    by_itself = at_k(table, "none")
    yield alone(by_itself, "Models trained on k hops alone (k = {}) stay at ln N, the loss of a guess among N symbols.")
    together, words = at_k(table, "implicit"), "Asked for all numbers of hops of every sequence"
    beyond = together.task_k > by_itself.task_k.max()
    yield solved("all_together_solve", together[~beyond], words)
    if beyond.any():
        yield solved("eight_hops_together", together[beyond], words)
    one_each = "Trained in stages of one number of hops each"
    for id, name, words in (
        ("mixture_solves", "mixture", "Trained on a number of hops drawn for every batch"),
        ("cumulative_stages_solve", "cumulative", "Trained in stages that each add a number of hops"),
        ("stages_solve", "layerwise", one_each),
        ("frozen_stages_solve", "frozen", f"{one_each}, with the layers of earlier stages frozen"),
    ):
        yield solved(id, at_k(table, name), words)
    yield forgotten(table)
    yield freezing(table)
    sentence = (
        "Models learn 1, 2, 4, … hops one after the other, although all are trained from the start (judged on {} pairs "
        "of successive numbers)."
    )
    yield in_order(ends(table), sentence)
    yield growth(table)


def solved(id: str, rows: DataFrame, words: str) -> Claim:
    hardest = rows[rows.task_k == rows.task_k.max()]
    return over_runs(
        id,
        f"{words}, models solve k hops (k = {listed(rows.task_k)}) in as many steps as training on k hops alone has "
        f"({(rows.loss < SOLVED).sum()} of {len(rows)} runs do; {hardest.learnt.notna().sum()} of {len(hardest)} runs "
        f"with k = {rows.task_k.max()} come below half of a guess's loss).",
        rows.loss,
        "final loss over ln N",
        rows,
        below=SOLVED,
    )


def forgotten(table: DataFrame) -> Claim:
    """The claim about one hop's loss at the end of all stages, against its lowest earlier loss."""
    rows = table[(table.curriculum == "layerwise") & (table.k == 1)]
    last = rows.sort_values("step").groupby("run").hop_loss.last() / rows.groupby("run").chance.first()
    least = rows.groupby("run").hop_loss.min() / rows.groupby("run").chance.first()
    return over_runs(
        "stages_forget",
        "In stages of one number of hops each, models forget the first: the loss of one hop, which falls to "
        f"{least.median():.3f} of a guess's loss, rises again in later stages.",
        last,
        "loss of one hop over ln N",
        rows,
        section="beyond",
        above=SOLVED,
    )


def freezing(table: DataFrame) -> Claim:
    """The claim that compares stages with and without frozen layers of earlier stages, seed by seed."""
    plain, frozen = (at_k(table, name).set_index(["task_k", "seed"]).loss for name in ("layerwise", "frozen"))
    ratios = (frozen / plain).dropna()
    return over_runs(
        "freezing_helps",
        "If models are trained in stages of one number of hops each, freezing the layers of earlier stages, as the "
        f"paper's proof does, lowers the final loss in every seed (it does in {(ratios < 1).sum()} of {len(ratios)}).",
        ratios,
        "ratio of final losses, frozen to not",
        table[table.curriculum.isin(("layerwise", "frozen"))],
        section="beyond",
        below=1,
    )


def growth(table: DataFrame) -> Claim:
    """The claim about the factor by which steps grow from the least common k to the greatest: alone, and together."""
    apart, together = at_k(table, "none"), at_k(table, "implicit")
    both = sorted(set(apart.task_k) & set(together.task_k))
    low, high = (both[0], both[-1]) if both else (0, 0)
    factors = []
    for rows in (apart, together):
        steps = rows.learnt.fillna(rows.steps).groupby(rows.task_k).median()
        factors.append(float(steps[high] / steps[low]) if both else math.nan)
    least = bool(apart.learnt[apart.task_k == high].isna().any())
    never = int(together.learnt[together.task_k <= high].isna().sum())
    return over_runs(
        "growth_is_slower_with_easy_data",
        f"From k = {low} to {high}, the steps to learn k hops grow by a greater factor if k hops are trained alone "
        f"({'more than ' if least else ''}{factors[0]:.1f}) than if all numbers of hops are trained together "
        f"({factors[1]:.1f}; linear growth would be {high / max(low, 1):.3g}).",
        Series([factors[0] / factors[1]]),
        "ratio of the two factors",
        table,
        n=len(table.run.unique()),
        above=1,
        provided=bound("the number of runs together that never learn", never, equals=0),
    )


#: What curricula are called in pictures.
NAMES = {
    "none": "alone",
    "implicit": "all together",
    "mixture": "mixed batches",
    "cumulative": "cumulative stages",
    "layerwise": "stages",
    "frozen": "stages, frozen",
}


# Drawing ---------------------------------------------------------------------------------------------------------


@styled
def figure(table: DataFrame) -> Figure:
    """Left: each number of hops, all together. Middle: k hops by curriculum. Right: steps to learn k, against k."""
    shown = picture(12.0, 3.7)
    left, middle, right = shown.subplots(1, 3)
    most, asked = table.task_k.max(), table.task_k[table.curriculum == "mixture"].max()
    together = table[(table.task_k == most) & (table.curriculum == "implicit")]
    for index, (k, part) in enumerate(together.groupby("k")):
        curves(left, part, colour(index), f"{k} hop{'s' if k > 1 else ''}")
    hard = table[(table.task_k == asked) & (table.k == asked)]
    for index, (name, label) in enumerate(NAMES.items()):
        curves(middle, hard[hard.curriculum == name], colour(index), label)
    for index, name in enumerate(("none", "implicit")):
        costs(right, at_k(table, name), colour(index), NAMES[name])
    losses = {f"All numbers of hops together, k = {most}": left, f"{asked} hops, by curriculum": middle}
    name_panels(losses, right, table.chance.iloc[0])
    for ax in (left, middle, right):
        if ax.get_legend_handles_labels()[1]:  # a table may hold only some of the cells
            ax.legend(loc="best", fontsize=7)
    return shown
