"""Runs whose model was not trained here, but built by hand or imported: the same folder, readable by the same tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hopscope.configuration.config import Config
from hopscope.core import environment
from hopscope.core.settings import BadInput
from hopscope.core.storage import write_json
from hopscope.models.base import Model
from hopscope.runs.evaluation import REPORT_SIZE, evaluate
from hopscope.runs.run import Run


def write_made(config: Config, folder: Path | str, model: Model, beside: Mapping[str, Any] | None = None) -> Run:
    """Write a model as a finished run of no steps, and return it. A folder that holds this very run is left as it is.

    Args:
        config: with `origin`, and no training steps.
        folder: where; new or empty, or holding the same run.
        model: its weights.
        beside: JSON files to write into the folder, by name (`truth.json`).

    Raises:
        BadInput: the folder holds something else, or the model's loss is no finite number.
        CannotSave: the disk is full or may not be written.
    """
    if config.origin is None or config.training.steps:
        raise ValueError("a run that was made has an origin, and no training steps")
    measured = evaluate(model, config.task, REPORT_SIZE, config.training.seed_eval, "report")
    if not measured["loss"] < float("inf"):
        raise BadInput(f"the model's loss is {measured['loss']}, no finite number; are its weights whole?")
    run = Run.create(folder, config)
    if run.done:
        return run
    with run.writing():
        run.begin_session(environment.describe(model.device, False), 0)
        run.rewind(0, None)
        validated = evaluate(model, config.task, config.training.val_size, config.training.seed_eval, "validation")
        run.log({"step": 0, "train_loss": None, "val_loss": validated["loss"], "hop_losses": validated["hop_losses"]})
        if not run.steps:
            run.save(0, model.state_dict(), {}, 0.0)
        for name, value in (beside or {}).items():
            write_json(run.path / name, value)
        run.finish({"step": 0, **measured, "n": REPORT_SIZE, "identity": config.identity})
    return Run(folder)
