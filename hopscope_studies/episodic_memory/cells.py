"""The models and simulations of `episodic_memory`, with sizes by scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, ClassVar

from hopscope.configuration.config import Config, Training
from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.work import Stopped, Work
from hopscope.models.transformer import Architecture
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.episodic_memory.context_maintenance import Memory, grid, response_curve

#: By scale, the task, the width and the training: one head a layer is the recipe of the study `composition`.
TASKS: dict[str, dict[str, Any]] = {
    "quick": {"length": 20, "d_vocab": 16, "shortest": 4, "longest": 6},
    "cpu": {},
    "paper": {"length": 64, "shortest": 10, "longest": 19, "skipped": 4, "asked": "all"},
}
WIDTHS = {"quick": 16, "cpu": 32, "paper": 64}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 16, "lr": 3e-3, "log_every": 10, "val_size": 32, "checkpoints": "10"},
    "cpu": {"steps": 2000, "batch": 64, "lr": 3e-3, "log_every": 50, "val_size": 256, "checkpoints": "50"},
    "paper": {"steps": 20_000, "batch": 50, "lr": 1e-3, "log_every": 100, "val_size": 512, "checkpoints": "200"},
}
ADAMW: dict[str, Any] = {"weight_decay": 5e-4, "beta2": 0.98}


def cell(n_heads: int, seed: int, scale: str) -> Config:
    """The run of one model: two layers of attention only, trained to continue a repeated segment."""
    positions = "rotary" if n_heads == 1 else "rotary(base=100)"
    shape = Architecture(
        n_layers=2, n_heads=n_heads, d_model=WIDTHS[scale], mlp=False, positions=positions, init="early_layers"
    )
    return Config(RepeatedSegment(**TASKS[scale]), shape, Training(**TRAININGS[scale], **ADAMW, seed=seed))


@dataclass(frozen=True)
class Simulations(Work):
    """The lag curves (CRP) of every recall model on the grid: `curves.json` has parameters with lags −8 to 8."""

    label: ClassVar[str] = "cmr"

    n_items: int = setting(100, "items studied (code: 100)")
    n_runs: int = setting(200, "recalls simulated (code: 1000 for each of 20 first items)")
    n_recalls: int = setting(40, "items recalled at most (code: 100)")
    every: int = setting(1, "step between the grid's models that are simulated")
    seed: int = setting(0, "of the simulation")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        found = []
        for memory, curve in self.curves():
            if should_stop():
                raise Stopped
            found.append({"memory": list(astuple(memory)), "curve": curve})
        write_json(folder / "curves.json", found)

    def curves(self) -> Iterator[tuple[Memory, list[float]]]:
        """Every recall model of the grid with its lag curve; yields while simulating."""
        for memory in list(grid())[:: self.every]:
            curve = response_curve(memory, self.n_items, self.n_runs, self.n_recalls, self.seed)
            yield memory, [round(float(p), 6) for p in curve]


SIMULATED = {
    "quick": Simulations(n_items=30, n_runs=20, n_recalls=10, every=20),
    "cpu": Simulations(),
    "paper": Simulations(n_runs=20_000, n_recalls=100),
}
