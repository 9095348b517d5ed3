"""Legal accuracy: how often the likeliest next symbol is one that the automaton allows (Akyürek et al., 2024)."""

from __future__ import annotations

from hopscope.measures.base import Need, Observation
from hopscope_studies.language_learning.tasks.automaton_strings import AutomatonStrings

RANGE = (0.0, 1.0)
NEEDS = (Need("a task with an automaton", lambda task, _: isinstance(task, AutomatonStrings)),)


def legal_accuracy(seen: Observation) -> dict[str, float]:
    """Share (0–1) of asked symbols at which the model's likeliest token is legal; `late`: in the later half."""
    task = seen.task
    assert isinstance(task, AutomatonStrings)
    named = seen.outputs.argmax(-1, keepdim=True)
    legal = (task.law(seen.batch.draw).gather(-1, named) > 0)[..., 0].float()
    asked, late = task.asked(seen.batch), task.asked_late(seen.batch)
    return {"next": float(legal[asked].mean()), "late": float(legal[late].mean())}
