"""Attention to parents: how much of the first layer is the latent graph (Nichani et al., 2024, section 5)."""

from __future__ import annotations

from hopscope.measures.base import Need, Observation, attention
from hopscope_studies.causal_structure.tasks.causal_sequences import CausalSequences

RANGE = (0.0, 1.0)
NEEDS = (attention, Need("a task with a latent graph", lambda task, _: isinstance(task, CausalSequences)))


def parent_attention(seen: Observation) -> dict[str, float]:
    """Attention (0–1) of children to parents in layer 0, per head: its mean, and how often a parent gets most.

    `L0H0`: the mean over children of the attention that falls on their parents. `L0H0 first`: the share of children
    whose most attended position, by the mean pattern, is one of their parents.
    """
    task = seen.task
    assert isinstance(task, CausalSequences)
    children, adjacency = task.latent.children, task.latent.adjacency.to(seen.model.device)
    found = {}
    for head, pattern in enumerate(seen.cache["pattern", 0].mean(0)):
        rows = pattern[children]
        found[f"L0H{head}"] = float((rows * adjacency[children]).sum(-1).mean())
        found[f"L0H{head} first"] = float(adjacency[children].gather(1, rows.argmax(-1, keepdim=True)).float().mean())
    return found
