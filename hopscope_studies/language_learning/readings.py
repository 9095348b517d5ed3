"""Measures of predictions on automata's strings: distance from the automaton, legality, loss."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from hopscope.measures.base import Observation
from hopscope.tasks.base import Batch
from hopscope.tasks.base_sources import expected_loss
from hopscope.theory.markov.chains import entropy, total_variation
from hopscope_studies.language_learning.tasks.automaton_strings import AutomatonStrings

ORDERS = (1, 2, 3)  # of the n-gram models


def of_model(seen: Observation) -> dict[str, float]:
    """A model's measures, and the lowest possible loss."""
    task = seen.task
    assert isinstance(task, AutomatonStrings)
    law = task.law(seen.batch.draw)
    source = float(entropy(law)[task.asked_late(seen.batch)].mean())
    return numbers(task, seen.batch, seen.outputs.double().softmax(-1)) | {"source loss": source}


def of_n_grams(task: AutomatonStrings, batch: Batch, order: int) -> dict[str, float]:
    """The same measures for an n-gram model that backs off."""
    return numbers(task, batch, task.n_gram(batch.inputs, order))


def numbers(task: AutomatonStrings, batch: Batch, predicted: Float[Tensor, "batch position vocab"]) -> dict[str, float]:
    """Three measures of predicted probabilities, over symbols in the later half of the sequences.

    `distance`: mean total variation from the automaton's own law. `legal`: how often the likeliest symbol is allowed.
    `loss`: expected, in nats.
    """
    law, late = task.law(batch.draw), task.asked_late(batch)
    legal = law.gather(-1, predicted.argmax(-1, keepdim=True))[..., 0] > 0
    return {
        "distance": float(total_variation(predicted, law)[late].mean()),
        "legal": float(legal[late].double().mean()),
        "loss": float(expected_loss(predicted, law)[late].mean()),
    }
