"""Recall of the basic model's memories (Bietti et al., 2023, section 4.2): how much of its ideal each matrix stores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.measures.base import Need, Observation, several_positions
from hopscope_studies.birth.models.basic_transformer import BasicArchitecture, BasicTransformer
from hopscope_studies.birth.tasks.trigger_bigrams import TriggerBigrams

RANGE = (0.0, 1.0)
NEEDS = (
    Need("the basic transformer", lambda task, shape: isinstance(shape, BasicArchitecture)),
    Need("a task that answers with the tokens it shows", lambda task, _: task.d_output == task.d_vocab),
    several_positions,
)
FIRST = 64  # positions of `W_K1 first`


def memory_recall(seen: Observation) -> dict[str, float]:
    """The paper's probes, by matrix: the share (0–1) of items whose own score is the highest.

    `W_O2`: tokens whose value, when attended to, is output as the token itself. `W_K2`: triggers that attend most to
    positions after themselves, rather than after another trigger; if triggers are not fixed, all tokens are tested.
    `W_K2 of all`: the same items, compared with all tokens, so with as many candidates as W_O2 has. `W_K1`, `W_K1
    first`: positions from the second on, all or the first 64, that attend most to the position before.
    """
    model, task = seen.model, seen.task
    assert isinstance(model, BasicTransformer)
    fixed = isinstance(task, TriggerBigrams) and task.trigger_choice == "frequent"
    return recalls(model, seen.batch.draw["triggers"][0] if fixed else range(len(model.W_E)))


@torch.no_grad()
def recalls(model: BasicTransformer, triggers: Sequence[int] | Tensor) -> dict[str, float]:
    """`memory_recall` of a model, given the tokens that W_K2 is probed on."""
    put_out = model.W_E @ model.W_V2 @ model.W_O2 @ model.W_U
    asked = torch.as_tensor(triggers, device=model.device)
    asking, remapped = model.W_E[asked], model.W_E @ model.W_V1 @ model.W_O1 @ model.W_K2
    places = model.W_pos[1:] @ (model.W_pos[:-1] @ model.W_K1).T
    return {
        "W_O2": recall(put_out),
        "W_K2": recall(asking @ remapped[asked].T),
        "W_K2 of all": recall(asking @ remapped.T, asked),
        "W_K1": recall(places),
        "W_K1 first": recall(places[: FIRST - 1, : FIRST - 1]),
    }


def recall(scores: Float[Tensor, "item candidate"], own: Int[Tensor, "item"] | None = None) -> float:
    """Share (0–1) of rows whose own candidate has the highest score; by default row i's own candidate is i."""
    own = torch.arange(len(scores), device=scores.device) if own is None else own
    return float((scores.argmax(-1) == own).float().mean())
