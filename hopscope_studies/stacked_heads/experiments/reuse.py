"""Do later hops reuse the heads of earlier ones, and with how slight adjustments? (Musat, ICLR 2025, section 9.2, ii)

The paper infers reuse from one circuit. Here it is tested on the runs of `fig7`, by what silencing a path that serves
one hop costs the later ones, and by how far the path's attention changes from the step at which the next hop is learnt
to the end of training.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.emergence.track import Emergence
from hopscope.experiments.circuit_tables import emergence_of, paths_by_hand
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.tables import columns_of
from hopscope.problem.paths import Path
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.experiments.fig7 import runs as runs
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores; the runs are those of `fig7`.
SECONDS = {"quick": 8, "cpu": 700, "paper": 60_000}
COMPARES_RUNS = True  # the paths tracked in one run are tracked in all

MATTERS = 0.1  # a hop uses a path if silencing it adds more than this to the hop's loss (ours)
SLIGHT = 0.25  # largest change of a mean attention that counts as slight (ours)
told = telling("reuse")


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per path of a circuit and hop.

    Columns: run, version, seed, prior, path, in_circuit, serves (the easiest hop that needs it), hop, cost (what
    silencing the path adds to that hop's loss at the end), then (its mean attention when that hop was learnt; NaN if
    never), now (at the end), last_learnt (whether the last hop was).
    """
    rows = []
    for run, emergence in zip(runs, emergence_of(runs, scale), strict=True):
        rows += [columns_of(run) | row for row in rows_of(emergence, set(map(str, paths_by_hand(run, scale))))]
    return DataFrame(rows)


def rows_of(emergence: Emergence, circuit: set[str]) -> Iterator[dict[str, Any]]:
    """The paths of one run, of its circuit or else those tracked instead."""
    last = list(emergence.learnt.values())[-1]
    for followed in emergence.paths:
        assert followed.cost is not None
        what = {
            "path": str(followed.path),
            "in_circuit": str(followed.path) in circuit,
            "serves": followed.hop or "none",
        }
        state = {"now": float(followed.strength[-1]), "last_learnt": last.step is not None}
        for hop, cost in followed.cost.by_hop.items():
            step = emergence.learnt[hop].step
            then = float("nan") if step is None else float(numpy.interp(step, emergence.steps, followed.strength))
            yield what | {"hop": hop, "cost": cost, "then": then} | state


def shared(table: DataFrame) -> DataFrame:
    """For runs that learnt all hops: the path that each hop but the last needs most, with each later hop.

    Paths of the first layer in use are left out, because they join facts, which every hop needs.

    Columns: run, seed, path, serves, hop (a later one), cost (to that hop), following (whether it is the next hop),
    moved (change of the path's mean attention from when that hop was learnt to the end).
    """
    hops, rows = list(dict.fromkeys(table.hop)), []
    own = table[table.in_circuit.astype(bool) & table.last_learnt.astype(bool)]
    layers = own.path.map(lambda text: Path.parse(text).layer)
    own = own[layers > layers.groupby(own.run).transform("min")]
    for place, hop in enumerate(hops[:-1]):
        mine = own[(own.serves == hop) & (own.hop == hop)].sort_values("cost").groupby("run").last()
        for run, path in mine.path.items():
            part = own[(own.run == run) & (own.path == path)].set_index("hop")
            for later in hops[place + 1 :]:
                what = {"run": run, "seed": part.seed.iloc[0], "path": path, "serves": hop, "hop": later}
                moved = abs(part.now[later] - part.then[later])
                following = later == hops[place + 1]
                rows.append(what | {"cost": part.cost[later], "following": following, "moved": moved})
    columns = ["run", "seed", "path", "serves", "hop", "cost", "following", "moved"]
    return DataFrame(rows, columns=columns).astype({"following": bool})


@styled
def figure(table: DataFrame) -> Figure:
    """Left: the cost of silencing a path for the hop that it serves and for later ones. Right: its later attention."""
    shown = picture(9.2, 4.0)
    left, right = shown.subplots(1, 2)
    own = table[table.in_circuit.astype(bool)]
    hops = list(dict.fromkeys(table.hop))
    for index, hop in enumerate(hops):
        part = own[own.serves == hop]
        tint = colour(index)
        for _, path in part.groupby(["run", "path"]):
            costs = path.set_index("hop").cost.reindex(hops)
            left.plot(range(len(hops)), costs, color=tint, lw=0.9, marker="o", ms=3, alpha=0.7)
        left.plot([], [], color=tint, marker="o", ms=3, label=f"path that serves {hop}")
        later = part[part.hop == (hops[index + 1] if index + 1 < len(hops) else None)]
        right.plot(later.then, later.now, ls="", marker="o", ms=4, color=tint, alpha=0.8)
    left.set_xticks(range(len(hops)), hops)
    left.set(xlabel="hop", ylabel="what silencing the path adds to its loss", title="Whom the paths of circuits serve")
    right.plot([0, 1], [0, 1], color=GREY, lw=0.8, ls=":")
    right.set(xlabel="mean attention when the next hop was learnt", ylabel="at the end", xlim=(0, 1.02), ylim=(0, 1.02))
    right.set_title("How they were adjusted since")
    left.legend(fontsize=7)
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on reuse and on adjustments."""
    pairs = shared(table)
    evidence = Evidence(table, "9.2 (ii, iii)")
    yield told(evidence, "later_hops_reuse", pairs.cost, "addition to a later hop's loss", n=len(pairs), above=MATTERS)
    following = pairs[pairs.following]
    evidence = Evidence(table, "9.2 (ii)")
    yield told(evidence, "adjustments_are_slight", following.moved, "change", n=len(following), below=SLIGHT)
