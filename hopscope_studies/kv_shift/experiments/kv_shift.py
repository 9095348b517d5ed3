"""KV shifting attention: one layer against two plain ones, the learnt blends, a negative control, and hops by depth.

After Xu et al. (2024, arXiv:2411.19574, section 3 and appendix H): induction on periodic sequences, learnt blends,
n-gram text as negative control, hops. The exact minimum depths are ours (docs/theory.md, "With shifted keys and
values"). Two tasks of hops ask whether training reaches these depths and goes no further.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.experiments.circuit_tables import circuit_numbers
from hopscope.experiments.curves import crossing, endings_of
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.models.transformer import Transformer
from hopscope.runs.run import Run
from hopscope_studies.kv_shift.cells import ATTENTION, cells
from hopscope_studies.kv_shift.claims import claims as claims
from hopscope_studies.kv_shift.figure import figure as figure
from hopscope_studies.kv_shift.scores import SEQUENCES, accuracy, blends, with_blends
from hopscope_studies.kv_shift.work import LeastDepths

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 420, "paper": 400_000}

ENOUGH = 0.95  # accuracy from which induction counts as learnt (Xu et al.'s curves; ours)
CIRCUITS = {"quick": 0, "cpu": 3, "paper": 3}  # seeds of these cells whose circuits are searched for
SEARCHED_IN = (("induction", "kv", 1), ("chains", "kv", 2))
DEPTHS = {"quick": LeastDepths(4, 3, 2), "cpu": LeastDepths(), "paper": LeastDepths(64, 6, 1000)}


def runs(scale: str) -> Iterator[Config | Work]:
    """The computation of minimum depths, and all runs of the four parts."""
    yield DEPTHS[scale]
    yield from (config for _, config in cells(scale))


def table(runs: list[Run | Finished], scale: str) -> DataFrame:
    """Rows of six kinds, each with run, version, seed, kind, part, attention, layers.

    `end`: steps, learnt (step at which accuracy reached 0.95; NaN: never), accuracy and start_accuracy on fresh
    sequences, loss, chance; for KV-shift models also the blends (`scores.blends`), and accuracy with keys unshifted and
    with the construction's blends. `curve`: step, hop, hop_loss, and accuracy if it was logged. `hop`: hop, k, the
    final loss, and the loss of a guess. `circuit`: paths and losses. `theory`: the minimum depth by mask, order and
    hops, computed by formula, with attention from all positions to all, and by a complete search (NaN if not searched).
    `sheets`: the shares of chains, and of whole sheets, that need fewer layers.
    """
    named = {config.identity: name for name, config in cells(scale)}
    return rows_of(runs, lambda run: measured(run, *named[run.config.identity], scale))


def measured(run: Run, part: str, attention: str, layers: int, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on one model; for the first seeds of some cells also on its circuit."""
    about = {"part": part, "attention": attention, "layers": layers}
    yield from (about | row for row in numbers(run, scale, part))
    if run.config.training.seed < CIRCUITS[scale] and (part, attention, layers) in SEARCHED_IN:
        yield about | {"kind": "circuit", **circuit_numbers(run, scale)}


def numbers(run: Run, scale: str, part: str) -> Iterator[dict[str, Any]]:
    """Rows on a model's final numbers, its course and its hops."""
    task, end = run.task, run.steps[-1]
    batch = task.sample(SEQUENCES[scale], generator(0, "asked"))
    model, first = run.at(end), run.at(0)
    assert isinstance(model, Transformer) and isinstance(first, Transformer)
    found = {"steps": end, "learnt": learnt(run), "accuracy": accuracy(model, batch), "chance": task.chance}
    found |= {"start_accuracy": accuracy(first, batch), "loss": run.rows[-1]["val_loss"], "floor": task.bayes_loss}
    if model.architecture.attention in (ATTENTION["kv"], ATTENTION["kv drawn"]):
        found |= blends(model)
        found |= {"unshifted": with_blends(model, batch, (1.0, 0.0), (1.0, 0.0))}
        found |= {"constructed": with_blends(model, batch, (0.0, 1.0), (1.0, 0.0))}
    yield {"kind": "end", **found}
    for row in run.rows:
        for hop, loss in row["hop_losses"].items():
            yield {"kind": "curve", "step": row["step"], "hop": hop, "hop_loss": loss, "accuracy": row.get("accuracy")}
    if part in ("letters", "chains"):
        yield from hop_rows(run)


def learnt(run: Run) -> float:
    """The step at which accuracy first reached 0.95, interpolated; NaN if never, or if it was not logged."""
    seen = [row for row in run.rows if "accuracy" in row]
    return crossing([row["step"] for row in seen], [-row["accuracy"] for row in seen], -ENOUGH)


def hop_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Rows on the mean loss of every hop over the last 100 steps, and on the loss of a guess."""
    guess = min(loss for loss in run.task.baselines.values() if loss > 0)  # of whoever knows where answers may be
    for hop, k, loss in endings_of([run])[["hop", "k", "loss"]].itertuples(index=False):
        yield {"kind": "hop", "hop": hop, "k": k, "loss": loss, "chance": guess}
