"""What each induction head of a trained model is worth, alone and with others (Singh et al., 2024, section 4)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.interventions.clamps import Clamp, answers
from hopscope.interventions.parts import Part
from hopscope.measures.base import observe
from hopscope.models.base import Model
from hopscope.tasks.base import Batch
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.induction_formation.measures.induction_strength import induction_strength

SIZE = 1000  # sequences behind every number (Singh et al.: 1000)
LAST = 1  # the layer of induction heads

#: What is measured, by kind and name: `("alone", "H3") -> 0.98`.
Found = Iterator[tuple[str, str, float]]


@torch.no_grad()
def judged(model: Model, task: ItemLabels) -> Found:
    """All measurements of this file, on fresh sequences."""
    batch = task.sample(SIZE, generator(0, "heads"))
    yield from wholes(model, batch)
    if task.withheld:
        yield "accuracy", "withheld labels", accuracy(model, withheld(task))
    heads = range(model.architecture.n_heads)
    if len(heads) > 1:
        yield from several(model, batch, heads)


def wholes(model: Model, batch: Batch) -> Found:
    """Accuracy of the whole model, with layer 0 only in patterns, without layer 0, and with patterns of others."""
    task = batch.task
    yield "accuracy", "whole", accuracy(model, batch)
    yield "loss", "whole", float(task.loss(answers((), model, batch), batch.targets))
    yield "accuracy", "layer 0 for patterns alone", accuracy(model, batch, clamp(0, "preserved"))
    yield "accuracy", "nothing of layer 0", accuracy(model, batch, clamp(0, "silent"))
    yield "accuracy", "patterns of others", shuffled(model, batch)
    for name, value in induction_strength(observe(model, batch)).items():
        if name.startswith(f"L{LAST}"):
            yield "strength", name.removeprefix(f"L{LAST}"), value


def several(model: Model, batch: Batch, heads: Iterable[int]) -> Found:
    """Margins and accuracies of single heads and pairs of heads of layer 1, with all other heads silenced."""
    every = set(heads)
    for count in (0, 1, 2):
        for some in itertools.combinations(sorted(every), count):
            quiet = [clamp(LAST, "silent", head) for head in every.difference(some)]
            outputs = answers([one for clamps in quiet for one in clamps], model, batch)
            name = " ".join(f"H{head}" for head in some) or "none"
            yield "margin", name, float(margins(outputs, batch).mean())
            if count == 1:
                yield "alone", name, float(batch.task.correct(outputs, batch).float().mean())


def clamp(layer: int, kind: str, head: int | None = None) -> list[Clamp]:
    """A clamp of a head or a layer from the start of training."""
    part = Part(layer) if head is None else Part(layer, head)
    return [Clamp.parse(f"{part} {kind}@0")]


def accuracy(model: Model, batch: Batch, clamps: Iterable[Clamp] = ()) -> float:
    """Share (0–1) of right answers."""
    return float(batch.task.correct(answers(clamps, model, batch), batch).float().mean())


def withheld(task: ItemLabels) -> Batch:
    """Sequences whose labels never occurred together in training."""
    return task.but(sets="withheld").sample(SIZE, generator(0, "withheld heads"))


def shuffled(model: Model, batch: Batch) -> float:
    """Accuracy if layer 1 attends as in another sequence: the negative control."""
    name = f"blocks.{LAST}.attn.hook_pattern"
    outputs = model(batch.inputs, replace={name: lambda p: p.roll(1, 0)}, at=batch.task.query_positions)
    return float(batch.task.correct(outputs, batch).float().mean())


def margins(outputs: Float[Tensor, "batch query output"], batch: Batch) -> Float[Tensor, "batch"]:
    """By how much the right label's logit exceeds the highest of the context's other labels."""
    right = batch.targets[:, -1]
    labels = batch.draw["labels"][:, :-1]
    logits = outputs[:, -1]
    others = logits.gather(1, labels).masked_fill(labels == right, -torch.inf).amax(1)
    return logits.gather(1, right)[:, 0] - others
