"""SwitchHead: can experts for values and outputs replace attention maps, and what determines which are chosen?

After Csordás et al. (2023, arXiv:2312.07987). Two tasks, attention only: the last tokens, for which a dense layer needs
a map for each place, and induction. Dense models match those with experts in weights, in maps, or in both. The tasks
and the hand-set weights are ours; the paper trains language models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.experiments.circuit_tables import circuit_numbers
from hopscope.experiments.curves import crossing
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.measures import observe
from hopscope.measures.induction_score import induction_score
from hopscope.models.transformer import Transformer
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope_studies.switch_head.cells import cells
from hopscope_studies.switch_head.claims import claims as claims
from hopscope_studies.switch_head.figure import figure as figure
from hopscope_studies.switch_head.scores import SEQUENCES, held, knows, specialisation
from hopscope_studies.switch_head.work import MadeByHand

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 480, "paper": 2_000_000}
CIRCUITS = {"quick": 0, "cpu": 3, "paper": 3}  # number of seeds in which circuits are searched for
SEARCHED_IN = (("places", "wide experts"), ("induction", "experts"))
BY_HAND = {"quick": MadeByHand(3, 32), "cpu": MadeByHand(), "paper": MadeByHand(16)}


def runs(scale: str) -> Iterator[Config | Work]:
    """The hand-set weights, and all models."""
    yield BY_HAND[scale]
    yield from (config for _, config in cells(scale))


def table(runs: list[Run | Finished], scale: str) -> DataFrame:
    """Rows of five kinds, each with run, version, seed, kind, part, model.

    `end`: steps, maps and weights of a layer (biases apart), accuracy, loss and guess on fresh sequences,
    start_accuracy, learnt (the step at which the loss fell below half of a guess's; NaN: never), seconds; of models
    with experts held_accuracy (gates at their means; held_values_…, held_outputs_…: of one kind alone), and what the
    widest gate tells of place and token, in shares of ln E, with floors, at the end and (start_…) before training; on
    induction the greatest induction score of a head. `hop`: hop, hop_loss at the end. `curve`: step, hop_loss, of all
    hops. `circuit`: paths and losses. `by hand`: places, accuracy, held_accuracy.
    """
    named = {config.identity: name for name, config in cells(scale)}
    return rows_of(runs, lambda run: measured(run, *named[run.config.identity], scale))


def measured(run: Run, part: str, model: str, scale: str) -> Iterator[dict[str, Any]]:
    """Rows of one model; for the first seeds of some models also of its circuit."""
    about = {"part": part, "model": model}
    yield from (about | row for row in numbers(run, scale))
    if run.config.training.seed < CIRCUITS[scale] and (part, model) in SEARCHED_IN:
        yield about | {"kind": "circuit", **circuit_numbers(run, scale)}


def numbers(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """The rows of kinds `end`, `hop` and `curve`."""
    batch = run.task.sample(SEQUENCES[scale], generator(0, "asked"))
    end, first = run.at(run.steps[-1]), run.at(0)
    assert isinstance(end, Transformer) and isinstance(first, Transformer)
    found: dict[str, Any] = {"steps": run.steps[-1], **layer_counts(end), **knows(end, batch), "guess": run.task.chance}
    found |= {"start_accuracy": knows(first, batch)["accuracy"], "learnt": learnt(run)}
    found |= {"seconds": (run.report or {}).get("seconds")}
    if end.architecture.attention != "softmax":
        for name, parts in (("held", "VO"), ("held_values", "V"), ("held_outputs", "O")):
            found[f"{name}_accuracy"] = knows(held(end, batch, parts), batch)["accuracy"]
        found |= specialisation(end, batch)
        found |= {f"start_{name}": value for name, value in specialisation(first, batch).items()}
    yield {"kind": "end", **found, **induction(end, batch)}
    last = run.rows[-1]
    for hop, loss in last["hop_losses"].items():
        yield {"kind": "hop", "hop": hop, "hop_loss": loss, "guess": run.task.chance}
    for row in run.rows:
        yield {"kind": "curve", "step": row["step"], "hop_loss": row["val_loss"]}


def layer_counts(model: Transformer) -> dict[str, int]:
    """The maps of a layer, and its attention's weights without biases and position codes."""
    named = model.blocks[0].get_submodule("attn").named_parameters()
    weights = sum(p.numel() for name, p in named if name.rpartition(".")[2].startswith("W_"))
    return {"maps": model.architecture.n_heads, "weights": weights}


def learnt(run: Run) -> float:
    """The step at which the mean loss first fell below half of a guess's, interpolated; NaN if never."""
    return crossing([row["step"] for row in run.rows], [row["val_loss"] for row in run.rows], run.task.chance / 2)


def induction(model: Transformer, batch: Batch) -> dict[str, Any]:
    """The head with the greatest induction score; nothing for tasks without look-up."""
    if "key[1]" not in batch.roles.names:
        return {}
    scores = induction_score(observe(model, batch))
    head = max(scores, key=lambda name: scores[name])
    return {"induction_head": head, "induction_score": scores[head]}
