"""How many layers are enough? D = 1 to 8 with one layer fewer than the exact minimum, with it, and with one more.

In theory (docs/theory.md) ⌈log2(D+1)⌉ + 1 layers of one head are necessary and sufficient under a causal mask; the
paper proves ⌈log3 2D⌉ (Musat, ICLR 2025, section 5, theorem 1). Does training reach this minimum, and does it never go
below it? All runs have a prior that the paper does not have (a learnt bias by distance that starts above 0 for the
previous token in layer 0), no MLP, and deepest facts first (section 3.1). For D = 1, 3 and 7 the minimum leaves no
slack: every head has a fixed task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.curves import LEARNT, endings_of
from hopscope.experiments.judging import Claim, Evidence, bound, significant
from hopscope.experiments.values import power_law
from hopscope.experiments.variants import TINY_TRAINING
from hopscope.runs.run import Run
from hopscope.theory.depth import minimum_depth, paper_bound
from hopscope_studies.stacked_heads.one_setting import columns
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 720, "long": 2600, "paper": 60_000}
CELL_SECONDS = 200

PRIOR_WORDS = "with a prior: attention's bias by distance starts at 4, from D = 6 on at 5, for distance 1 in L0"
MOST_HOPS, SEEDS = 8, {"quick": 1, "cpu": 3, "long": 3, "paper": 8}
told = telling("minimum_depth")


def runs(scale: str) -> Iterator[Config]:
    """Each D with three numbers of layers, seed by seed, so that a spent budget leaves whole seeds."""
    for seed in range(SEEDS[scale]):
        for hops in (1, 2) if scale == "quick" else range(1, MOST_HOPS + 1):
            for more in (-1, 0, 1):
                yield cell(hops, least(hops) + more, seed, scale)


def cell(hops: int, layers: int, seed: int, scale: str, order: str = "deepest_first") -> Config:
    """The configuration of one run: the preset `minimum_depth` with other hops and layers."""
    training = TINY_TRAINING if scale == "quick" else budget(hops, scale)
    config = recipe("minimum_depth").config(seed=seed, **training)
    model = config.model.but(n_layers=layers, positions=prior(hops), d_model=16 if scale == "quick" else 128)
    return Config(config.task.but(n_hops=hops, order=order), model, config.training)


def prior(hops: int) -> str:
    """The prior of the presets, or a stronger one for longer chains, which have more positions."""
    return f"relative(start='L0 1:{4 if hops < 6 else 5}')"


def budget(hops: int, scale: str) -> Mapping[str, int | str]:
    """The number of steps; the rate decays over the second half. D = 4 has more, for the search in `algorithms`."""
    known = {"long": 1500, "paper": 10_000}  # the paper's number of steps (section 7.1)
    steps = known.get(scale) or {1: 400, 2: 400, 3: 400, 4: 600}.get(hops, 500)
    return {"steps": steps, "decay_steps": steps // 2, "checkpoints": "20:400,100" if hops <= 5 else "500"}


def least(hops: int) -> int:
    """The exact minimum depth with one head, the same for every order of the facts."""
    return minimum_depth(hops, "causal", "one", "deepest_first").min_layers


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop: how it ended, and what theory says.

    Columns: those of `endings_of`; D, layers, order, prior; least (the exact minimum depth of D hops), least_k (of the
    hop), paper_bound (of D hops).
    """
    found = endings_of(runs, **columns("D", "layers", "order"))
    return found.assign(least=found.D.map(least), least_k=found.k.map(least), paper_bound=found.D.map(paper_bound))


def hops_learnt(table: DataFrame) -> DataFrame:
    """A row per run: D, seed, layers beyond the minimum (`more`), how many hops were learnt, the highest loss of any,
    and the step at which the last was learnt (NaN: never)."""
    each = table.assign(below=table.loss < LEARNT).groupby("run", sort=False)
    first = each[["version", "seed", "prior", "D", "layers", "least", "paper_bound", "steps"]].first()
    last = each.learnt.agg(lambda steps: steps.max(skipna=False))
    return first.assign(
        run=first.index, more=first.layers - first.least, n=each.below.sum(), worst=each.loss.max(), last=last
    )


@styled
def figure(table: DataFrame) -> Figure:
    """Left: the hops learnt by D and number of layers. Right: when the last hop was learnt."""
    each = hops_learnt(table)
    shown = picture(9.8, 4.0)
    left, right = shown.subplots(1, 2)
    depths(left, each)
    for more in sorted(set(each.more.astype(int))):
        part = each[each.more == more]
        tint, never = colour(more + 1), part["last"].isna()
        steps = part["last"].fillna(1.06 * part.steps)
        for mask, inside in ((~never, tint), (never, "none")):
            places = part.D[mask] + 0.18 * more
            right.plot(places, steps[mask], ls="", marker="o", ms=4, mfc=inside, mec=tint)
        right.plot([], [], ls="", marker="o", ms=4, color=tint, label=words_of(more))
    right.set(xlabel="D, number of hops", ylabel="optimizer steps", ylim=(0, None))
    right.set_title("When the last hop was learnt (hollow: never)")
    right.legend(loc="center")
    right.set_xticks(sorted(each.D.unique()))
    return shown


def words_of(more: int) -> str:
    """A number of layers in words, given the difference from the minimum."""
    return {-1: "one layer fewer", 0: "the exact minimum", 1: "one layer more"}[more]


def depths(ax: Axes, each: DataFrame) -> None:
    """Draw hops learnt by the best run, by D and layers; a dot per seed, filled if it learnt all hops."""
    for hops, layers in sorted(set(zip(each.D.astype(int), each.layers.astype(int), strict=True))):
        part = each[(hops == each.D) & (each.layers == layers)]
        for index, (n, seed) in enumerate(sorted(zip(part.n, part.seed, strict=True), key=lambda one: one[1])):
            place = hops + 0.14 * (index - (len(part) - 1) / 2)
            tint = colour(int(seed))
            ax.plot(place, layers, ls="", marker="o", ms=6, mfc=tint if n == hops else "none", mec=tint, mew=0.9)
        ax.text(hops, layers - 0.2, f"{part.n.max()} of {hops}", ha="center", va="top", fontsize=6, color=GREY)
    every = sorted(set(each.D))
    by_hops = each.groupby("D")[["least", "paper_bound"]].first()
    for name, tint, dashes, label in (
        ("least", "#222222", "-", "exact minimum: nothing below"),
        ("paper_bound", GREY, "--", "theorem 1: nothing below"),
    ):
        ax.step(every, by_hops[name].loc[every] - 0.5, where="mid", color=tint, lw=1.1, ls=dashes, label=label)
    ax.set(xlabel="D, number of hops", ylabel="layers", ylim=(0.2, each.layers.max() + 1.2))
    ax.set_xticks(every)
    ax.set_yticks(range(1, each.layers.max() + 1))
    ax.set_title("Hops learnt by the best seed (filled: all D, by that seed)")
    ax.legend(loc="upper left", fontsize=7)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims that training reaches the exact minimum, and never goes below it."""
    each = hops_learnt(table)
    yield nothing_below(table)
    yield enough("minimum_is_enough", each[each.more == 0], table)
    yield enough("one_more_is_enough", each[each.more == 1], table)
    yield no_slack(each[(each.more == 0) & (each.D > 1)], table)
    yield growth(each[each["last"].notna()], table)


def nothing_below(table: DataFrame) -> Claim:
    """Judge whether hops beyond the reach of the layers are not learnt."""
    deep = table[table.layers < table.least_k]
    evidence = Evidence(deep, "5, beyond (sharpened)", source="the paper's bound for learnt", among=table)
    loss, said = deep.loss, {"prior": PRIOR_WORDS}
    return told(evidence, "nothing_below_the_minimum", loss, "final partial loss", at_least=LEARNT, said=said)


def enough(id: str, each: DataFrame, table: DataFrame) -> Claim:
    """Judge whether for every D some seed learns all hops."""
    evidence = Evidence(each, "5, beyond", source="the paper's bound for learnt", among=table)
    found, what = each.groupby("D").worst.min(), "loss of the worst hop in a D's best seed"
    provided = bound("number of different D", each.D.nunique(), at_least=MOST_HOPS)
    return told(evidence, id, found, what, below=LEARNT, provided=provided, said={"prior": PRIOR_WORDS})


def no_slack(each: DataFrame, table: DataFrame) -> Claim:
    """Judge whether chains that need every head of the minimum depth are the hard ones."""
    tight, learnt = 2 ** (each.least - 1) == each.D + 1, each.n == each.D
    these, n, others = int(learnt[tight].sum()), int(tight.sum()), int(learnt[~tight].sum())
    counts = f"{these} of {n} runs against {others} of {len(each) - n}"
    chance = at_most(these, n, these + others, len(each))
    contrary = at_most(n - these, n, len(each) - these - others, len(each))
    evidence, said = Evidence(each, "beyond", among=table), {"counts": counts, "prior": PRIOR_WORDS}
    also = [significant("the difference of the shares of runs that learn all hops < 0", chance, contrary)]
    return told(evidence, "no_slack_is_hard", float(learnt[tight].mean() - learnt[~tight].mean()), also=also, said=said)


def growth(each: DataFrame, table: DataFrame) -> Claim:
    """Judge how the time to the last hop grows with D over runs that learn all hops, which omits the slowest."""
    _, exponent = power_law(each.D, each["last"])
    evidence, what = Evidence(each, "beyond", among=table), "exponent of D"
    said, provided = {"prior": PRIOR_WORDS}, bound("number of different D", each.D.nunique(), above=2)
    return told(evidence, "time_grows_no_faster_than_chains", exponent, what, at_most=1, provided=provided, said=said)


def at_most(k: int, drawn: int, marked: int, of: int) -> float:
    """The probability that at most k of those drawn are marked (Fisher's exact test, one-sided)."""
    ways = [math.comb(marked, i) * math.comb(of - marked, drawn - i) for i in range(min(k, drawn) + 1)]
    return sum(ways) / math.comb(of, drawn)
