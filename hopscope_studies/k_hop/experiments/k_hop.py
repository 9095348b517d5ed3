"""k-fold composition, from k hops alone and from easy to hard (Wang, Nichani et al., 2025, arXiv:2505.23683).

Bietti's talk makes three statements. To learn to compose k functions given in context, gradient descent needs exp(k)
samples or compute. With easy-to-hard data, or a mixture of hops, it needs O(k). Hops 1, 2, 4, … are then learnt one
after the other, layer by layer. The paper proves them for its own model and training. Here a plain transformer,
attention alone, is trained by AdamW, with equally many steps under every curriculum. The hyper-parameters are ours
(docs/fidelity.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config, Training
from hopscope.drawing.style import colour, picture, styled
from hopscope.experiments.curves import SOLVED, hop_curves_of
from hopscope.experiments.judging import Claim, bound
from hopscope.experiments.values import power_law
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.k_fold import KFold
from hopscope_studies.k_hop.curves_and_costs import costs, curves, name_panels
from hopscope_studies.k_hop.endings import alone, at_k, ends, in_order, listed, over_runs

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 560, "paper": 20_000}

N_SYMBOLS = {"quick": 3, "cpu": 4, "paper": 5}
SEEDS = {"quick": 1, "cpu": 8, "paper": 8}
STAGE = {"quick": 4, "cpu": 800, "paper": 4000}  # steps for each number of hops, 1, 2, 4, … k
HOPS: dict[str, dict[str, tuple[int, ...]]] = {
    "quick": {"none": (2,), "layerwise": (2,), "mixture": (2,)},
    "cpu": {"none": (2, 3, 4), "layerwise": (2, 4), "mixture": (2, 4)},
    "paper": {"none": (2, 3, 4, 8), "layerwise": (2, 4, 8, 16), "mixture": (2, 4, 8, 16)},
}
MODEL = Architecture(n_heads=4, d_model=64, mlp=False, causal=False, init="early_layers")
TRAINING = Training(batch=32, lr=3e-3, weight_decay=0.0, log_every=25, checkpoints="100000")


def runs(scale: str) -> Iterator[Config]:
    """Each number of hops with each curriculum and just enough layers; then all hops at once in 1, 2, 3 layers."""
    for seed in range(SEEDS[scale]):
        for curriculum, numbers in HOPS[scale].items():
            yield from (config(scale, k, curriculum, enough(k), seed) for k in numbers)
        most = max(HOPS[scale]["none"][:3])
        yield from (config(scale, most, "implicit", layers, seed) for layers in range(1, enough(most) + 1))


def enough(k: int) -> int:
    """⌈log2 k⌉ + 1 layers: the first applies the hidden permutation, each other doubles the hops (paper)."""
    return (k - 1).bit_length() + 1


def config(scale: str, k: int, curriculum: str, layers: int, seed: int) -> Config:
    """The configuration of a run; steps grow with the number of difficulties 1, 2, 4, … k, whatever the curriculum."""
    task = KFold(n_hops=k, n_symbols=N_SYMBOLS[scale], curriculum=curriculum)
    training = TRAINING.but(steps=STAGE[scale] * len(task.difficulties), seed=seed)
    if scale == "quick":
        training = training.but(batch=8, log_every=2, val_size=16)
    return Config(task, MODEL.but(n_layers=layers, **({"d_model": 16} if scale == "quick" else {})), training)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, logged step and number of hops.

    Columns: as of `hop_curves_of`, with curriculum, task_k (the greatest k), k (of the row), layers, chance (ln N).
    """
    curves = hop_curves_of(
        runs,
        curriculum=lambda config: config.task.as_dict()["curriculum"],
        task_k=lambda config: config.task.hardest,
        layers=lambda config: config.model.n_layers,
        chance=lambda config: config.task.chance,
    )
    return curves.assign(k=[int(str(hop).removeprefix("k=")) for hop in curves.hop])


@styled
def figure(table: DataFrame) -> Figure:
    """Left: each number of hops under the mixture. Middle: k hops by curriculum. Right: steps to learn k, against k."""
    shown = picture(12.0, 3.7)
    left, middle, right = shown.subplots(1, 3)
    most = table.task_k.max()
    deep = table[table.task_k == most]
    for index, (k, part) in enumerate(deep[deep.curriculum == "mixture"].groupby("k")):
        curves(left, part, colour(index), f"{k} hop{'s' if k > 1 else ''}")
    for index, name in enumerate(("none", "layerwise", "mixture")):
        curves(middle, deep[(deep.curriculum == name) & (deep.k == most)], colour(index), name)
        costs(right, at_k(table, name), colour(index), name)
    losses = {f"Mixture of hops, k = {most}": left, f"{most} hops, by curriculum": middle}
    name_panels(losses, right, table.chance.iloc[0])
    for ax in (left, middle, right):
        ax.legend(loc="best")
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """The talk's three statements."""
    sentence = "Models trained on k hops alone (k = {}) stay at ln N, the loss of a guess among N symbols."
    yield alone(at_k(table, "none"), sentence)
    yield solved("curriculum_solves", at_k(table, "layerwise"), "in stages of 1, 2, 4, … hops (`layerwise`)")
    yield solved("mixture_solves", at_k(table, "mixture"), "on a mixture of 1, 2, 4, … hops (`mixture`)")
    sentence = (
        "Models that are trained on 1, 2, 4, … hops from the start learn them one after the other (judged on {} pairs "
        "of successive numbers)."
    )
    yield in_order(ends(table), sentence, source="")
    yield by_layer(ends(table))
    yield cost_alone(table)
    yield cost_of_a_mixture(at_k(table, "mixture"))


def solved(id: str, rows: DataFrame, words: str) -> Claim:
    return over_runs(
        id,
        f"Trained {words}, models solve k hops (k = {listed(rows.task_k)}) in as many steps as training on k "
        f"hops alone has ({(rows.loss < SOLVED).sum()} of {len(rows)} runs do).",
        rows.loss,
        "final loss over ln N",
        rows,
        below=SOLVED,
    )


def by_layer(rows: DataFrame) -> Claim:
    """The claim about the most hops that L layers learn when all are asked, against the possible 2^(L−1)."""
    every = rows[rows.curriculum == "implicit"]
    reached = every.assign(reached=every.k.where(every.learnt.notna(), 0)).groupby("run").reached.max()
    allowed = every.groupby("run").layers.first().map(lambda layers: 2 ** (layers - 1))
    words = "; ".join(f"{listed(reached[allowed == 2 ** (n - 1)])} with L = {n}" for n in sorted(set(every.layers)))
    return over_runs(
        "layer_by_layer",
        "Trained on all numbers of hops at once, models of L layers learn 2^(L−1) hops and no more: each layer doubles "
        f"the hops (greatest numbers learnt: {words}).",
        reached / allowed,
        "ratio of the greatest number of hops below half of ln N to 2^(L−1)",
        rows,
        equals=1,
    )


def cost_alone(table: DataFrame) -> Claim:
    """The claim about the factor by which one more hop increases the steps; censored runs give a lower bound."""
    rows = at_k(table, "none")
    steps = rows.learnt.fillna(rows.steps).groupby(rows.task_k).median()
    symbols = round(math.exp(table.chance.iloc[0]))
    pairs = [
        (a, b)
        for a, b in pairwise(sorted(steps.index))
        if b == a + 1 and not (rows.task_k[rows.learnt.isna()] == a).any()
    ]
    least = any(rows[rows.task_k == b].learnt.isna().any() for _, b in pairs)
    return over_runs(
        "cost_alone",
        f"Trained on k hops alone, models need steps that grow as N^k: each further hop takes at least N = {symbols} "
        "times as many steps (measured from k = "
        f"{', '.join(f'{a} to {b}' for a, b in pairs) or 'none'}{'; the factor is a lower bound' if least else ''}).",
        Series([steps[b] / steps[a] for a, b in pairs], dtype=float),
        "ratio of median steps to half of ln N with one more hop",
        table,
        at_least=symbols,
        provided=bound("the number of ratios", len(pairs), above=1),  # one shows no law
    )


def cost_of_a_mixture(rows: DataFrame) -> Claim:
    """The claim about the slope of log steps over log k."""
    known = rows.assign(learnt=rows.learnt.clip(lower=1)).dropna(subset="learnt").groupby("seed")
    powers = [power_law(seed.task_k, seed.learnt)[1] for _, seed in known if seed.task_k.nunique() > 1]
    never = int(rows.learnt.isna().sum())
    return over_runs(
        "cost_of_a_mixture",
        "Trained on a mixture of numbers of hops, models need steps to learn k hops that grow at most linearly with k "
        f"(the number is the exponent of k; {never} of {len(rows)} runs never learnt k hops).",
        Series(powers, dtype=float),
        "exponent",
        rows,
        at_most=1,
        also=[bound("the number of runs that never learn", never, equals=0)],
    )
