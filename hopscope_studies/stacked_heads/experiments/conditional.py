"""Conditional retrieval, with its circuit (Musat, ICLR 2025, section 3.1, which defines the task without training it).

Two chains of "x and y from the query, z from x and y together": without either premise two answers remain. Facts of
three tokens need two heads that join them, one for the previous token and one for the token before that. The models,
which two cores train in minutes, start with a prior for both. They have 5 layers of two heads, with the facts in either
order. The same model without the prior is the control. Circuits are found as for plain retrieval and judged by the
task's threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.circuit_tables import circuit_of
from hopscope.experiments.curves import final, first_below, hop_curves_of
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.priors import NONE, prior_of
from hopscope.experiments.tables import columns_of
from hopscope.experiments.values import lags
from hopscope.experiments.variants import TINY_MODEL, TINY_TRAINING
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.conditional_retrieval import ConditionalRetrieval
from hopscope_studies.stacked_heads.named_circuits import all_have_one
from hopscope_studies.stacked_heads.one_setting import columns
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "paper": 20_000}

#: The prior: one head of layer 0 starts with the previous token, the other with the token before that.
PRIOR = "relative(start='L0H0 1:4; L0H1 2:4')"
STEPS = {"cpu": 600, "paper": 10_000}
MANY = {"cpu": (5, 5), "paper": (8, 8)}  # seeds of each order with the prior, and of the first order without
ORDERS = ("deepest_first", "nearest_first")
told = telling("conditional")


def runs(scale: str) -> Iterator[Config]:
    """With the prior in either order of the facts, and without it, over seeds."""
    task = ConditionalRetrieval(n_chains=2, order="nearest_first", position_base=100.0)
    model = Architecture(n_layers=5, n_heads=2, d_model=128, init="early_layers", mlp=True, positions="input")
    if scale == "quick":
        training = Training.from_dict({**TINY_TRAINING, "schedule": "linear"})
        yield Config(task, model.but(**TINY_MODEL, positions=PRIOR), training)
        return
    steps = STEPS[scale]
    training = Training(
        steps=steps, schedule="linear", decay_steps=steps // 2, dtype="bfloat16", checkpoints=str(steps // 6)
    )
    many, control = MANY[scale]
    for order, seed in product(ORDERS, range(many)):
        yield Config(task.but(order=order), model.but(positions=PRIOR), training.but(seed=seed))
    for seed in range(control):
        yield Config(task.but(order=ORDERS[0]), model, training.but(seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """Two kinds of rows: `loss`, of every logged step and variable; `path`, of every path of the circuit.

    Columns: run, version, seed, prior, order (of the facts), kind; step, hop, val_loss, hop_loss, below (the loss at
    which it is learnt); path, strength, removal_loss, verdict, by_hand (loss with all patterns by hand), model (loss as
    it is), threshold.
    No circuit is searched for without the prior.
    """
    curves = hop_curves_of(runs, **columns("order"), below=lambda config: config.task.learnt_below)
    rows: list[Any] = curves.assign(kind="loss").to_dict("records")
    for run in runs:
        if prior_of(run.config) == NONE:
            continue
        circuit = circuit_of(run, scale)
        about = {
            **columns_of(run),
            "order": run.config.task.as_dict()["order"],
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
    """Left: the loss of each variable over training. Right: the loss of the circuits without each path."""
    losses, paths = table[table.kind == "loss"], table[(table.kind == "path") & (table.path != "none")]
    shown = picture(10.0, max(4.2, 0.17 * len(paths)))
    left, right = shown.subplots(1, 2)
    for index, (hop, part) in enumerate(losses.groupby("hop")):
        for (prior, _), run in part.groupby(["prior", "run"]):
            left.plot(run.step, run.hop_loss, color=colour(index), lw=1.2, alpha=0.8, ls=":" if prior == NONE else "-")
        left.plot([], [], color=colour(index), label=str(hop))
    left.set(xlabel="optimizer steps", ylabel="validation loss", ylim=(0, None))
    left.set_title("Loss of each variable (dotted: without prior)")
    left.legend()
    names = [f"seed {seed}: {path}" for seed, path in zip(paths.seed, paths.path, strict=True)]
    right.barh(range(len(names)), paths.removal_loss, color=[colour(int(seed)) for seed in paths.seed], height=0.7)
    right.set_yticks(range(len(names)), names, fontsize=6.5)
    right.axvline(float(table.threshold.max()), color=GREY, lw=0.8, ls=":")
    right.set(xlabel="loss of the circuit without the path", title="Paths of the circuits")
    right.invert_yaxis()
    if not names:
        right.text(0.5, 0.5, "no run has a circuit", transform=right.transAxes, ha="center")
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether the task is learnt, in which order, and by a circuit."""
    losses = table[table.kind == "loss"]
    paths = table[table.kind == "path"]
    yield from about_losses(losses[losses.prior != NONE], losses[losses.prior == NONE])
    yield circuit_found(paths)


def about_losses(taught: DataFrame, plain: DataFrame) -> Iterator[Claim]:
    """Claims on which variables are learnt with the prior and without, and in which order."""
    ends = final(taught).groupby("run").max()
    yield told(Evidence(taught, "beyond (3.1)"), "learnt", ends, "final partial loss", below=0.05)
    last = list(dict.fromkeys(taught.hop))[-1]
    stuck = plain[plain.hop == last]
    evidence = Evidence(stuck, "beyond (3.1)", among=taught)
    what = "final loss beyond that at which a hop counts as learnt"
    found = [] if stuck.empty else final(stuck) - stuck.groupby(["run", "hop"]).below.first()
    yield told(evidence, "not_without_the_prior", found, what, at_least=0, said={"last": last})
    below = dict(zip(taught.run, taught.below.astype(float), strict=True))
    times = first_below(taught, below).unstack("hop")
    premises = times.drop(columns=last).max(axis=1, skipna=False)
    waits = lags(zip(premises, times[last], strict=True))
    evidence, said = Evidence(taught, "9.2, beyond", source=""), {"last": last, "n": len(waits), "all": len(times)}
    yield told(evidence, "premises_first", waits, "lag in steps", n=len(waits), above=0, said=said)


def circuit_found(paths: DataFrame) -> Claim:
    """Judge whether the circuits explain the trained models."""
    circuits = paths.groupby("run").first()
    solved = circuits[circuits.model < circuits.threshold]
    evidence, said = Evidence(paths, "8, E, beyond", source=""), {"n": len(solved), "all": len(circuits)}
    loss, also = solved.by_hand, [all_have_one(solved.verdict == "circuit", "that keeps it below the threshold")]
    return told(evidence, "circuit_found", loss, "loss by hand", n=len(solved), number="highest", also=also, said=said)
