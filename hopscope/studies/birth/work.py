"""What `birth` does beside training transformers: runs of the basic model, and its three gradient steps (card 3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.core.storage import read_folder, read_manifest, write_folder, write_json
from hopscope.experiments.work import Stopped, Work
from hopscope.measures.base import observe
from hopscope.measures.induction_score import induction_score
from hopscope.measures.previous_token_score import previous_token_score
from hopscope.studies.birth.models.basic_transformer import TRAINED, BasicTransformer, recalls
from hopscope.studies.birth.tasks.trigger_bigrams import TriggerBigrams
from hopscope.tasks.base import Batch
from hopscope.tasks.induction import Induction

Row = dict[str, Any]


@dataclass(frozen=True)
class Basic(Work):
    """The basic model trained on predictable outputs alone, by SGD with momentum (the authors' README run)."""

    label = "basic"

    d_model: int = setting(128, "width (README run: 256)")
    length: int = setting(64, "of sequences (256)")
    batch: int = setting(64, "sequences per step (512)")
    steps: int = setting(400, "of SGD (1000)")
    lr: float = setting(0.2, "learning rate; the code's default is 0.2, the README run's 0.03")
    momentum: float = setting(0.9, "of SGD")
    weight_decay: float = setting(1e-4, "of SGD")
    triggers: str = setting("frequent", "which are triggers")
    later: int = setting(0, "steps after which W_K2 is trained too, and twice as many for W_K1; 0: all from the start")
    every: int = setting(10, "steps between rows")
    val_size: int = setting(128, "sequences behind accuracy and attention")
    seed: int = setting(0, "of initialisation and data")

    @property
    def task(self) -> TriggerBigrams:
        """What is learnt."""
        return TriggerBigrams(length=self.length, trigger_choice=self.triggers)

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        training = SGD(self, folder)
        while training.step < self.steps:
            if should_stop():
                training.save()
                raise Stopped
            training.advance()
        write_json(folder / "rows.json", training.rows)

    def begins(self, name: str) -> int:
        """The step at which a matrix begins to be trained."""
        return self.later * TRAINED.index(name)


class SGD:
    """A run of the basic model under way: weights, momentum, rows; all of it in `state/` when interrupted."""

    def __init__(self, work: Basic, folder: Path):
        self.work, self.folder, self.task = work, folder, work.task
        start = generator(work.seed, "init")
        self.model = BasicTransformer(work.d_model, self.task.d_vocab, self.task.n_positions, start)
        self.velocity = {name: torch.zeros_like(value) for name, value in self.model.named_parameters()}
        self.validation = self.task.sample(work.val_size, generator(0, "validation"))
        self.step, self.rows = 0, list[Row]()
        if (folder / "state").is_dir():
            self.restore()
        else:
            self.rows.append(self.row())

    def advance(self) -> None:
        """One update, as torch.optim.SGD makes it; and a row where one is due."""
        batch = self.task.sample(self.work.batch, generator(self.work.seed, "train", self.step))
        weights = {n: w for n, w in self.model.named_parameters() if self.step >= self.work.begins(n)}
        gradients = torch.autograd.grad(loss_of(self.model, batch), list(weights.values()))
        with torch.no_grad():
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
                velocity = self.velocity[name]
                velocity.mul_(self.work.momentum).add_(gradient + self.work.weight_decay * weight)
                weight.sub_(self.work.lr * velocity)
        self.step += 1
        if self.step % self.work.every == 0 or self.step == self.work.steps:
            self.rows.append(self.row())

    def row(self) -> Row:
        """What the paper probes, now: memories by recall, attention, accuracy in context."""
        items = range(self.task.d_vocab) if self.work.triggers == "drawn" else self.validation.draw["triggers"][0]
        seen = observe(self.model.as_transformer(), self.validation)
        return {
            "step": self.step,
            "loss": float(self.task.loss(seen.outputs, self.validation.targets)),
            "accuracy": float(self.task.correct(seen.outputs, self.validation).float().mean()),
            **recalls(self.model, items),
            "previous_token": previous_token_score(seen)["L0H0"],
            "induction": induction_score(seen)["L1H0"],
        }

    def save(self) -> None:
        """Keep everything, to go on from here bit for bit."""
        tensors = {**self.model.state_dict(), **{f"velocity.{n}": v for n, v in self.velocity.items()}}
        files = {"tensors.safetensors": safetensors.torch.save(tensors), "rows.json": json.dumps(self.rows).encode()}
        write_folder(self.folder / "state", files, {"step": self.step})

    def restore(self) -> None:
        """The inverse of `save`. Raises Damaged if something was altered."""
        files = read_folder(self.folder / "state", ["tensors.safetensors", "rows.json"])
        tensors = safetensors.torch.load(files["tensors.safetensors"])
        self.velocity = {name: tensors.pop(f"velocity.{name}") for name in self.velocity}
        self.model.load_state_dict(tensors)
        self.rows = json.loads(files["rows.json"])
        self.step = read_manifest(self.folder / "state")["step"]


def loss_of(model: BasicTransformer, batch: Batch) -> Tensor:
    """Cross-entropy in nats at the positions that are asked."""
    targets = torch.full(batch.inputs.shape, -1)
    targets[:, batch.task.query_positions] = batch.targets[..., 0]
    asked = targets >= 0
    return F.cross_entropy(model(batch.inputs, asked), targets[asked])


# Three gradient steps --------------------------------------------------------------------------------------------

SIZES = [0.01 * 4.0**k for k in range(15)]  # of a step, in units of the gradient's norm


@dataclass(frozen=True)
class ThreeSteps(Work):
    """One gradient step on each matrix in turn, from nothing, on the population loss of `induction` (our reading).

    The simplified setup: embeddings, values and what layer 1 writes are orthonormal; every sequence asks once, at its
    end; the expectation over sequences is a mean over `sample` of them. `blocks` says whether each matrix moves only
    in its own memory's block (positions to positions; what layer 1 wrote to tokens; values to outputs) or as its whole
    gradient has it. The size of each step is the best of a grid, by the loss on other sequences.
    """

    label = "three-steps"

    length: int = setting(12, "tokens before the query")
    d_vocab: int = setting(32, "different tokens")
    sample: int = setting(16384, "sequences behind each gradient")
    blocks: bool = setting(True, "whether a matrix moves only in its memory's block")
    seed: int = setting(0, "of embeddings and sequences")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        task = Induction(length=self.length, d_vocab=self.d_vocab)
        model = orthonormal(self.d_vocab, task.n_positions, generator(self.seed, "init"))
        choosing, judging = (task.sample(2048, generator(self.seed, purpose)) for purpose in ("choose", "judge"))
        rows = [self.row(model, judging, 0)]
        for number, name in enumerate(TRAINED, 1):
            if should_stop():
                raise Stopped
            self.move(model, name, task, choosing)
            rows.append(self.row(model, judging, number))
        write_json(folder / "rows.json", rows)

    def move(self, model: BasicTransformer, name: str, task: Induction, choosing: Batch) -> None:
        """One step on one matrix, of the size that serves best."""
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
    def row(self, model: BasicTransformer, judging: Batch, step: int) -> Row:
        named = model(judging.inputs)[:, -1].argmax(-1)
        return {
            "step": step,
            "loss": float(loss_of(model, judging)),
            "accuracy": float((named == judging.targets[:, 0, 0]).float().mean()),
            **recalls(model, range(self.d_vocab)),
        }


@torch.no_grad()
def orthonormal(d_vocab: int, n_positions: int, random: torch.Generator) -> BasicTransformer:
    """A blank basic model in which everything that is frozen is orthonormal, as in the limit of infinite width.

    Tokens and positions have a direction each; layer 1 writes what it read into directions of their own; outputs are
    read off others still.
    """
    n = d_vocab + n_positions
    model = BasicTransformer(2 * n + d_vocab, d_vocab, n_positions, random, blank=True)
    basis, values = (torch.linalg.qr(torch.randn(model.W_V1.shape, generator=random))[0] for _ in range(2))
    model.W_E.copy_(basis[:d_vocab])
    model.W_pos.copy_(basis[d_vocab:n])
    model.W_U.copy_(basis[2 * n :].T)
    model.W_V1.copy_(basis.T @ basis.roll(-n, 0))
    model.W_O1.copy_(torch.eye(model.d_model))
    model.W_V2.copy_(values)
    return model


def memory_blocks(model: BasicTransformer) -> Mapping[str, tuple[Tensor, Tensor]]:
    """What each matrix should join to what: orthonormal rows that it reads, and that it writes (or is asked by)."""
    return {
        "W_O2": (model.W_E @ model.W_V2, model.W_U.T),
        "W_K2": (model.W_E @ model.W_V1 @ model.W_O1, model.W_E),
        "W_K1": (model.W_pos, model.W_pos),
    }
