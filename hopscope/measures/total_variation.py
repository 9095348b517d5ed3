"""Total variation between the next-token distributions of model and source (Akyürek et al., 2024, section 3)."""

from __future__ import annotations

from hopscope.measures.base import Need, Observation
from hopscope.tasks.base_sources import SourceTask
from hopscope.theory.markov.chains import total_variation as distance

RANGE = (0.0, 1.0)
NEEDS = (Need("a task with a random source", lambda task, _: isinstance(task, SourceTask)),)


def total_variation(seen: Observation) -> dict[str, float]:
    """Mean total variation (0–1) between the model's distribution of the next token and the source's own.

    It is 0 for a model that knows the source. `late` is the same over what is asked in the later half of the sequence.
    """
    task = seen.task
    assert isinstance(task, SourceTask)
    apart = distance(seen.outputs.double().softmax(-1), task.law(seen.batch.draw))
    asked = task.asked(seen.batch)
    late = asked.clone()
    late[:, : asked.shape[1] // 2] = False
    return {"next": float(apart[asked].mean()), "late": float(apart[late].mean())}
