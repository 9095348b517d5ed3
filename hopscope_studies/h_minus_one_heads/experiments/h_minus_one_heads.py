"""A mixture of h − 1 heads: does training gates and experts in turn help, and do experts specialise?

After Peng et al. (2020, arXiv:2005.06537), who train on translation. Here half of the sequences must be continued from
context and half from memory, with a finite training set. The rivals are plain attention, dropout of one head, and the
same mixture trained jointly. Models without gates have the gates' parameters in their MLPs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.experiments.circuit_tables import circuit_numbers
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.models.transformer import Transformer
from hopscope.runs.run import Run
from hopscope_studies.h_minus_one_heads.cells import GATED, cells
from hopscope_studies.h_minus_one_heads.claims import claims as claims
from hopscope_studies.h_minus_one_heads.figure import figure as figure
from hopscope_studies.h_minus_one_heads.scores import SEQUENCES, dropping, gate_means, gate_numbers, losses
from hopscope_studies.h_minus_one_heads.work import MadeByHand

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 420, "paper": 400_000}
CIRCUITS = {"quick": 0, "cpu": 3, "paper": 3}  # seeds of models trained in these ways whose circuits are searched for
SEARCHED_IN = ("plain", "in turn")
BY_HAND = {"quick": MadeByHand(32), "cpu": MadeByHand(), "paper": MadeByHand()}


def runs(scale: str) -> Iterator[Config | Work]:
    """The measurement of hand-set gates, and all runs."""
    yield BY_HAND[scale]
    yield from (config for _, config in cells(scale))


def table(runs: list[Run | Finished], scale: str) -> DataFrame:
    """Rows of five kinds, each with run, version, seed, kind, trained.

    `end`: parameters, loss (nats, on fresh sequences), loss of either kind, loss before training, guess and best; of
    mixtures with learnt gates entropy, auc and apart (`scores.gate_numbers`), the same before training (start_…), and
    the cost of dropping heads. `gate`: layer, head, kind of sequences, mean share. `curve`: step, loss, train_loss.
    `circuit`: paths and losses. `by hand`: the measures of hand-set and of even gates.
    """
    named = {config.identity: trained for trained, config in cells(scale)}
    return rows_of(runs, lambda run: measured(run, named[run.config.identity], scale))


def measured(run: Run, trained: str, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on one model; for the first seeds of some also on its circuit."""
    yield from ({"trained": trained, **row} for row in numbers(run, scale, trained in GATED))
    if run.config.training.seed < CIRCUITS[scale] and trained in SEARCHED_IN:
        yield {"trained": trained, "kind": "circuit", **circuit_numbers(run, scale)}


def numbers(run: Run, scale: str, gated: bool) -> Iterator[dict[str, Any]]:
    """Rows on a model's final numbers, its gates, and its course."""
    batch = run.task.sample(SEQUENCES[scale], generator(0, "asked"))
    end, first = run.at(run.steps[-1]), run.at(0)
    assert isinstance(end, Transformer) and isinstance(first, Transformer)
    each, by_heart = losses(end, batch), batch.draw["by_heart"][:, 0]
    found: dict[str, Any] = {"parameters": end.n_parameters, "loss": float(each.mean())}
    found |= {"in_context": float(each[~by_heart].mean()), "by_heart": float(each[by_heart].mean())}
    found |= {"start_loss": float(losses(first, batch).mean())}
    found |= {"guess": run.task.chance, "best": run.task.bayes_loss}
    if gated:
        found |= gate_numbers(end, batch) | dropping(end, batch)
        found |= {f"start_{name}": value for name, value in gate_numbers(first, batch).items()}
        yield from ({"kind": "gate", **row} for row in gate_means(end, batch))
    yield {"kind": "end", **found}
    for row in run.rows:
        yield {"kind": "curve", "step": row["step"], "loss": row["val_loss"], "train_loss": row["train_loss"]}
