"""Longer chains: how many hops does a transformer of fixed size learn? (Musat, ICLR 2025, sections 5 and 7, to D = 10)

The paper trains D = 3, 4 and 5. In theory 3 layers can do D = 3 and 5 layers D = 15. At scale `cpu` there are D = 1 and
2, and D = 3 as one long run of the same model (4 layers, one head, nearest facts first), reported as far as it got. At
scale `long` D is 2, 4, 8 and 16, with 10 layers, deepest facts first, no MLP, and a prior that the paper does not have:
a learnt bias by distance that starts above 0 for the previous token in layer 0. Does the time to the last hop grow in
proportion to D, to its logarithm, or faster? At scale `paper` D = 1 to 10, with the 12 layers of the paper's A, B and
C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.curves import LEARNT, final, first_below, hop_curves_of
from hopscope.experiments.judging import Bound, Claim, Evidence, bound
from hopscope.experiments.priors import NONE
from hopscope.experiments.values import lags, power_law
from hopscope.experiments.variants import variants
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.one_setting import columns
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 600, "long": 3600, "paper": 400_000}
CELL_SECONDS = 1200

PARTIAL = True  # D = 3 is one long run, reported as far as it got

LONG = {"steps": 6000, "decay_steps": 1000, "checkpoints": "500"}  # for D = 3 on two cores
WITH_PRIOR = ((2, 1000), (4, 1000), (8, 1500), (16, 2000))  # D and steps
LAYERS, SEEDS = 10, 5  # with the prior; 5 layers are the fewest for D = 8 to 15, 6 for D = 16
told = telling("longer_chains")


def runs(scale: str) -> Iterator[Config]:
    """Each D, over seeds; D = 2 at `cpu` are `packaged_seeds`. At `long` all have the prior."""
    if scale == "paper":
        for hops in range(1, 11):
            config = recipe("transformer_abc").config(seed=0, checkpoints="4000")
            yield Config(config.task.but(n_hops=hops), config.model, config.training)
        return
    if scale == "long":
        for seed in range(SEEDS):
            for hops, steps in WITH_PRIOR:
                training = {"steps": steps, "decay_steps": steps // 2, "checkpoints": str(steps), "seed": seed}
                config = recipe("minimum_depth").config(**training)
                model = config.model.but(n_layers=LAYERS, positions=prior(hops))
                yield Config(config.task.but(n_hops=hops), model, config.training)
        return
    for hops in (1, 2):
        yield from variants(scale, task={"n_hops": hops})
    yield from variants(scale, task={"n_hops": 3}, training=LONG)


def prior(hops: int) -> str:
    """The prior of `minimum_depth`, which is 5 at D = 8, scaled so that the previous token starts with the same share.

    Twice as many positions need ln 2 more.
    """
    return f"relative(start='L0 1:{5 + math.log(hops / 8):.2f}')"


def table(runs: list[Run], scale: str) -> DataFrame:
    """Every hop's validation loss over training, with D, the steps that were declared, order of the facts and prior."""
    return hop_curves_of(runs, steps=lambda config: config.training.steps, **columns("D", "order"))


@styled
def figure(table: DataFrame) -> Figure:
    """Left: the loss of each D's last hop over training. Right: when its first and its last hop was learnt."""
    shown = picture(9.4, 3.7)
    left, right = shown.subplots(1, 2)
    times = learning_times(table)
    for index, hops in enumerate(sorted(set(table.D.astype(int)))):
        last = table[(hops == table.D) & (table.hop == f"x{hops}")]
        run_lines(left, last, "hop_loss", color=colour(index), label=f"D = {hops}", lw=1.4, alpha=1)
    for index, (name, label) in enumerate((("first", "first hop"), ("last", "last hop"))):
        there = times[times[name].notna()]
        right.plot(there.D, there[name], ls="", marker="o", ms=5, color=colour(index), label=label)
    never = times[times["last"].isna()]
    right.plot(never.D, never.steps, ls="", marker="^", ms=6, mfc="none", mec=colour(1), label="not within training")
    left.axhline(LEARNT, color=GREY, lw=0.8, ls=":")
    left.set(
        xlabel="optimizer steps", ylabel="partial validation loss", ylim=(0, 1.4), title="The last hop of each chain"
    )
    right.set(xlabel="D, number of hops", ylabel="optimizer steps", title="When hops were learnt (loss below 0.5)")
    right.set(xscale="log", yscale="log")
    right.set_xticks(sorted(set(table.D)), [str(hops) for hops in sorted(set(table.D))])
    for ax in (left, right):
        ax.legend()
    return shown


def learning_times(table: DataFrame) -> DataFrame:
    """A row per run: run, seed, D, steps, and when its first and its last hop were learnt (NaN: never)."""
    learnt = first_below(table, LEARNT).unstack("hop")
    about = table.groupby("run")[["seed", "D", "steps"]].first()
    last = Series([learnt.loc[str(run)][f"x{hops}"] for run, hops in about.D.items()], about.index)
    return about.assign(run=about.index, first=learnt.min(axis=1).reindex(about.index), last=last)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether all hops are learnt, in which order, and how the time to the last one grows."""
    yield every_hop(table)
    hops_of = table.groupby("run").D.first()
    times = first_below(table, LEARNT).unstack("hop")[list(dict.fromkeys(table.hop))]  # in the order of the chain
    each = [times.loc[run].dropna().tolist() for run in hops_of[hops_of >= 2].index]
    ratios = [waits[-1] / waits[0] for waits in each if len(waits) >= 2]
    evidence = Evidence(table, "7.2, 9.2 (iv)", source="")
    said = {"conditions": conditions(table), "n": len(ratios), "all": int((hops_of >= 2).sum())}
    yield told(evidence, "later_hops_take_longer", ratios, "ratio of the two steps", n=len(ratios), above=1, said=said)
    evidence, what = Evidence(table, "7.2, 9.2", source="paper"), "number of steps from one hop to the next"
    found = lags(
        times.loc[[str(run)], [f"x{k}" for k in range(1, hops + 1)]].to_numpy()[0] for run, hops in hops_of.items()
    )
    yield told(evidence, "hops_in_order", found, what, at_least=0, said={"conditions": conditions(table)})
    yield growth(table)


def conditions(table: DataFrame) -> str:
    """The order of the facts and the prior, in words; the prior's strength depends on the number of positions."""
    words = ", ".join(sorted(str(order).replace("_", " ") for order in set(table.order)))
    return f"facts {words}" + ("; with a prior for the token before" if set(table.prior) - {NONE} else "")


def every_hop(table: DataFrame) -> Claim:
    """Judge whether runs learn every hop."""
    learnt = (final(table) < LEARNT).groupby("run").sum()
    hops_of = table.groupby("run").D.first()
    longest = int(table.D.max())
    reached = learnt[hops_of == longest]
    long = table[longest == table.D].groupby("run")
    reach, whole = long.step.max(), long.steps.first()
    most = {D: learnt[hops_of == D].max() / D for D in set(hops_of)}
    waiting = most[longest] < 1 and bool((reach < whole).any())
    evidence, what = Evidence(table, "7.2, beyond", source="paper"), "number of hops learnt"
    said = {"longest": longest, "conditions": conditions(table)}
    also = [bound("share of a D's hops that its best run learns", most.values(), equals=1)]
    provided = Bound(f"D = {longest} is learnt, or its training over", not waiting)
    return told(
        evidence, "every_hop_is_learnt", reached, what, number="highest", also=also, provided=provided, said=said
    )


def growth(table: DataFrame) -> Claim:
    """Estimate the exponent of the time to the last hop in D; undecided if for some D no run learnt its last hop."""
    times = learning_times(table)
    medians = times.assign(last=times["last"].fillna(float("inf"))).groupby("D")["last"].median()
    _, exponent = power_law(times.D, times["last"])
    evidence, what = Evidence(times, "beyond"), "exponent of D"
    said, provided = {"conditions": conditions(table)}, bound("a D's median", medians, below=float("inf"))
    return told(evidence, "time_grows_slower_than_chains", exponent, what, below=1, provided=provided, said=said)
