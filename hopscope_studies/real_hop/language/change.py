"""Changes by which a model would do the hop well: heads made perfect, or scaled up or down, judged on other facts.

A *perfect* head at the answer attends only to the value of the chain that is asked about; its output weights are
unchanged. A *gain* multiplies the heads' inputs to the output projection at the tokens of the question, whatever is
asked; at the facts' tokens they are unchanged. Gains are chosen on one half of the facts and judged on the other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from hopscope_studies.real_hop.language.machine import Change, Machine
from hopscope_studies.real_hop.language.trial import is_head, nodes, where
from hopscope_studies.real_hop.language.why import answered, asked_of

LOUDER, QUIETER = (1.25, 1.5, 2.0, 3.0), (0.0, 0.5)  # gains to choose from


class Perfect(Change):
    """Some heads at the answer attend to the last value of the chain that is asked about, and to nothing else."""

    def __init__(self, machine: Machine, heads: Collection[str]):
        self.heads = [where(head, machine) for head in heads]
        names = [role for role, _, _ in machine.asks.held[0] if role.startswith("value[")]
        last = max(names)
        self.target = torch.tensor(
            [
                next(at for role, chain, at in held if role == last and chain == asked_of(held))
                for held in machine.asks.held
            ]
        )

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        mine = [head for at, _, head in self.heads if at == layer]
        if not mine:
            return pattern
        pattern = pattern.clone()
        ideal = torch.nn.functional.one_hot(self.target, pattern.shape[-1]).to(pattern.dtype)
        pattern[:, mine, -1] = ideal[:, None]
        return pattern


class Gain(Change):
    """The inputs of some heads to the output projection, times a number."""

    def __init__(self, machine: Machine, heads: Collection[str], gain: float):
        self.heads, self.gain = [where(head, machine) for head in heads], gain

    def output(self, layer: int, z: Tensor) -> Tensor:
        mine = [head for at, _, head in self.heads if at == layer]
        if mine:
            z = z.clone()
            z[:, :, mine] *= self.gain
        return z


@torch.no_grad()
def changed(machine: Machine, change: Change) -> dict[str, Any]:
    """The metric and the accuracy with a change."""
    return answered(machine, machine.write(machine.embedded, change=change).logits)


def perfect_heads(judge: Machine, heads: Sequence[str], seed: int, draws: int) -> dict[str, Any]:
    """The metric with each head made perfect, with all of them, and with as many random heads."""
    heads = [head for head in heads if is_head(head)]
    single = [{"heads": [head], **changed(judge, Perfect(judge, [head]))} for head in heads]
    random = [
        {"heads": drawn, **changed(judge, Perfect(judge, drawn))}
        for drawn in (others(judge, heads, seed + 600 + draw) for draw in range(draws))
    ]
    every = {"heads": list(heads), **changed(judge, Perfect(judge, heads))}
    return {"single": single, "all": every, "random": random}


def best_gain(
    choose: Machine, judge: Machine, heads: Sequence[str], gains: Sequence[float], seed: int, draws: int
) -> dict[str, Any]:
    """The best gain of some heads, chosen on one half and judged on the other; and random heads with this gain."""
    heads = [head for head in heads if is_head(head)]
    tried = [{"gain": gain, **changed(choose, Gain(choose, heads, gain))} for gain in gains]
    gain = float(max(tried, key=lambda row: row["metric"]["mean"])["gain"])
    random = [
        {"heads": drawn, **changed(judge, Gain(judge, drawn, gain))}
        for drawn in (others(judge, heads, seed + 700 + draw) for draw in range(draws))
    ]
    return {
        "heads": list(heads),
        "tried": tried,
        "gain": gain,
        "judged": changed(judge, Gain(judge, heads, gain)),
        "random": random,
    }


def others(machine: Machine, heads: Sequence[str], seed: int) -> list[str]:
    """As many other heads, drawn uniformly."""
    among = [node for node in nodes(machine) if is_head(node) and node not in heads]
    order = torch.randperm(len(among), generator=torch.Generator().manual_seed(seed))
    return [among[i] for i in order[: len(heads)].tolist()]
