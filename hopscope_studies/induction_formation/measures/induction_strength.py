"""Induction strength (Singh et al., ICML 2024, arXiv:2404.07129, section 3).

It is the attention to the right label minus that to wrong labels. It is 0 if all labels get equal attention, or none.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from hopscope.interventions.patterns import visible
from hopscope.measures.base import Observation, attention, roles
from hopscope.problem.roles import Relation, Roles

RANGE = (-1.0, 1.0)
NEEDS = (attention, roles("query", "key[1]", "value[1]"))


def induction_strength(seen: Observation) -> dict[str, float]:
    """Per head, the attention of queries to the values of their own chain minus that to others' (−1 to 1)."""
    sees = visible(seen.task.n_positions, seen.model.architecture.causal, seen.batch.roles.chain.device)
    asked = (seen.batch.roles.pairs("query", "value[1]", "same") & sees).any(-1)
    return {name: float(strength(p, seen.batch.roles)[asked].mean()) for name, p in seen.patterns() if asked.any()}


def strength(pattern: Float[Tensor, "batch query key"], among: Roles) -> Float[Tensor, "batch query"]:
    """For every position, attention to values of its chain minus attention to those of others."""

    def on(relation: Relation) -> Tensor:
        return (pattern * among.pairs("query", "value[1]", relation)).sum(-1)

    return on("same") - on("other")
