"""Conditional retrieval, trained, with its circuit (Musat, ICLR 2025, section 3.1, which defines it and trains none).

Two chains of "x and y from the query, z from x and y together": overlooking either premise leaves a choice of two. The
demo's model and recipe; circuits are found as for plain retrieval and judged by the task's own threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.circuit_tables import circuit_of
from hopscope.experiments.curves import final, first_below, hop_curves_of
from hopscope.experiments.judging import Claim, bound, judge, lags
from hopscope.experiments.variants import SEEDS, TINY_MODEL, TINY_TRAINING
from hopscope.runs.run import Run
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 600, "paper": 20_000}
CLAIMS = ("learnt", "premises_first", "circuit_found")

STEPS = {"cpu": 2000, "paper": 10_000}


def runs(scale: str) -> Iterator[Config]:
    """Over seeds."""
    long = {} if scale == "quick" else {"steps": STEPS[scale], "decay_steps": STEPS[scale] // 4, "checkpoints": "500"}
    demo = recipe("demo").config(**(TINY_TRAINING if scale == "quick" else long))
    model = demo.model.but(**TINY_MODEL) if scale == "quick" else demo.model
    for seed in range(SEEDS[scale]):
        yield Config(ConditionalRetrieval(n_chains=2), model, demo.training.but(seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """Two kinds of rows: `loss`, of every logged step and variable; `path`, of every path of the circuit.

    Columns: run, version, seed, kind; step, hop, val_loss, hop_loss; path, strength, removal_loss, verdict, by_hand
    (loss with all patterns by hand), model (loss as it is), threshold.
    """
    rows: list[Any] = hop_curves_of(runs).assign(kind="loss").to_dict("records")
    for run in runs:
        circuit = circuit_of(run, scale)
        about = {
            "run": run.config.identity,
            "version": run.sessions[-1]["environment"]["code"],
            "seed": run.config.training.seed,
            "kind": "path",
            "verdict": circuit.verdict,
            "by_hand": circuit.losses["circuit"].mean,
            "model": circuit.losses["model"].mean,
            "threshold": circuit.threshold,
        }
        paths = [(str(f.path), f.strength, f.removal_loss) for f in circuit.paths] if circuit.accepted else []
        for path, strength, removal in paths or [("none", float("nan"), float("nan"))]:
            rows.append(about | {"path": path, "strength": strength, "removal_loss": removal})
    return DataFrame(rows)


@styled
def figure(table: DataFrame) -> Figure:
    """Left: the loss of each variable over training. Right: what the removal of each path of the circuits costs."""
    shown = picture(10.0, 4.2)
    left, right = shown.subplots(1, 2)
    losses, paths = table[table.kind == "loss"], table[(table.kind == "path") & (table.path != "none")]
    for index, (hop, part) in enumerate(losses.groupby("hop")):
        for place, (_, run) in enumerate(part.groupby("run")):
            label = str(hop) if place == 0 else "_"
            left.plot(run.step, run.hop_loss, color=colour(index), lw=1.2, alpha=0.8, label=label)
    left.set(xlabel="optimizer steps", ylabel="validation loss", ylim=(0, None), title="Loss of each variable")
    left.legend()
    names = [f"seed {seed}: {path}" for seed, path in zip(paths.seed, paths.path, strict=True)]
    right.barh(range(len(names)), paths.removal_loss, color=[colour(int(seed)) for seed in paths.seed], height=0.7)
    right.set_yticks(range(len(names)), names, fontsize=6.5)
    right.axvline(float(table.threshold.max()), color=GREY, lw=0.8, ls=":")
    right.set(xlabel="loss of the circuit without the path", title="Paths of the circuits")
    right.invert_yaxis()
    if not names:
        right.text(0.5, 0.5, "no run solves it, so none has a circuit", transform=right.transAxes, ha="center")
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Learnt, in order, by a circuit."""
    losses, circuits = table[table.kind == "loss"], table[table.kind == "path"].groupby("run").first()
    yield judge(
        "learnt",
        "Conditional retrieval is learnt by the model that learns plain retrieval, in every run: every variable.",
        final(losses).groupby("run").max(),
        "final partial loss",
        section="beyond (3.1)",
        rows=losses,
        below=0.05,
        source="ours",
    )
    times = first_below(losses, 0.5).unstack("hop")
    last = list(dict.fromkeys(losses.hop))[-1]
    premises = times.drop(columns=last).max(axis=1, skipna=False)
    waits = lags(zip(premises, times[last], strict=True))
    yield judge(
        "premises_first",
        f"What needs two premises, {last}, is learnt after both ({len(waits)} of {len(times)} runs learnt it).",
        waits,
        "lag in steps",
        section="9.2, beyond",
        rows=table,
        n=len(waits),
        above=0,
    )
    solved = circuits[circuits.model < circuits.threshold]
    yield judge(
        "circuit_found",
        f"Of every model that solves it ({len(solved)} of {len(circuits)}) a circuit is found that keeps the loss "
        "below the threshold with all patterns by hand.",
        solved.by_hand,
        "loss by hand",
        section="8, E, beyond",
        rows=table,
        n=len(solved),
        number="highest",
        also=[
            bound(
                "models with a circuit that keeps it below the threshold",
                solved.verdict == "circuit",
                of="share of",
                equals=1,
            )
        ],
    )
