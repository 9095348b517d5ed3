"""Layers against hops, with and without implicit curriculum (Musat, ICLR 2025, figure 4, sections 7.1 and 7.2).

The paper trains 1 to 8 layers of 8 heads, 8 seeds each: D = 5 with implicit curriculum, D = 3 without. Here the same D
and heads are trained for fewer steps, with a prior that the paper does not have: a learnt bias by distance that starts
at 4 for the previous token in layer 0 (the preset `figure_4_prior`). Scale `cpu` has 2 to 6 layers and three seeds (two
without curriculum). Scale `long` has all layers and five seeds, and one run without curriculum for the paper's 10,000
steps. Scale `paper` has the paper's own settings. The results are also compared with the exact minimum depth
(docs/theory.md), which is sharper than the paper's bound: with many heads and a causal mask x_k needs ⌈log2(2k+1)⌉
layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.curves import LEARNT, SOLVED, endings_of
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.values import lags
from hopscope.runs.run import Run
from hopscope.theory.depth import minimum_depth
from hopscope_studies.stacked_heads.experiments import curriculum
from hopscope_studies.stacked_heads.one_setting import TWO_HOPS, columns
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "long": 3200, "paper": 400_000}
CELL_SECONDS = 1200


ENDS_ABOVE = 0.7  # a hop with a loss above this is not learnt (paper, section 7.2)
STEPS = 400  # with the prior: every hop of D = 5 is below 0.1 by then
PAPER_STEPS = 10_000  # section 7.1; at `long` one run without curriculum has as many
#: With the prior, by scale: D, curriculum, layers, seeds. Scale `cpu` starts with the fewest layers that some hop
#: needs.
CELLS = {
    "cpu": ((5, "implicit", range(2, 7), 3), (3, "none", range(3, 7), 2)),
    "long": ((5, "implicit", range(1, 9), 5), (3, "none", range(1, 9), 5)),
}
told = telling("fig4")


def runs(scale: str) -> Iterator[Config]:
    """With curriculum over numbers of layers and seeds, then without."""
    if scale == "paper":
        for name in ("figure_4", "figure_4_no_curriculum"):
            for n_layers in range(1, 9):
                for seed in range(8):
                    config = recipe(name).config(seed=seed, dtype="bfloat16")
                    yield Config(config.task, config.model.but(n_layers=n_layers), config.training)
        return
    if scale == "quick":
        yield from tiny()
        return
    for seed in range(max(seeds for *_, seeds in CELLS[scale])):
        for hops, taught, layers, seeds in CELLS[scale]:
            if seed < seeds:
                yield from (with_prior(hops, taught, n_layers, seed) for n_layers in layers)
    if scale == "long":
        yield with_prior(3, "none", 4, 0, PAPER_STEPS)


def tiny() -> Iterator[Config]:
    """Runs with curriculum and without that are too small to learn."""
    model, training, _ = curriculum.SETTINGS["quick"]
    for task, layers in ((TWO_HOPS, 1), (TWO_HOPS, 2), (TWO_HOPS.but(curriculum="none"), 1)):
        yield Config(task, model.but(n_layers=layers), training.but(seed=0))


def with_prior(hops: int, taught: str, n_layers: int, seed: int, steps: int = STEPS) -> Config:
    """The preset `figure_4_prior` with other hops, layers and steps; the rate decays over the second half."""
    training = {"steps": steps, "decay_steps": steps // 2, "checkpoints": str(steps), "seed": seed}
    config = recipe("figure_4_prior").config(**training)
    return Config(config.task.but(n_hops=hops, curriculum=taught), config.model.but(n_layers=n_layers), config.training)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop: its partial loss over the last 100 steps, and the step at which it was learnt.

    Columns: run, version, seed, prior, curriculum, D, order, heads, layers, hop, k (of x_k), loss, learnt (NaN: never
    below 0.5), least (the exact minimum depth of x_k).
    """
    found = endings_of(runs, **columns("curriculum", "D", "order", "heads", "layers"))
    return found.assign(least=[least(*row) for row in zip(found.k, found.heads, found.order, strict=True)])


def least(k: int, heads: int, order: str) -> int:
    """The exact minimum depth of x_k, which needs only the first k facts of its chain."""
    return minimum_depth(k, "causal", "one" if heads == 1 else "many", order).min_layers


@styled
def figure(table: DataFrame) -> Figure:
    """Left: final loss by layers with and without curriculum. Right: that of each hop, with its minimum depth."""
    shown = picture(9.2, 3.6)
    left, right = shown.subplots(1, 2, sharey=True)
    taught = table[table.curriculum == "implicit"]
    whole = table.groupby(["curriculum", "D", "layers", "run"]).loss.mean().reset_index()
    for index, ((name, hops), part) in enumerate(whole.groupby(["curriculum", "D"])):
        label = f"{'with' if name == 'implicit' else 'without'} curriculum, D = {hops}"
        draw(left, part.assign(layers=part.layers + 0.08 * index), colour(index), label)
    for index, (hop, part) in enumerate(taught.groupby("hop")):
        draw(right, part, colour(index), str(hop))
        right.axvline(part.least.iloc[0] - 0.06 * (1 - index), color=colour(index), lw=0.9, ls=":", zorder=0)
    left.set_title("Loss over all hops asked")
    right.set_title("Partial loss of each hop (dotted: its exact minimum depth)")
    for ax in (left, right):
        ax.set(xlabel="layers", ylim=(0, 1.3))
        ax.set_xticks(sorted(table.layers.unique()))
        ax.legend(loc="upper right")
    left.set_ylabel("validation loss, last 100 steps")
    return shown


def draw(ax: Axes, part: DataFrame, tint: str, label: str) -> None:
    """Draw the mean over seeds as a line, and a dot for every seed."""
    mean = part.groupby("layers").loss.mean()
    ax.plot(mean.index, mean, color=tint, lw=2, marker="o", ms=3, label=label)
    ax.plot(part.layers, part.loss, ls="", marker="o", ms=3, mfc="none", mec=tint, mew=0.7, alpha=0.7)
    ax.axhline(1.0, color=GREY, lw=0.8, ls="--", zorder=0)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on section 7.2's three results, and on the exact minimum depth."""
    taught, without = table[table.curriculum == "implicit"], table[table.curriculum == "none"]
    yield no_curriculum(without, taught)
    yield from depth_claims(taught)
    yield in_order(taught)


def no_curriculum(without: DataFrame, taught: DataFrame) -> Claim:
    """Judge whether, without curriculum, nothing is learnt that is learnt with it at the same D and depth."""
    can = taught[taught.loss <= ENDS_ABOVE]
    controlled = Series(list(zip(without.D, without.layers, strict=True))).isin(
        set(zip(can.k, can.layers, strict=True))
    )
    compared = without[controlled.to_numpy()]
    shown = compared if len(compared) else without
    also = [bound("final loss", compared.loss, above=ENDS_ABOVE)]
    return told(Evidence(shown, "7.2", source="paper"), "no_curriculum_fails", shown.loss, number="lowest", also=also)


def depth_claims(taught: DataFrame) -> Iterator[Claim]:
    """Claims that later hops need more layers, and never fewer than the exact minimum."""
    mean = taught.groupby(["k", "layers"]).loss.mean()
    found = [(mean[k + 1] - mean[k]).min() for k in range(1, taught.k.max())]
    yield told(Evidence(taught, "7.2"), "later_hops_are_harder", found, "difference", at_least=-0.01)
    shallow = taught[taught.layers < taught.least]
    evidence = Evidence(shallow, "beyond (the bound of 5, sharpened)", "the paper's bound for learnt", among=taught)
    yield told(evidence, "nothing_below_the_minimum", shallow.loss, "final partial loss", at_least=LEARNT)
    yield reached("minimum_depth_is_enough", LEARNT, "the paper's bound for learnt", taught)
    yield reached("minimum_depth_is_reached", SOLVED, "ours: solved below 0.05", taught)


def reached(id: str, below: float, source: str, taught: DataFrame) -> Claim:
    """Judge whether some seed brings every hop below a bound, with exactly as many layers as it needs."""
    needs = taught.groupby("k").least.first()
    fewest = taught[taught.loss < below].groupby("k").layers.min()
    evidence = Evidence(taught, "beyond (the bound of 5, sharpened)", source=source)
    found, what = (fewest - needs).reindex(needs.index).fillna(float("inf")), "number of layers beyond the minimum"
    provided = bound("hops whose least depth was trained", needs.isin(taught.layers), of="share of", equals=1)
    return told(evidence, id, found, what, number="highest", equals=0, provided=provided)


def in_order(taught: DataFrame) -> Claim:
    """Judge whether earlier hops are learnt first."""
    learnt = taught.pivot(index="run", columns="k", values="learnt").sort_index(axis="columns")
    whole = int(learnt[2].notna().sum()) if 2 in learnt else len(learnt)
    evidence, what = Evidence(taught, "7.2", source="paper"), "number of steps from one hop to the next"
    said = {"n": whole, "all": len(learnt)}
    return told(evidence, "hops_in_order", lags(learnt.to_numpy()), what, at_least=0, said=said)
