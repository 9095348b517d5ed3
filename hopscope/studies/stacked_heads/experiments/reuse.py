"""Do later hops reuse the heads of earlier ones, and with how slight adjustments? (Musat, ICLR 2025, section 9.2, ii)

The paper reads reuse off one circuit. Here it is tried on the runs of `fig7`: what silencing a path that serves x1
costs x2; and how far the path's attention has moved from the step at which x1 was learnt to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.emergence.track import Emergence
from hopscope.experiments.circuit_tables import accepted_paths, emergence_of
from hopscope.experiments.judging import Claim, judge
from hopscope.runs.run import Run
from hopscope.studies.stacked_heads.experiments import fig7

#: Seconds that each scale takes on two cores; the runs are those of `fig7`.
SECONDS = {"quick": 8, "cpu": 520, "paper": 60_000}
CLAIMS = ("later_hops_reuse", "adjustments_are_slight")
COMPARES_RUNS = True  # what one run follows is followed in all

MATTERS = 0.1  # what silencing must add to a hop's loss to count as using the path (ours)
SLIGHT = 0.25  # change of a mean attention that still is an adjustment (ours)


def runs(scale: str) -> Iterator[Config]:
    """Those of `fig7`."""
    yield from fig7.runs(scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per path of a circuit and hop.

    Columns: run, version, seed, path, in_circuit, serves (the easiest hop that needs it), hop, cost (what silencing the
    path adds to that hop's loss at the end), then (mean attention when the hop that it serves was learnt; NaN if
    never), now (at the end), last_learnt (whether the last hop was).
    """
    rows = []
    for run, emergence in zip(runs, emergence_of(runs, scale), strict=True):
        about = {
            "run": run.config.identity,
            "version": run.sessions[-1]["environment"]["code"],
            "seed": run.config.training.seed,
        }
        rows += [about | row for row in rows_of(emergence, set(map(str, accepted_paths(run, scale))))]
    return DataFrame(rows)


def rows_of(emergence: Emergence, circuit: set[str]) -> Iterator[dict[str, Any]]:
    """One run's paths, whether it has a circuit or only the path that is followed in its place."""
    last = list(emergence.learnt.values())[-1]
    for followed in emergence.paths:
        assert followed.cost is not None
        learnt = followed.learnt.step if followed.learnt else None
        then = float("nan") if learnt is None else float(numpy.interp(learnt, emergence.steps, followed.strength))
        what = {
            "path": str(followed.path),
            "in_circuit": str(followed.path) in circuit,
            "serves": followed.hop or "none",
        }
        state = {"then": then, "now": float(followed.strength[-1]), "last_learnt": last.step is not None}
        for hop, cost in followed.cost.by_hop.items():
            yield what | {"hop": hop, "cost": cost} | state


def shared(table: DataFrame) -> DataFrame:
    """Per run that learnt its last hop: the path that serves the first hop and costs it most; its cost to the last."""
    first, last = table.hop.iloc[0], table.hop.iloc[-1]
    own = table[table.in_circuit.astype(bool) & table.last_learnt.astype(bool) & (table.serves == first)]
    mine = own[own.hop == first].sort_values("cost").groupby("run").last()
    costs = own[own.hop == last].set_index(["run", "path"]).cost
    return mine.assign(cost_last=[costs.get((run, path), float("nan")) for run, path in mine.path.items()])


@styled
def figure(table: DataFrame) -> Figure:
    """Left: what silencing each path costs the first hop and the last. Right: its attention then and now."""
    shown = picture(9.2, 4.0)
    left, right = shown.subplots(1, 2)
    own = table[table.in_circuit.astype(bool)]
    hops = list(dict.fromkeys(table.hop))
    for index, hop in enumerate([*hops, "none"]):
        part = own[own.serves == hop]
        tint = colour(index) if hop in hops else GREY
        label = f"serves {hop}" if hop in hops else "serves none alone"
        first, last = (part[part.hop == end].cost for end in (hops[0], hops[-1]))
        if len(part):
            left.plot(first, last, ls="", marker="o", ms=4, color=tint, alpha=0.8, label=label)
            one = part[part.hop == hops[0]]
            right.plot(one.then, one.now, ls="", marker="o", ms=4, color=tint, alpha=0.8, label=label)
    left.set(xlabel=f"what silencing the path adds to the loss of {hops[0]}", ylabel=f"and to that of {hops[-1]}")
    right.plot([0, 1], [0, 1], color=GREY, lw=0.8, ls=":")
    right.set(
        xlabel="mean attention when the hop it serves was learnt", ylabel="at the end", xlim=(0, 1.02), ylim=(0, 1.02)
    )
    left.set_title("Paths of circuits: whom they serve")
    right.set_title("How they were adjusted since")
    if len(own):
        left.legend(fontsize=7)
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Reuse, and its adjustments."""
    each = shared(table)
    first, last = table.hop.iloc[0], table.hop.iloc[-1]
    yield judge(
        "later_hops_reuse",
        f"The path that serves {first} is reused: silencing it costs {last} as well ({len(each)} of "
        f"{table.run.nunique()} runs learnt {last} and have such a path).",
        each.cost_last,
        f"addition to the loss of {last}",
        section="9.2 (ii, iii)",
        rows=table,
        n=len(each),
        above=MATTERS,
        source="ours",
    )
    yield judge(
        "adjustments_are_slight",
        f"Its mean attention changes little from when {first} was learnt to the end of training.",
        (each.now - each.then).abs(),
        "change",
        section="9.2 (ii)",
        rows=table,
        n=len(each),
        below=SLIGHT,
        source="ours",
    )
