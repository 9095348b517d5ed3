"""Trained models that come with the tests, to find circuits in: one file each, in float16, with its configuration.

    python -m bench.trained runs/mine tests/data/trained/mine.safetensors

Halved weights are models of their own: searched, and checked, as they stand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path as Files

import safetensors.torch
from safetensors import safe_open

from hopscope.configuration.config import Config
from hopscope.models.base import Model
from hopscope.runs.run import load
from hopscope.tasks.base import Task

TRAINED = Files(__file__).parents[1] / "tests" / "data" / "trained"


def pack(source: Files, target: Files) -> None:
    """The newest weights of a run."""
    run = load(source)
    config = json.loads((source / "config.json").read_text())
    weights = {name: value.half() for name, value in run.model.state_dict().items()}
    target.parent.mkdir(parents=True, exist_ok=True)
    about = {part: config[part] for part in ("task", "model", "training")}
    safetensors.torch.save_file(weights, target, {"config": json.dumps(about)})


def trained(file: Files) -> tuple[Model, Task]:
    """A model as it was packed, and its task."""
    with safe_open(file, "pt") as stored:
        config = Config.from_dict(json.loads(stored.metadata()["config"]))
        weights = {name: stored.get_tensor(name).float() for name in stored.keys()}  # noqa: SIM118
    model: Model = config.model.build(config.task)  # type: ignore[attr-defined]
    model.load_state_dict(weights)
    return model.eval(), config.task


def main(arguments: Sequence[str]) -> None:
    pack(Files(arguments[0]), Files(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
