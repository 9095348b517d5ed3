"""A census of circuits: trained models, their circuits up to isomorphism, class frequencies, and what determines them.

The paper looks at a handful of models by hand (Musat, ICLR 2025, section 8). Here every model of a grid is trained, its
circuit found (`hopscope.circuits`), put into its class (`hopscope.theory.classes`) and named by its algorithm
(`hopscope.theory.naming`). A circuit counts if it passes the paper's own test, with all patterns set by hand (appendix
E). The grid varies depth, the order of facts, the learning rate and the initial weights. Controls are untrained models,
searched in the same way, and labels shuffled among comparable models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.circuit_tables import UNSOLVED, circuit_of, named, passes_by_hand
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory.classes import written
from hopscope_studies.census.cells import cells
from hopscope_studies.census.claims import claims as claims
from hopscope_studies.census.figure import figure as figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "long": 4000, "paper": 30_000}
CELL_SECONDS = 120


def runs(scale: str) -> Iterator[Config]:
    """Every cell of the grid with every seed, and untrained models."""
    return cells(scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per model.

    Columns: run, version, seed, prior, D, layers, order, rate, weights (the initial ones), trained (steps), mse (on
    fresh sequences); verdict (`unsolved` where no circuit was looked for), model, by_hand, live (losses); name, names,
    height, reads, ahead (of the algorithm); heads, fewest (in use, and how many would do); wiring (the class: its
    paths as text; empty where the circuit does not pass by hand), paths (how many), others (further circuits listed).
    """
    return rows_of(runs, lambda run: [row(run, scale)])


def row(run: Run, scale: str) -> dict[str, Any]:
    """The row of one model. A trained model is searched only if it has solved its task, an untrained one always."""
    task, training = run.task, run.config.training
    assert isinstance(task, Retrieval) and run.report is not None
    about = {
        "D": task.n_hops,
        "layers": run.config.model.n_layers,
        "order": task.order,
        "rate": training.lr,
        "weights": run.config.model.as_dict()["init"],
        "trained": run.steps[-1],
        "mse": run.report["loss"],
    }
    if training.steps and run.report["loss"] >= task.model_threshold:
        return about | UNSOLVED | {"wiring": "", "paths": 0, "others": 0}
    circuit = circuit_of(run, scale)
    paths = [found.path for found in circuit.paths] if passes_by_hand(circuit) else []
    found = {"wiring": written(paths), "paths": len(paths), "others": max(0, len(circuit.alternatives) - 1)}
    return about | named(circuit, task, by_hand=True) | found
