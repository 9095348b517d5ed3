"""The measures of `multi_token` on fresh texts: accuracies, also with the trunk's attention uniform."""

from __future__ import annotations

from typing import Any

import torch

from hopscope.core.seeds import generator
from hopscope.interventions.patterns import null, visible
from hopscope.measures.base import Observation
from hopscope.models.base import Model, Replacements
from hopscope.tasks.base import Batch
from hopscope_studies.multi_token.measures.name_accuracy import name_accuracy
from hopscope_studies.multi_token.tasks.names_in_text import NamesInText

SEQUENCES = {"quick": 32, "cpu": 512, "paper": 1000}


def fresh(task: NamesInText, scale: str) -> Batch:
    """Fresh texts, the same for every model."""
    return task.sample(SEQUENCES[scale], generator(0, "asked"))


def accuracies(model: Model, task: NamesInText, scale: str, replace: Replacements | None = None) -> dict[str, float]:
    """By offset, the share (0–1) of names at which the answer is the likeliest one given the name."""
    return name_accuracy(Observation(model, fresh(task, scale), replace))


def without_trunk(model: Any, task: NamesInText, scale: str) -> dict[str, float]:
    """As `accuracies`, with all heads of the trunk attending uniformly to the positions that they see."""
    even = null("uniform", visible(task.n_positions, True))
    trunk = model.architecture.trunk
    return accuracies(model, task, scale, {f"blocks.{n}.attn.hook_pattern": even for n in range(trunk)})


def guessed(task: NamesInText) -> float:
    """The accuracy (0–1) at names of a uniform guess among the other name tokens seen so far (ours)."""
    batch = fresh(task, "cpu")
    tokens, named = batch.inputs, task.named(batch.draw)
    seen = torch.nn.functional.one_hot(tokens, task.d_vocab).cumsum(1).clamp(max=1)[..., task.n_words :].sum(-1)
    return float((1 / (seen[named] - 1).double()).mean())
