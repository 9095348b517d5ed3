"""What `switch_head` measures of a model: what the choice of experts depends on, and accuracy without it."""

from __future__ import annotations

import copy
import itertools
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.models.attention.switch_head import SwitchHead
from hopscope.models.base import Model
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Batch

SEQUENCES = {"quick": 32, "cpu": 512, "paper": 1000}  # fresh ones that every model is asked
SHUFFLES = 20  # shuffles of the choices, for the floor


@torch.no_grad()
def knows(model: Model, batch: Batch) -> dict[str, float]:
    """Accuracy (0–1) and loss in nats."""
    outputs = model(batch.inputs, at=batch.task.query_positions)
    right = batch.task.correct(outputs, batch).float().mean()
    return {"accuracy": float(right), "loss": float(batch.task.loss(outputs, batch.targets))}


@torch.no_grad()
def gates(model: Transformer, batch: Batch, layer: int, name: str) -> Float[Tensor, "batch position head expert"]:
    """The gates of a layer for values (`V`) or for outputs (`O`), at every position."""
    rule, block = model.architecture.rule, model.blocks[layer]
    assert isinstance(rule, SwitchHead)
    stream = model(batch.inputs, cache=[f"blocks.{layer}.hook_resid_pre"])[1][f"blocks.{layer}.hook_resid_pre"]
    read: Tensor = block.get_submodule("ln1")(stream)
    return rule.gates(read, block.get_submodule("attn.variant").get_parameter(f"W_gate_{name}"))


# The choice of experts -------------------------------------------------------------------------------------------


def information(choices: Int[Tensor, "sample"], classes: Int[Tensor, "sample"]) -> float:
    """The mutual information in nats of two labels, from their counts."""
    joint = torch.zeros(int(choices.max()) + 1, int(classes.max()) + 1, dtype=torch.float64)
    joint.index_put_((choices, classes), torch.ones(len(choices), dtype=torch.float64), accumulate=True)
    joint /= joint.sum()
    apart = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
    there = joint > 0
    return float((joint[there] * (joint[there] / apart[there]).log()).sum())


def floor(choices: Int[Tensor, "sample"], classes: Int[Tensor, "sample"]) -> float:
    """The largest information in several shuffles of the choices, as a floor for chance."""
    draws = (torch.randperm(len(choices), generator=generator(0, "shuffle", n)) for n in range(SHUFFLES))
    return max(information(choices[order], classes) for order in draws)


def specialisation(model: Transformer, batch: Batch) -> dict[str, float]:
    """The information of the widest gate about its place and its token: means over heads, in shares of ln E (0–1).

    Keys: `values_by_place` and `values_by_token` for sources, `outputs_…` for destinations, each with its floor.
    """
    n, first = batch.inputs.shape[1], batch.task.query_positions.start or 0
    place = torch.arange(n).expand(len(batch), -1)
    found: dict[str, list[float]] = {}
    for layer, (name, gate) in itertools.product(range(len(model.blocks)), (("values", "V"), ("outputs", "O"))):
        seen = slice(first % n if gate == "O" else 0, None)  # for outputs, the positions that are read
        widest = gates(model, batch, layer, gate).argmax(-1)[:, seen]  # batch position head
        for head, (kind, given) in itertools.product(
            range(widest.shape[-1]), (("place", place), ("token", batch.inputs))
        ):
            choices, classes = widest[..., head].flatten(), given[:, seen].flatten()
            found.setdefault(f"{name}_by_{kind}", []).append(information(choices, classes))
            found.setdefault(f"{name}_by_{kind}_floor", []).append(floor(choices, classes))
    most = math.log(gates(model, batch, 0, "V").shape[-1])
    return {name: sum(values) / len(values) / most for name, values in found.items()}


# Without choosing ---------------------------------------------------------------------------------------------------


@torch.no_grad()
def held(model: Transformer, batch: Batch, parts: str = "VO") -> Transformer:
    """The model with the gates of values (`V`), of outputs (`O`) or of both held at their means over a batch.

    Every expert becomes the average of all experts, so it does not matter which are chosen.
    """
    found, rule = copy.deepcopy(model), model.architecture.rule
    assert isinstance(rule, SwitchHead)
    for (layer, block), name in itertools.product(enumerate(found.blocks), parts):
        attn = block.get_submodule("attn")
        first = attn.get_parameter("W_QKV")[2] if name == "V" else attn.get_parameter("W_O")
        more = attn.get_parameter(f"variant.W_{name}_more")
        mean = gates(model, batch, layer, name).mean((0, 1))  # head expert
        every = torch.cat([first[:, None], more], 1)
        alike = torch.einsum("he,heio->hio", mean, every) / (min(rule.chosen, rule.experts) / 2)  # all gates are 1/2
        attn.get_parameter(f"variant.W_gate_{name}").zero_()
        first.copy_(alike)
        more.copy_(alike[:, None].expand_as(more))
    return found
