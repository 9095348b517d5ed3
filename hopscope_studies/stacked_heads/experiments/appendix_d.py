"""The attention of every path of a circuit over training (Musat, ICLR 2025, appendix D, section 9).

The paper shows thirteen curves of one model. This experiment shows the paths of the circuits of the runs of `fig7`, a
panel per seed. `fig7` judges when they pass 0.5; this experiment judges whether they stay above it.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.circuit_tables import emergence_of, paths_by_hand
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.tables import columns_of
from hopscope.experiments.variants import seeds_of
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.experiments.fig7 import runs as runs
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores; the runs are those of `fig7`.
SECONDS = {"quick": 8, "cpu": 700, "paper": 60_000}
COMPARES_RUNS = True  # the paths tracked in one run are tracked in all

EMERGED = 0.5  # paper, section 9.1
told = telling("appendix_d")


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, path and checkpoint.

    Columns: run, version, seed, prior, path, in_circuit (of this run, which passes by hand), hop (that it serves),
    step, strength.
    """
    rows = []
    for run, emergence in zip(runs, emergence_of(runs, scale), strict=True):
        about = columns_of(run)
        own = set(paths_by_hand(run, scale))
        for followed in emergence.paths:
            for step, strength in zip(emergence.steps, followed.strength, strict=True):
                what = {"path": str(followed.path), "in_circuit": followed.path in own, "hop": followed.hop or "none"}
                rows.append(about | what | {"step": step, "strength": float(strength)})
    return DataFrame(rows)


@styled
def figure(table: DataFrame) -> Figure:
    """A panel per seed, a line per path of its circuit, in the colour of the hop that it serves."""
    seeds = seeds_of(table)
    columns = min(4, len(seeds))
    bands = -(-len(seeds) // columns)
    shown = picture(3.4 * columns, 2.5 * bands)
    axes = shown.subplots(bands, columns, squeeze=False, sharex=True, sharey=True).flatten()
    hops = sorted(set(table.hop) - {"none"})
    for ax, seed in zip(axes, seeds, strict=False):
        part = table[(table.seed == seed) & table.in_circuit.astype(bool)]
        for path, curve in part.groupby("path", sort=False):
            hop = str(curve.hop.iloc[0])
            tint = colour(hops.index(hop)) if hop in hops else GREY
            ax.plot(curve.step, curve.strength, color=tint, lw=1.3, label=str(path))
        ax.axhline(EMERGED, color=GREY, lw=0.8, ls=":", zorder=0)
        ax.set(title=f"seed {seed}" + ("" if len(part) else ": no circuit"), ylim=(-0.02, 1.02))
        if len(part):
            ax.legend(fontsize=5.5, loc="best")
    for ax in axes[len(seeds) :]:
        ax.set_visible(False)
    shown.supxlabel("optimizer steps (checkpoints)", fontsize=9)
    shown.supylabel("mean attention on the path", fontsize=9)
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Judge whether paths of circuits end above 0.5, and stay there."""
    own = table[table.in_circuit.astype(bool)].sort_values("step")
    curves = [curve.strength.to_numpy() for _, curve in own.groupby(["run", "path"])]
    evidence, found = Evidence(own, "9.1, D", source="paper", among=table), [curve[-1] for curve in curves]
    yield told(evidence, "paths_end_strong", found, "final mean attention", above=EMERGED, said={"n": len(curves)})
    emerged = [curve for curve in curves if (curve > EMERGED).any()]
    evidence, what = Evidence(own, "9.1, D", source="", among=table), "number of times that a path falls back"
    said = {"n": len(emerged), "all": len(curves)}
    found = [((curve[:-1] > EMERGED) & (curve[1:] <= EMERGED)).sum() for curve in emerged]
    yield told(evidence, "paths_stay", found, what, of="highest", equals=0, said=said)
