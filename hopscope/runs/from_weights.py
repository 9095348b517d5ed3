"""Runs of models that were built by hand or imported, in the same folder format as trained ones."""

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
    """Write a model as a finished run of 0 steps, and return it. A folder that already holds this run is left as it is.

    Args:
        config: with `origin`, and with 0 training steps.
        folder: the run's folder: new, empty, or holding the same run.
        model: the model with its weights.
        beside: further JSON files for the folder, by name (`truth.json`).

    Raises:
        BadInput: the folder holds something else, or the model's loss is not finite.
        CannotSave: the disk is full or cannot be written to.
        ValueError: the configuration has no origin, or has training steps.
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
