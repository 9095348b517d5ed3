"""What a bundle says of a run before any of its models is looked at: task, model, losses, and a batch of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator
from hopscope.core.settings import Variant
from hopscope.emergence.onset import Onset, onset
from hopscope.explorer.bundle import INSTANCES, SIZES, Block
from hopscope.explorer.native import fallback
from hopscope.explorer.scoring import scoring
from hopscope.explorer.typed import typing_of
from hopscope.models.base import Shape
from hopscope.models.transformer import Architecture
from hopscope.problem.paths import Path
from hopscope.problem.relations import Relations
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch, Task, VectorTask
from hopscope.tasks.base_regression import RegressionTask

SEED = 0  # of the batch, drawn as `task.sample(n, seed)` draws it


@dataclass(frozen=True)
class Sequences:
    """The sequences of a run's bundle, and the paths that occur in them.

    Attributes:
        batch: as many as the greatest of `SIZES`.
        paths: all that the model has, in the order of `Evaluator.strengths`.
    """

    batch: Batch
    paths: tuple[Path, ...]

    @classmethod
    def of(cls, run: Run) -> Sequences:
        """Those of a run."""
        batch = run.task.sample(SIZES[-1], SEED)
        shape = run.config.model
        if not has_heads(shape):
            return cls(batch, ())
        middle = batch.rows(slice(0, SIZES[1]))
        return cls(batch, tuple(Evaluator(run.config.model.build(run.task), middle).ground.paths))


def has_heads(shape: Shape) -> bool:
    """Whether a model has attention to look at."""
    return bool(shape.n_layers * shape.n_heads)


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
    """What the page must know of a task."""
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
        "scoring": rule.as_dict() if (rule := scoring(task)) else None,
    }


def model_entry(run: Run) -> dict[str, Any]:
    """What the page must know of a model, and whether its engine computes it."""
    shape = run.config.model
    with torch.device("meta"):
        model = shape.build(run.task).unrolled()
    tensors = [{"name": name, "shape": list(tensor.shape)} for name, tensor in model.state_dict().items()]
    attention, positions = variants(shape, run.task)
    why_not = fallback(model, run.task)
    return {
        "name": shape.name(),
        "settings": shape.resolved(run.task).as_dict(),
        "n_layers": shape.n_layers,
        "n_heads": shape.n_heads,
        "d_model": shape.d_model,
        "d_head": shape.head_width if isinstance(shape, Architecture) else 0,
        "d_mlp": shape.mlp_width if isinstance(shape, Architecture) else 0,
        "attention": as_entry(attention, shape),
        "positions": as_entry(positions, shape),
        "causal": shape.causal,
        "layer_norm": bool(getattr(shape, "layer_norm", False)),
        "mlp": bool(shape.mlp),
        "parameters": model.n_parameters,
        "native": why_not is None,
        "fallback": why_not,
        "tensors": tensors,
    }


def variants(shape: Shape, task: Task) -> tuple[Variant | None, Variant | None]:
    """A transformer's attention and positions; of another model there are none."""
    if not isinstance(shape, Architecture):
        return None, None
    return shape.rule, shape.code(task.inputs_carry_position)


def as_entry(variant: Variant | None, shape: Shape) -> dict[str, Any]:
    """A variant by name, with its settings."""
    return (
        {"name": variant.name(), "settings": variant.as_dict()} if variant else {"name": shape.name(), "settings": {}}
    )


# Losses ----------------------------------------------------------------------------------------------------------


def metrics(rows: list[dict[str, Any]], task: Task) -> dict[str, Any]:
    """The logged losses as lists."""
    hops = {hop: [row["hop_losses"].get(hop) for row in rows] for hop in task.hop_names}
    simple = {name: [row.get(name) for row in rows] for name in ("step", "train_loss", "val_loss")}
    return {**simple, "hop_losses": hops}


def learnt(rows: list[dict[str, Any]], task: Task) -> dict[str, Any]:
    """When each hop's validation loss went below the task's threshold of learning."""
    steps = [row["step"] for row in rows]
    curves = {hop: numpy.array([-row["hop_losses"][hop] for row in rows], float) for hop in task.hop_names}
    return {hop: passed(steps, curve, -task.learnt_below) for hop, curve in curves.items() if len(steps) > 1}


def passed(steps: list[int], curve: Any, threshold: float) -> dict[str, Any]:
    """An onset, as the manifest has it."""
    found: Onset = onset(steps, curve, threshold)
    return {name: getattr(found, name) for name in ("status", "step", "after", "by", "falls")}


# The batch -------------------------------------------------------------------------------------------------------


def batch_entry(seen: Sequences, place: str) -> tuple[dict[str, Any], dict[str, Block]]:
    """A batch in the manifest, with its blocks; their names begin with `place`."""
    batch, roles = seen.batch, seen.batch.searched
    chains = roles.chain.numpy()
    blocks = {
        "inputs": Block.of(batch.inputs.numpy()),
        "targets": Block.of(batch.targets.numpy()),
        "chain": Block.of(chains.astype(numpy.int8 if chains.max(initial=0) < 127 else numpy.int32)),
    }
    if not isinstance(batch.task, RegressionTask):  # whose answers name nothing
        blocks["asked"] = Block.of(asked(batch).numpy())
    if isinstance(roles, Relations):
        blocks["matches"] = Block.of(bits(roles))
    if isinstance(batch.task, VectorTask):
        blocks["candidates"] = Block.of(batch.task.candidates(batch.draw).numpy())
    named = {name: f"{place}/batch/{name}" for name in blocks}
    entry = {
        "seed": SEED,
        "n": len(batch),
        "sizes": list(SIZES),
        "candidates": None,
        "asked": None,
        "matches": None,
        **named,
        "roles": list(roles.names),
        "attended": list(roles.attended),
        "instances": [instance(batch, row) for row in range(min(INSTANCES, len(batch)))],
        "typing": typing_of(batch),
    }
    return entry, {named[name]: block for name, block in blocks.items()}


def bits(relations: Relations) -> NDArray[numpy.uint8]:
    """Which positions stand in which relation to which: of every sequence and relation a bit per query and key."""
    found = torch.stack(list(relations.matches.values()), 1).flatten(2).numpy()
    return numpy.packbits(found, axis=-1, bitorder="little")


def asked(batch: Batch) -> Tensor:
    """The right answers as numbers of candidates or tokens."""
    return batch.task.asked(batch.draw) if isinstance(batch.task, VectorTask) else batch.targets


def instance(batch: Batch, row: int) -> dict[str, Any]:
    """One sequence for people."""
    from hopscope.circuits.words import symbols_at

    problem = batch.problem(row).as_dict()
    return {
        "symbols": symbols_at(batch, row),
        "roles": batch.roles.labels(row),
        "facts": problem["facts"],
        "queries": problem["queries"],
        "answers": batch.task.answers(batch.draw, row),
        "candidates": candidate_names(batch, row),
    }


def candidate_names(batch: Batch, row: int) -> list[str]:
    """What each candidate, or each token, of a sequence is called; `·` is one that no symbol is."""
    task, values = batch.task, batch.task.values(batch.draw, row)
    named = {tuple(value.reshape(-1).tolist()): name.split("@")[0] for name, value in values.items()}
    if isinstance(task, VectorTask):
        return [named.get(tuple(candidate.tolist()), "·") for candidate in task.candidates(batch.draw)[row]]
    return [named.get((token,), "·") for token in range(getattr(task, "n_logits", 0))]
