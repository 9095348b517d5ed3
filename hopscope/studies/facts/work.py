"""The work behind `facts`: the linear model trained with everything logged, and trained one-layer transformers.

The phases of a training are found from two curves alone, the loss of what the relation decides and the loss of what is
left to the subject, each against what knowing nothing costs. A part counts as unknown above 0.9 of that, as known below
0.1 (ours): a hallucination phase is a stretch in which the relation's part is known and the subject's unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.core.storage import write_file, write_json
from hopscope.experiments.capacity import ENOUGH, Search
from hopscope.experiments.work import Stopped, Work
from hopscope.studies.facts.models.recall import LinearRecall, OneLayerRecall, counted
from hopscope.studies.facts.tasks.factual_recall import FactualRecall
from hopscope.tasks.base import Batch

UNKNOWN, KNOWN = 0.9, 0.1  # shares of what knowing nothing costs
CURVES = (
    "step",
    "loss",
    "relation_only",
    "subject_only",
    "accuracy",
    "relation_accuracy",
    "subject_accuracy",
    "other_subject",
    "from_relation",
)
TESTED = 4096  # sentences behind each point of the curves
SAVED = 1024  # steps between savings


@dataclass(frozen=True)
class Linear(Work):
    """Linear attention on one-hot tokens, by gradient descent at a constant rate, from constant weights."""

    label = "facts-linear"

    n_subjects: int = setting(16, "S")
    n_relations: int = setting(4, "R")
    n_answers: int = setting(8, "D")
    n_noise: int = setting(20, "noise tokens")
    length: int = setting(32, "T")
    facts: str = setting("even", "which kind")
    steps: int = setting(8192, "of gradient descent")
    batch: int = setting(1024, "fresh sentences per step")
    lr: float = setting(0.1, "learning rate")
    start: float = setting(1e-5, "of all weights")
    log_every: int = setting(64, "steps between points of the curves")
    seed: int = setting(0, "of the data; nothing else is drawn but random facts, whose seed it is too")

    @property
    def task(self) -> FactualRecall:
        """What is learnt."""
        names = ("n_subjects", "n_relations", "n_answers", "n_noise", "length", "facts")
        return FactualRecall(**{name: getattr(self, name) for name in names}, facts_seed=self.seed)

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        task, path = self.task, folder / "state.safetensors"
        model, curves = LinearRecall.constant(task.d_output, task.d_vocab, self.start), torch.zeros(0, len(CURVES))
        first = 0
        if path.is_file():
            kept = load(path.read_bytes())
            model, curves, first = LinearRecall(kept["V"], kept["w"]), kept["curves"], int(kept["step"])
        tested = task.sample(TESTED, generator(self.seed, "validation"))
        for step in range(first, self.steps + 1):
            if should_stop() or (step % SAVED == 0 and step > first):
                keep(path, model, curves, step)
                if should_stop():
                    raise Stopped
            if step % self.log_every == 0:
                curves = torch.cat([curves, seen(model, tested, step)])
            if step < self.steps:
                batch = task.sample(self.batch, generator(self.seed, "train", step))
                model.step(*asked(batch, torch.float64), self.lr)
        keep(path, model, curves, self.steps + 1)
        write_json(folder / "curves.json", {name: curves[:, i].tolist() for i, name in enumerate(CURVES)})


def keep(path: Path, model: LinearRecall, curves: Tensor, step: int) -> None:
    """Everything from which training goes on, in one file."""
    write_file(path, save({"V": model.V, "w": model.w, "curves": curves, "step": torch.tensor(step)}))


def asked(batch: Batch, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The counts of a batch's tokens, and its right answers."""
    return counted(batch.inputs, int(batch.task.d_vocab or 0), dtype), batch.targets.flatten()


def seen(model: LinearRecall, tested: Batch, step: int) -> Tensor:
    """One point of all `CURVES`."""
    task = tested.task
    assert isinstance(task, FactualRecall)
    counts, answers = asked(tested, torch.float64)
    log_p = model.logits(counts).log_softmax(-1)
    named = log_p.argmax(-1)
    parts = [part for _, part in sorted(task.answer_parts.items())]  # relation-only, subject-only
    losses = [-log_p.masked_fill(part != part[answers, None], -torch.inf).logsumexp(-1).mean() for part in parts]
    right = [(part[named] == part[answers]).double().mean() for part in parts]
    swapped = dict(tested.draw, subject=tested.draw["subject"].roll(1, 0))
    other = model.logits(counted(task.inputs(swapped), task.d_vocab, torch.float64)).log_softmax(-1)
    by_relation = given_relation(task)[tested.draw["relation"][:, 0]]  # p(a | r) of each sentence
    gap = (torch.special.xlogy(by_relation, by_relation) - by_relation * log_p).sum(-1).mean()
    found = [
        torch.tensor(step),
        torch.nn.functional.nll_loss(log_p, answers),
        *losses,
        (named == answers).double().mean(),
        *right,
        torch.nn.functional.nll_loss(other, answers),
        gap,
    ]
    return torch.stack([number.double() for number in found])[None].float()


def given_relation(task: FactualRecall) -> Tensor:
    """p(a | r) over all subjects, relation by answer."""
    return torch.nn.functional.one_hot(task.known, task.d_output).double().mean(0)


# Phases ----------------------------------------------------------------------------------------------------------


def stretch(steps: Sequence[float], inside: NDArray[numpy.bool_]) -> tuple[float, float]:
    """First and last step of the longest run of points that are inside; NaN if none is."""
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[False], inside, [False]]).astype(int)))
    runs = edges.reshape(-1, 2)
    if not len(runs):
        return float("nan"), float("nan")
    begin, end = max(runs, key=lambda run: steps[run[1] - 1] - steps[run[0]])
    return float(steps[begin]), float(steps[end - 1])


def phases(
    steps: Sequence[float],
    relation_only: NDArray[numpy.float64],
    subject_only: NDArray[numpy.float64],
    chance: tuple[float, float],
) -> dict[str, tuple[float, float]]:
    """First and last step of every phase; NaN for one that does not come.

    Args:
        steps: of the points of the curves.
        relation_only: loss of the part that the relation decides.
        subject_only: loss of the part that is left to the subject.
        chance: what knowing nothing costs in each; ln R and ln D.
    """
    relation, subject = relation_only / chance[0], subject_only / chance[1]
    return {
        "nothing known": stretch(steps, (relation > UNKNOWN) & (subject > UNKNOWN)),
        "hallucination": stretch(steps, (relation < KNOWN) & (subject > UNKNOWN)),
        "all known": stretch(steps, (relation < KNOWN) & (subject < KNOWN)),
    }


# One layer of softmax attention, with or without MLP ---------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """Of a one-layer transformer."""

    d: int
    n_heads: int
    d_head: int
    d_mlp: int


def trained_recall(
    task: FactualRecall, shape: Shape, how: dict[str, Any], should_stop: Callable[[], bool]
) -> tuple[float, int]:
    """The best recall that AdamW reaches on 1024 sentences, and the parameters; ends once it is enough.

    `how` holds `steps`, `batch`, `lr` and `seed`.
    """
    seed, steps = how["seed"], how["steps"]
    random = generator(seed, "init")
    model = OneLayerRecall(task.d_vocab, task.d_output, shape.d, shape.n_heads, shape.d_head, shape.d_mlp, random)
    optimizer = torch.optim.AdamW(model.parameters(), lr=how["lr"], weight_decay=0.0, fused=True)
    counts, answers = asked(task.sample(1024, generator(seed, "validation")))
    best, every = 0.0, max(1, steps // 128)
    for step in range(steps + 1):
        if step % every == 0:
            with torch.no_grad():
                best = max(best, float((model(counts).argmax(-1) == answers).double().mean()))
            if best >= ENOUGH:
                break
            if should_stop():
                raise Stopped
        inputs, targets = asked(task.sample(how["batch"], generator(seed, "train", step)))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    return best, model.n_parameters


@dataclass(frozen=True)
class FactCapacity(Search):
    """The greatest S = R of which a one-layer transformer recalls 99 % of the S R random facts.

    Heads are d_h = α d / H wide, the MLP m = β d.
    """

    label = "facts-capacity"

    d: int = setting(16, "width")
    n_heads: int = setting(8, "H")
    alpha: float = setting(1.0, "H d_h / d")
    beta: float = setting(0.0, "m / d")
    n_answers: int = setting(8, "D")
    length: int = setting(32, "T")
    steps: int = setting(16384, "of AdamW at most")
    batch: int = setting(1024, "fresh sentences per step")
    lr: float = setting(0.01, "learning rate")
    seed: int = setting(0, "of facts, embeddings, weights and data")

    @property
    def shape(self) -> Shape:
        """Of the model."""
        return Shape(self.d, self.n_heads, max(1, int(self.d * self.alpha / self.n_heads)), int(self.beta * self.d))

    @property
    def n_parameters(self) -> int:
        """4 H d_h d + 2 m d."""
        shape = self.shape
        return 4 * shape.n_heads * shape.d_head * shape.d + 2 * shape.d_mlp * shape.d

    def recall_at(self, size: int, should_stop: Callable[[], bool]) -> float:
        task = random_facts(size, self.n_answers, 2 * size, self.length, self.seed)
        how = {"steps": self.steps, "batch": self.batch, "lr": self.lr, "seed": self.seed}
        return trained_recall(task, self.shape, how, should_stop)[0]


@dataclass(frozen=True)
class TradeOff(Work):
    """How many of a fixed number of facts a one-layer transformer recalls, given its heads and its MLP."""

    label = "facts-trade-off"

    n_heads: int = setting(4, "H")
    d_mlp: int = setting(0, "m")
    size: int = setting(32, "S = R")
    n_answers: int = setting(8, "D")
    d: int = setting(32, "width")
    d_head: int = setting(8, "d_h")
    length: int = setting(32, "T")
    steps: int = setting(16384, "of AdamW at most")
    batch: int = setting(1024, "fresh sentences per step")
    lr: float = setting(0.01, "learning rate")
    seed: int = setting(0, "of facts, embeddings, weights and data")

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        if should_stop():
            raise Stopped
        task = random_facts(self.size, self.n_answers, 2 * self.size, self.length, self.seed)
        how = {"steps": self.steps, "batch": self.batch, "lr": self.lr, "seed": self.seed}
        shape = Shape(self.d, self.n_heads, self.d_head, self.d_mlp)
        recall, parameters = trained_recall(task, shape, how, should_stop)
        write_json(folder / "recall.json", {"recall": recall, "parameters": parameters})


def random_facts(size: int, n_answers: int, n_noise: int, length: int, seed: int) -> FactualRecall:
    """S = R, and as many noise tokens as both together."""
    return FactualRecall(length, size, size, n_answers, n_noise, "random", seed)
