"""Which architecture learns how many hops, at which depth, in how many sequences? A bench (ours).

Candidates are the rules of attention in the catalogue, with a prior for the previous token or without, position codes,
an MLP or none, and optimizers. All have as many parameters as plain attention of width 128, as nearly as their width
allows, and a sequence's operations are counted. Beside the hops that a candidate learnt stands the number that its
exact depth allows (Musat, ICLR 2025, section 5, sharpened; docs/theory.md). The cells are in `cells.py`. At `cpu` they
are every rule with the prior on retrieval, deepest facts first, D = 2, 3, 5, with three layers and two seeds; without
the prior, plain attention and rules that join tokens by themselves. `long` adds other depths, orders and tasks, D = 1
to 8, position codes, an MLP and optimizers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pandas import DataFrame
from torch.utils.flop_counter import FlopCounterMode

from hopscope.configuration.config import Config
from hopscope.experiments.curves import crossing
from hopscope.experiments.tables import rows_of
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.base import Task
from hopscope_studies.architectures import cells
from hopscope_studies.architectures.candidates import weightless
from hopscope_studies.architectures.claims import claims as claims
from hopscope_studies.architectures.depths import least
from hopscope_studies.architectures.figure import figure as figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 490, "long": 4000, "paper": 80_000}
CELL_SECONDS = 60
PARTIAL = True


def runs(scale: str) -> Iterator[Config]:
    """A run for every cell."""
    return (cell.config(scale) for cell in cells.cells(scale))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop.

    Columns: run, version, seed, candidate, attention, positions, mlp, optimizer, task, D, layers, width,
    parameters, flops (of the forward pass of one sequence), steps (trained), batch, hop, k, loss (at the end), first
    (before training), guess (loss of whoever knows where answers may stand), below (loss under which it counts as
    learnt), learnt (step at which it first did; NaN: never), least (exact minimum depth of the hop; NaN: not known).
    """
    return rows_of(runs, by_hop)


def by_hop(run: Run) -> Iterator[dict[str, Any]]:
    """One run, a row per hop."""
    config, rows, shape = run.config, run.rows, run.config.model
    assert isinstance(shape, Architecture)
    candidate, below = cells.candidate_of(config), learnt_below(run.task)
    about: dict[str, Any] = {"candidate": candidate.name, "attention": candidate.attention}
    about |= {"positions": candidate.positions or "", "mlp": candidate.mlp, "optimizer": candidate.optimizer}
    about |= {"task": cells.task_of(config), "D": hops_of(run.task), "layers": shape.n_layers}
    about |= {"width": shape.d_model, "parameters": weightless(shape, run.task).n_parameters}
    about |= {"flops": flops(shape, run.task), "steps": rows[-1]["step"], "batch": config.training.batch}
    steps = [row["step"] for row in rows]
    for hop in rows[-1]["hop_losses"]:
        losses, k = [row["hop_losses"][hop] for row in rows], number(hop)
        ends = {"loss": losses[-1], "first": losses[0], "guess": guess(run.task), "below": below}
        yield about | {"hop": hop, "k": k, **ends, "learnt": crossing(steps, losses, below), "least": least(config, k)}


def number(hop: str) -> int:
    """The number in a hop's name: 3 for `x3` or `k=3`."""
    return int(hop.removeprefix("x").removeprefix("k="))


def hops_of(task: Task) -> int:
    """The greatest number of hops that is asked."""
    return max(number(hop) for hop in task.hop_names)


def guess(task: Task) -> float:
    """The loss of a model that knows where an answer may be, but not which it is: the lowest baseline above 0."""
    return min(loss for loss in task.baselines.values() if loss > 0)


def learnt_below(task: Task) -> float:
    """Half of chance, as everywhere, unless a guess is already as good: then half of a guess's loss."""
    return task.learnt_below if task.learnt_below < guess(task) else 0.5 * guess(task)


@cache
def flops(shape: Architecture, task: Task) -> int:
    """Operations of matrix products in the forward pass of one sequence; training takes three times as many."""
    batch = task.sample(1, 0)
    model = weightless(shape, task)
    with FlopCounterMode(display=False) as counted:
        model(batch.inputs.to("meta"), at=task.query_positions)
    return int(counted.get_total_flops())
