"""The part of a run's entry in a manifest that needs no checkpoint: task, model, configuration and logged losses."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy
import torch

from hopscope.core.settings import Variant
from hopscope.emergence.onset import Onset, onset
from hopscope.explorer.native import fallback
from hopscope.explorer.scoring import scoring
from hopscope.models.base import Shape
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.base import Task, VectorTask


def describe(run: Run, name: str) -> dict[str, Any]:
    """A run's entry in the manifest, without its batch and its checkpoints. Raises Damaged."""
    parts = run.config.as_dict()
    return {
        "identity": run.config.identity,
        "name": name,
        "done": run.done,
        "error": None,
        "warnings": [],
        "task": task_entry(run.task, run.config.model),
        "model": model_entry(run),
        "config": {"seed": run.config.training.seed, "training": parts["training"]},
        "metrics": metrics(run.rows, run.task),
        "onsets": {},
        "learnt": learnt(run.rows, run.task),
        "circuit": None,
        "tour": None,
        "decoders": None,
        "emergence": None,
    }


def task_entry(task: Task, shape: Shape) -> dict[str, Any]:
    """The manifest's entry of a task."""
    asking = range(task.n_positions)[task.query_positions]
    return {
        "name": task.name(),
        "settings": task.as_dict(),
        "kind": "vector" if isinstance(task, VectorTask) else "token",
        "n_positions": task.n_positions,
        "d_input": task.d_input,
        "d_vocab": task.d_vocab,
        "d_symbol": task.d_symbol if isinstance(task, VectorTask) else None,
        "d_output": task.d_output,
        "hop_names": list(task.hop_names),
        "query_positions": [asking.start, asking.stop],
        "floor": task.floor,
        "chance": task.chance,
        "learnt_below": task.learnt_below,
        "solved_below": task.solved_below,
        "baselines": dict(task.baselines),
        "ideal_over": task.ideal_over,
        "null": shape.null_pattern(task),
        "carries_position": task.inputs_carry_position,
        "scoring": asdict(rule) if (rule := scoring(task)) else None,
    }


def model_entry(run: Run) -> dict[str, Any]:
    """The manifest's entry of a model, with whether the page's engine can run it."""
    shape = run.config.model
    with torch.device("meta"):
        model = shape.build(run.task).unrolled()
    tensors = [{"name": name, "shape": list(tensor.shape)} for name, tensor in model.state_dict().items()]
    why_not = fallback(model, run.task)
    return {
        "name": shape.name(),
        "settings": shape.resolved(run.task).as_dict(),
        "n_layers": shape.n_layers,
        "n_heads": shape.n_heads,
        "d_model": shape.d_model,
        "d_head": shape.head_width if isinstance(shape, Architecture) else 0,
        "d_mlp": shape.mlp_width if isinstance(shape, Architecture) else 0,
        **variants(shape, run.task),
        "causal": shape.causal,
        "layer_norm": bool(getattr(shape, "layer_norm", False)),
        "mlp": bool(shape.mlp),
        "parameters": model.n_parameters,
        "native": why_not is None,
        "fallback": why_not,
        "tensors": tensors,
    }


def variants(shape: Shape, task: Task) -> dict[str, dict[str, Any]]:
    """A transformer's attention and position code, by name with settings; of other models, the model's own name."""
    if not isinstance(shape, Architecture):
        return {part: {"name": shape.name(), "settings": {}} for part in ("attention", "positions")}
    chosen: dict[str, Variant] = {"attention": shape.rule, "positions": shape.code(task.inputs_carry_position)}
    return {part: {"name": variant.name(), "settings": variant.as_dict()} for part, variant in chosen.items()}


# Losses ----------------------------------------------------------------------------------------------------------


def metrics(rows: list[dict[str, Any]], task: Task) -> dict[str, Any]:
    """The logged losses as lists over steps."""
    simple = {name: [row.get(name) for row in rows] for name in ("step", "train_loss", "val_loss")}
    return {**simple, "hop_losses": {hop: [row["hop_losses"].get(hop) for row in rows] for hop in task.hop_names}}


def learnt(rows: list[dict[str, Any]], task: Task) -> dict[str, Any]:
    """The onset of each hop: when its validation loss fell below the task's `learnt_below`."""
    steps = [row["step"] for row in rows]
    asked = [hop for hop in task.hop_names if all(hop in row["hop_losses"] for row in rows)]
    curves = {hop: numpy.array([-row["hop_losses"][hop] for row in rows], float) for hop in asked}
    return {hop: passed(steps, curve, -task.learnt_below) for hop, curve in curves.items() if len(steps) > 1}


def passed(steps: list[int], curve: Any, threshold: float) -> dict[str, Any]:
    """An onset in the format of the manifest."""
    found: Onset = onset(steps, curve, threshold)
    return {name: getattr(found, name) for name in ("status", "step", "after", "by", "falls")}
