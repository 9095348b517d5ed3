"""How much of the answer some units keep, and how much is lost without them, with intervals over draws of facts.

Units are nodes, `a15.h7` and `m20`, or places, `a15.h7@answer`. Numbers are shares of the metric's gap between no node
computing on the prompt's own input and all nodes (faithfulness; Wang et al., 2023). Above 1 a set does better than the
model, because some nodes work against the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hopscope_studies.real_hop.language.machine import Keep, Machine

DRAWS = 1000  # bootstrap resamples of the draws of facts

Units = frozenset[str]


def node_name(layer: int, number: int, n_heads: int) -> str:
    """`a15.h7`; the MLP of a layer, `m15`, follows its heads."""
    return f"m{layer}" if number == n_heads else f"a{layer}.h{number}"


def nodes(machine: Machine) -> list[str]:
    """All nodes in the order of the forward pass."""
    return [
        node_name(layer, number, machine.n_heads)
        for layer in range(machine.n_layers)
        for number in range(machine.n_heads + 1)
    ]


def where(unit: str, machine: Machine) -> tuple[int, slice | int, int]:
    """A unit's layer, position (all positions for a node) and number in the layer."""
    node, _, place = unit.partition("@")
    layer, _, head = node[1:].partition(".h")
    position = machine.asks.names.index(place) if place else slice(None)
    return int(layer), position, int(head) if head else machine.n_heads


def is_head(unit: str) -> bool:
    return unit.startswith("a")


def mask(machine: Machine, units: Iterable[str]) -> Keep:
    """A mask that keeps some units."""
    keep = machine.nothing()
    for unit in units:
        keep[where(unit, machine)] = True
    return keep


def by_node(machine: Machine, scores: Tensor) -> dict[str, float]:
    """Scores summed over tokens, by node."""
    return dict(zip(nodes(machine), scores.sum(1).flatten().tolist(), strict=True))


def by_place(machine: Machine, scores: Tensor, of: Collection[str]) -> dict[str, float]:
    """The scores of some nodes at every token."""
    return {
        f"{node}@{name}": float(scores[where(f"{node}@{name}", machine)]) for node in of for name in machine.asks.names
    }


def ranked(scores: dict[str, float]) -> list[str]:
    """The units by decreasing score."""
    return sorted(scores, key=lambda unit: (-scores[unit], unit))


@dataclass(frozen=True)
class Trial:
    """A model on draws of facts, for tests of sets of units.

    Attributes:
        machine: the model on the asks.
        seed: the seed of the bootstrap.
    """

    machine: Machine
    seed: int = 0

    def metric(self, logits: Tensor) -> Tensor:
        """The metric, a logit difference; shape (draw)."""
        asks = self.machine.asks
        return asks.by_draw(asks.difference(logits))

    @cached_property
    def full(self) -> Tensor:
        """The metric of the whole model."""
        return self.metric(self.machine.clean.logits)

    @cached_property
    def empty(self) -> Tensor:
        """The metric if no node computes."""
        return self.metric(self.machine.logits(self.machine.nothing()))

    def keeping(self, units: Iterable[str]) -> Tensor:
        """The metric with these units alone; shape (draw)."""
        return self.metric(self.machine.logits(mask(self.machine, units)))

    def without(self, units: Iterable[str]) -> Tensor:
        """The metric of the model without these units; shape (draw)."""
        return self.metric(self.machine.logits(~mask(self.machine, units)))

    def share(self, values: Tensor) -> float:
        """(m − m(none)) / (m(all) − m(none)), of means over draws."""
        return float((values.mean() - self.empty.mean()) / (self.full.mean() - self.empty.mean()))

    def kept(self, units: Iterable[str]) -> float:
        """The faithfulness of a set."""
        return self.share(self.keeping(units))

    def interval(self, values: Tensor) -> dict[str, float]:
        """A share with its 95 % interval under resampling of the draws."""
        generator = torch.Generator().manual_seed(self.seed)
        rows = torch.randint(len(values), (DRAWS, len(values)), generator=generator)
        some, none, whole = (one[rows].mean(1) for one in (values, self.empty, self.full))
        low, high = ((some - none) / (whole - none)).quantile(torch.tensor([0.025, 0.975])).tolist()
        return {"mean": self.share(values), "low": low, "high": high}

    def judged(self, units: Collection[str]) -> dict[str, Any]:
        """Sufficiency (`kept`) and necessity (`lost`: the share that is gone without the units), with intervals."""
        left = self.interval(self.without(units))
        lost = {"mean": 1 - left["mean"], "low": 1 - left["high"], "high": 1 - left["low"]}
        heads = sum(map(is_head, units))
        size = {"size": len(units), "heads": heads, "mlps": len(units) - heads}
        return {**size, "kept": self.interval(self.keeping(units)), "lost": lost}
