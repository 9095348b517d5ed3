"""The sequences in a run's bundle, and their entry in the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator
from hopscope.explorer.bundle import INSTANCES, SIZES, Block
from hopscope.explorer.typed import typing_of
from hopscope.problem.paths import Path
from hopscope.problem.relations import Relations
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch, VectorTask
from hopscope.tasks.base_regression import RegressionTask

SEED = 0  # of the batch, `task.sample(n, SEED)`


@dataclass(frozen=True)
class Sequences:
    """The sequences of a run's bundle, and the paths that occur in them.

    Attributes:
        batch: the sequences, as many as the largest of `SIZES`.
        paths: every path of the model, in the order of `Evaluator.strengths`.
    """

    batch: Batch
    paths: tuple[Path, ...]

    @classmethod
    def of(cls, run: Run) -> Sequences:
        """The sequences of a run."""
        batch = run.task.sample(SIZES[-1], SEED)
        shape = run.config.model
        if not shape.n_layers * shape.n_heads:  # the model has no attention
            return cls(batch, ())
        middle = batch.rows(slice(0, SIZES[1]))
        return cls(batch, tuple(Evaluator(run.config.model.build(run.task), middle).ground.paths))


def batch_entry(seen: Sequences, place: str) -> tuple[dict[str, Any], dict[str, Block]]:
    """The entry of a batch, and its blocks, whose names begin with `place`."""
    batch, roles = seen.batch, seen.batch.searched
    chains = roles.chain.numpy()
    blocks = {
        "inputs": Block.of(batch.inputs.numpy()),
        "targets": Block.of(batch.targets.numpy()),
        "chain": Block.of(chains.astype(numpy.int8 if chains.max(initial=0) < 127 else numpy.int32)),
    }
    if not isinstance(batch.task, RegressionTask):  # its answers are numbers, without candidates
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
    """Which keys stand in each relation to each query: for every sequence and relation, one bit per query and key."""
    found = torch.stack(list(relations.matches.values()), 1).flatten(2).numpy()
    return numpy.packbits(found, axis=-1, bitorder="little")


def asked(batch: Batch) -> Tensor:
    """The right answers as indices of candidates, or as tokens."""
    return batch.task.asked(batch.draw) if isinstance(batch.task, VectorTask) else batch.targets


def instance(batch: Batch, row: int) -> dict[str, Any]:
    """One sequence with names for its symbols, facts and answers."""
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
    """The name of each candidate, or each token, of a sequence; `·` if it is no symbol of the sequence."""
    task, values = batch.task, batch.task.values(batch.draw, row)
    named = {tuple(value.reshape(-1).tolist()): name.split("@")[0] for name, value in values.items()}
    if isinstance(task, VectorTask):
        return [named.get(tuple(candidate.tolist()), "·") for candidate in task.candidates(batch.draw)[row]]
    return [named.get((token,), "·") for token in range(getattr(task, "n_logits", 0))]
