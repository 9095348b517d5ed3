"""Longer chains: how far down does a transformer of fixed size get? (Musat, ICLR 2025, sections 5 and 7, to D = 10)

The paper trains D = 3, 4 and 5; theory lets 3 layers do D = 3 and 5 layers D = 15. At the size that two cores train in
minutes: D = 1 and 2, and D = 3 as one long run of the same model (4 layers, one head), reported as far as it got. On
paper scale D = 1 to 10, 12 layers of the paper's A, B and C.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.curves import compared_curves
from hopscope.experiments.curves import LEARNT, final, first_below, hop_curves_of
from hopscope.experiments.judging import Bound, Claim, bound, judge
from hopscope.experiments.variants import variants
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 600, "paper": 400_000}
CLAIMS = ("every_hop_is_learnt", "later_hops_take_longer")

PARTIAL = True  # D = 3 is one long run, told of as far as it got

LONG = {"steps": 6000, "decay_steps": 1000, "checkpoints": "500"}  # of D = 3 on two cores


def runs(scale: str) -> Iterator[Config]:
    """Each D, over seeds; D = 2 are `demo_seeds`."""
    if scale == "paper":
        for hops in range(1, 11):
            config = recipe("transformer_abc").config(seed=0, checkpoints="4000")
            yield Config(config.task.but(n_hops=hops), config.model, config.training)
        return
    for hops in (1, 2):
        yield from variants(scale, task={"n_hops": hops})
    yield from variants(scale, task={"n_hops": 3}, training=LONG)


def table(runs: list[Run], scale: str) -> DataFrame:
    """Every hop's validation loss over training, with D and the steps that were declared."""
    return hop_curves_of(
        runs, D=lambda config: config.task.as_dict()["n_hops"], steps=lambda config: config.training.steps
    )


def figure(table: DataFrame) -> Figure:
    """A panel per D, a line per hop."""
    return compared_curves(table, by="D", baselines=Retrieval().baselines)


def claims(table: DataFrame) -> Iterator[Claim]:
    """How many hops were learnt, and whether the next takes longer."""
    ends = final(table)
    hops_of = table.groupby("run").D.first()
    learnt = (ends < LEARNT).groupby("run").sum()
    longest = int(table.D.max())
    reached = learnt[hops_of == longest]
    long = table[longest == table.D].groupby("run")
    reach, whole = long.step.max(), long.steps.first()
    steps = " and ".join(f"{step:,}" for step in sorted(set(reach))) + f" of {whole.max():,}"
    most = {D: learnt[hops_of == D].max() / D for D in set(hops_of)}
    waiting = most[longest] < 1 and bool((reach < whole).any())
    words = "; ".join(f"D = {D}: {', '.join(map(str, sorted(learnt[hops_of == D])))}" for D in sorted(set(hops_of)))
    yield judge(
        "every_hop_is_learnt",
        f"At every D all hops are learnt, by some seed (hops learnt in each run: {words}; the number is that of D = "
        f"{longest}, after {steps} steps).",
        reached,
        "number of hops learnt",
        section="7.2, beyond",
        rows=table,
        number="highest",
        also=[bound("share of a D's hops that its best run learns", most.values(), equals=1)],
        provided=Bound(f"D = {longest} is learnt, or its training over", not waiting),
        source="paper",
    )
    times = first_below(table, LEARNT).unstack("hop")[list(dict.fromkeys(table.hop))]  # in the order of the chain
    each = [times.loc[run].dropna().tolist() for run in hops_of[hops_of >= 2].index]
    ratios = [waits[-1] / waits[0] for waits in each if len(waits) >= 2]
    yield judge(
        "later_hops_take_longer",
        "The last hop learnt was learnt after the first, by a multiple of its time "
        f"({len(ratios)} of {int((hops_of >= 2).sum())} runs learnt two or more).",
        ratios,
        "ratio of the two steps",
        section="7.2, 9.2 (iv)",
        rows=table,
        n=len(ratios),
        above=1,
    )
