"""Measure a checkpoint: the strength of every path, a few patterns, and the losses that the page must reproduce.

Results are kept in the user's cache under a hash of the weights. So a run that is explored again is shown at once, and
nothing is written to its folder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged, cache_folder, to_json
from hopscope.core.strangers import json_of
from hopscope.explorer.bundle import INSTANCES, SIZES, Block
from hopscope.explorer.sequences import SEED, Sequences
from hopscope.models.base import Model
from hopscope.runs.kept import kept, weights
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch

#: Version of the measurements, raised whenever their results may change.
VERSION = 1


@dataclass(frozen=True)
class Measured:
    """The data of a checkpoint besides its weights.

    Attributes:
        strengths: mean attention on every path, 0–1, as a block.
        patterns: of the first sequences, as a block of bytes; None if the model has no heads.
        reference: `loss` and `hop_losses`, by number of sequences.
        accuracy: share of right answers, 0–1, by hop.
    """

    strengths: Block
    patterns: Block | None
    reference: dict[str, Any]
    accuracy: dict[str, float]


def place() -> Path:
    """The explorer's folder in the cache."""
    return cache_folder() / "explorer"


def measure(run: Run, step: int, seen: Sequences, dtype: str) -> Measured:
    """A checkpoint's measurements, made now or from the cache.

    Args:
        run: the run.
        step: of the checkpoint.
        seen: the sequences and the paths.
        dtype: of the weights in the bundle, float32 or float16; reference losses are those of the rounded weights.

    Raises:
        BadInput: the model's losses are not finite.
        Damaged: the checkpoint differs from its manifest, even if its measurements are in the cache.
    """
    run.stored(step, "model")
    about = {"weights": weights(run, [step]), "dtype": dtype, "sizes": list(SIZES), "seed": SEED, "version": VERSION}
    return kept(
        run, "checkpoint", about, lambda: measured(run.at(step), seen, dtype), files_of, measured_in, place=place()
    )


@torch.no_grad()
def measured(model: Model, seen: Sequences, dtype: str) -> Measured:
    """Measurements of a model. Its weights are rounded in place for the reference losses."""
    batch = seen.batch
    strengths, patterns = numpy.zeros(0, numpy.float32), None
    if seen.paths:
        evaluator = Evaluator(model, batch.rows(slice(0, SIZES[1])))
        strengths = numpy.array([evaluator.strengths[path] for path in seen.paths], numpy.float32)
        first = torch.stack([layer[:INSTANCES] for layer in evaluator.patterns])
        patterns = Block.of_bytes(first.numpy())
    outputs = rounded(model, dtype)(batch.inputs, at=batch.task.query_positions)
    reference = {str(n): losses(batch.rows(slice(0, n)), outputs[:n]) for n in SIZES}
    return Measured(Block.of(strengths), patterns, reference, accuracy(batch.rows(slice(0, SIZES[1])), outputs))


def rounded(model: Model, dtype: str) -> Model:
    """A model with its weights rounded to a dtype in place; it still computes in float32."""
    if dtype == "float16":
        for tensor in model.state_dict().values():
            tensor.copy_(tensor.half().float())
    return model


def losses(batch: Batch, outputs: Tensor) -> dict[str, Any]:
    """Loss and partial losses, 0 for a hop without targets. Raises BadInput if the loss is not finite."""
    loss = float(batch.task.loss(outputs, batch.targets))
    if not math.isfinite(loss):
        raise BadInput("the losses of this checkpoint are not finite: training has diverged")
    hops = batch.task.by_hop(batch.task.hop_losses(outputs, batch.targets))
    return {"loss": loss, "hop_losses": dict.fromkeys(batch.task.hop_names, 0.0) | hops}


def accuracy(batch: Batch, outputs: Tensor) -> dict[str, float]:
    """Share of right answers, 0–1, by hop."""
    right = batch.task.correct(outputs[: len(batch)], batch).float().mean(0).nan_to_num().tolist()
    return dict(zip(batch.task.hop_names, right, strict=False))


def weights_block(run: Run, step: int, dtype: str) -> Block:
    """The tensors of a checkpoint one after the other, in the order of the model's. Raises Damaged."""
    tensors = run.at(step).unrolled().state_dict().values()
    flat = torch.cat([tensor.flatten().float() for tensor in tensors])
    return Block.of((flat.half() if dtype == "float16" else flat).numpy())


# On disk ---------------------------------------------------------------------------------------------------------


def files_of(found: Measured) -> dict[str, bytes]:
    """The files in the cache."""
    blocks = {name: block for name in ("strengths", "patterns") if (block := getattr(found, name)) is not None}
    about = {"reference": found.reference, "accuracy": found.accuracy}
    entries = {name: block.entry() for name, block in blocks.items()}
    return {name: block.data for name, block in blocks.items()} | {"about.json": to_json({**about, "blocks": entries})}


def measured_in(files: Mapping[str, bytes]) -> Measured:
    """The inverse of `files_of`. Raises Damaged."""
    try:
        about = json_of(files["about.json"])
        blocks = {name: Block.from_entry(files[name], entry) for name, entry in about["blocks"].items()}
        return Measured(blocks["strengths"], blocks.get("patterns"), about["reference"], about["accuracy"])
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged("the cached measurements of a checkpoint are damaged") from error
