"""The work behind `memories`: the gradient lemma checked, recall at given sizes, and how much memories hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.capacity import ENOUGH, Search
from hopscope.experiments.work import Stopped, Work
from hopscope.theory import memories

CHECKS = 128  # times that a training looks at its recall (mlp_sweep.py)


@dataclass(frozen=True)
class Lemma(Work):
    """The gradient as a sum of outer products against autograd's, in float64, of one matrix and of one among layers."""

    label = "lemma"

    n: int = setting(24, "inputs")
    n_classes: int = setting(10, "outputs")
    d: int = setting(12, "width")
    seed: int = setting(0, "of embeddings, weights and distribution")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        write_json(folder / "errors.json", {"one matrix": self.shallow(), "among layers": self.deep()})

    def drawn(self) -> tuple[Tensor, Tensor, Tensor, torch.Generator]:
        """Inputs, outputs, and a joint distribution with noise in the answers and inputs of unequal frequency."""
        random = generator(self.seed, "lemma")
        inputs = memories.random_rows(self.n, self.d, random).double()
        outputs = memories.random_rows(self.n_classes, self.d, random).double()
        joint = torch.randn(self.n, self.n_classes, generator=random, dtype=torch.float64)
        return inputs, outputs, joint.flatten().softmax(0).view_as(joint), random

    def shallow(self) -> float:
        """Greatest difference of any entry, at a random matrix."""
        inputs, outputs, joint, random = self.drawn()
        memory = torch.randn(self.d, self.d, generator=random, dtype=torch.float64, requires_grad=True)
        loss = memories.population_loss(memories.scores(memory, outputs, inputs), joint)
        (found,) = torch.autograd.grad(loss, memory)
        return float((found - memories.gradient(memory.detach(), outputs, inputs, joint)).abs().max())

    def deep(self) -> float:
        """The same for the middle one of three matrices with tanh and softplus between them."""
        inputs, outputs, joint, random = self.drawn()
        first, middle, last = torch.randn(3, self.d, self.d, generator=random, dtype=torch.float64)
        read = torch.tanh(inputs @ first.T)
        middle.requires_grad_()

        def above(hidden: Tensor) -> Tensor:
            return outputs @ (last @ torch.nn.functional.softplus(hidden))

        scores = torch.stack([above(middle @ x) for x in read])
        (found,) = torch.autograd.grad(memories.population_loss(scores, joint), middle)
        return float((found - memories.deep_gradient(middle.detach(), above, read, joint)).abs().max())


@dataclass(frozen=True)
class Recall(Work):
    """Recall of n pairs by a memory that is written down, not trained."""

    label = "recall"

    memory: str = setting("outer_product", "which", choices=("outer_product", "one_step", "pseudo_inverse", "random"))
    d: int = setting(64, "width")
    n: int = setting(64, "pairs")
    overlap: float = setting(0.0, "mean inner product of two embeddings")
    orthonormal: bool = setting(False, "whether embeddings are orthonormal")
    seed: int = setting(0, "of the embeddings")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        random = generator(self.seed, "embeddings", self.n)
        inputs, outputs = (self.embeddings(random) for _ in range(2))
        answers = torch.arange(self.n)
        memory = written(self.memory, inputs, outputs, answers, random)
        write_json(
            folder / "recall.json",
            {
                "recall": memories.recall(memories.scores(memory, outputs, inputs), answers),
                "expected": memories.expected_recall(self.n, self.d),
            },
        )

    def embeddings(self, random: torch.Generator) -> Tensor:
        rows = memories.random_rows(self.n, self.d, random, self.overlap)
        return torch.linalg.qr(rows.T)[0].T if self.orthonormal else rows


def written(kind: str, inputs: Tensor, outputs: Tensor, answers: Tensor, random: torch.Generator) -> Tensor:
    """A memory that needs no training; `random` holds nothing."""
    if kind == "outer_product":
        return memories.stored_pairs(outputs, inputs, answers)
    if kind == "one_step":
        return memories.one_step(outputs, inputs, answers)
    if kind == "pseudo_inverse":  # least squares for u_k^T W e_z = 1{f*(z) = k} (Kohonen, 1972)
        wanted = torch.nn.functional.one_hot(answers, len(outputs)).to(inputs.dtype)
        return torch.linalg.pinv(outputs) @ wanted.T @ torch.linalg.pinv(inputs).T
    return torch.randn(outputs.shape[1], inputs.shape[1], generator=random)


@dataclass(frozen=True)
class Capacity(Search):
    """How many pairs a memory of width d holds, each with its own answer or with `n_classes` answers among them."""

    label = "capacity"

    memory: str = setting("linear", "which", choices=("outer_product", "linear", "mlp"))
    d: int = setting(16, "width")
    ratio: int = setting(0, "m / d of an MLP's hidden width")
    n_classes: int = setting(0, "answers; 0: as many as inputs")
    steps: int = setting(4096, "of AdamW at most; training ends when recall is enough")
    lr: float = setting(1000.0, "its learning rate (paper's code: 1000 linear, 0.03 MLP)")
    seed: int = setting(0, "of embeddings and initial weights")

    @property
    def n_parameters(self) -> int:
        """d² of a matrix, 2 m d of an MLP without its biases."""
        return 2 * self.ratio * self.d**2 if self.memory == "mlp" else self.d**2

    def recall_at(self, size: int, should_stop: Callable[[], bool]) -> float:
        random = generator(self.seed, "capacity", size)
        n_classes = self.n_classes or size
        inputs = memories.random_rows(size, self.d, random)
        outputs = memories.random_rows(n_classes, self.d, random)
        answers = memories.even_classes(size, n_classes)
        if self.memory == "outer_product":
            return memories.recall(
                memories.scores(written(self.memory, inputs, outputs, answers, random), outputs, inputs), answers
            )
        weights, hidden = self.start(random)

        def scores() -> Tensor:
            return hidden(inputs) @ outputs.T

        return self.train(weights, scores, answers, should_stop)

    def start(self, random: torch.Generator) -> tuple[list[Tensor], Callable[[Tensor], Tensor]]:
        """Trained tensors, and what they make of inputs: W e from W = 0, or W_2 relu(W_1 e + b), fan-in normal."""
        if self.memory == "linear":
            matrix = torch.zeros(self.d, self.d, requires_grad=True)
            return [matrix], lambda inputs: inputs @ matrix.T
        m = self.ratio * self.d
        read = (torch.randn(m, self.d, generator=random) / self.d**0.5).requires_grad_()
        bias = torch.zeros(m, requires_grad=True)
        write = (torch.randn(self.d, m, generator=random) / m**0.5).requires_grad_()
        return [read, bias, write], lambda inputs: torch.relu(inputs @ read.T + bias) @ write.T

    def train(
        self, weights: list[Tensor], scores: Callable[[], Tensor], answers: Tensor, should_stop: Callable[[], bool]
    ) -> float:
        """Full-batch AdamW without decay; the best recall seen, and no more steps once it is enough."""
        optimizer = torch.optim.AdamW(weights, lr=self.lr, weight_decay=0.0, fused=True)
        best, every = 0.0, max(1, self.steps // CHECKS)
        for step in range(self.steps):
            found = scores()
            if step % every == 0:
                best = max(best, memories.recall(found.detach(), answers))
                if best >= ENOUGH:
                    break
                if should_stop():
                    raise Stopped
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(found, answers).backward()
            optimizer.step()
        return best
