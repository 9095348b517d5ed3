"""Three gradient steps from zero on the population loss, one for each matrix of the basic model (our reading)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.work import Stopped, Work
from hopscope.tasks.base import Batch
from hopscope.tasks.induction import Induction
from hopscope_studies.birth.measures.memory_recall import recalls
from hopscope_studies.birth.models.basic_transformer import TRAINED, BasicArchitecture, BasicTransformer

SIZES = [0.01 * 4.0**k for k in range(15)]  # of a step, in units of the gradient's norm


@dataclass(frozen=True)
class ThreeSteps(Work):
    """One gradient step on each matrix in turn, from zero, on the population loss of `induction`.

    In the simplified setup embeddings, values and the output of layer 1 are orthonormal. Every sequence asks once, at
    its end. The expectation over sequences is a mean over `sample` of them. `blocks` says whether each matrix moves
    only in its own memory's block (positions to positions; layer 1's output to tokens; values to outputs) or along its
    whole gradient. The size of each step is the best of a grid, by the loss on other sequences.
    """

    label, file = "three-steps", "rows.json"

    length: int = setting(12, "tokens before the query")
    d_vocab: int = setting(32, "different tokens")
    sample: int = setting(16384, "sequences behind each gradient")
    blocks: bool = setting(True, "whether a matrix moves only in its memory's block")
    seed: int = setting(0, "of embeddings and sequences")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        task = Induction(length=self.length, d_vocab=self.d_vocab)
        model = orthonormal(task, generator(self.seed, "init"))
        choosing, judging = (task.sample(2048, generator(self.seed, purpose)) for purpose in ("choose", "judge"))
        rows = [self.row(model, judging, 0)]
        for number, name in enumerate(TRAINED, 1):
            if should_stop():
                raise Stopped
            self.move(model, name, task, choosing)
            rows.append(self.row(model, judging, number))
        write_json(folder / self.file, rows)

    def about(self) -> dict[str, Any]:
        return {"seed": self.seed, "model": "three steps" if self.blocks else "three whole steps"}

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        return long(report)

    def move(self, model: BasicTransformer, name: str, task: Induction, choosing: Batch) -> None:
        """One gradient step on one matrix, with the step size of the grid that gives the lowest loss."""
        weight, piece = dict(model.named_parameters())[name], min(256, self.sample)
        gradient = torch.zeros_like(weight)
        for index in range(self.sample // piece):
            batch = task.sample(piece, generator(self.seed, name, index))
            gradient += torch.autograd.grad(loss_of(model, batch), weight)[0]
        if self.blocks:
            read, written = memory_blocks(model)[name]
            gradient = read.T @ read @ gradient @ written.T @ written
        with torch.no_grad():
            before, unit = weight.clone(), gradient / gradient.norm()
            losses = []
            for size in SIZES:
                weight.copy_(before - size * unit)
                losses.append(float(loss_of(model, choosing)))
            weight.copy_(before - SIZES[losses.index(min(losses))] * unit)

    @torch.no_grad()
    def row(self, model: BasicTransformer, judging: Batch, step: int) -> dict[str, Any]:
        outputs = model(judging.inputs, at=judging.task.query_positions)
        return {
            "step": step,
            "loss": float(judging.task.loss(outputs, judging.targets)),
            "accuracy": float(judging.task.correct(outputs, judging).float().mean()),
            **recalls(model, range(self.d_vocab)),
        }


def long(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Turn rows with several numbers into rows with one number each."""
    for row in rows:
        yield from ({"step": row["step"], "quantity": k, "value": v} for k, v in row.items() if k != "step")


def loss_of(model: BasicTransformer, batch: Batch) -> Tensor:
    """The task's loss on a batch."""
    return batch.task.loss(model(batch.inputs, at=batch.task.query_positions), batch.targets)


@torch.no_grad()
def orthonormal(task: Induction, random: torch.Generator) -> BasicTransformer:
    """A blank basic model in which everything that is frozen is orthonormal, as in the limit of infinite width.

    Each token and position has its own direction. Layer 1 writes into further directions, and outputs are read from yet
    others.
    """
    d_vocab, n = task.d_vocab, task.d_vocab + task.n_positions
    model = BasicArchitecture(d_model=2 * n + d_vocab, blank=True).build(task, random)
    basis, values = (torch.linalg.qr(torch.randn(model.W_V1.shape, generator=random))[0] for _ in range(2))
    model.W_E.copy_(basis[:d_vocab])
    model.W_pos.copy_(basis[d_vocab:n])
    model.W_U.copy_(basis[2 * n :].T)
    model.W_V1.copy_(basis.T @ basis.roll(-n, 0))
    model.W_O1.copy_(torch.eye(model.architecture.d_model))
    model.W_V2.copy_(values)
    return model


def memory_blocks(model: BasicTransformer) -> Mapping[str, tuple[Tensor, Tensor]]:
    """The two sides of each memory: orthonormal rows that it reads, and rows that it writes or is queried by."""
    return {
        "W_O2": (model.W_E @ model.W_V2, model.W_U.T),
        "W_K2": (model.W_E @ model.W_V1 @ model.W_O1, model.W_E),
        "W_K1": (model.W_pos, model.W_pos),
    }
