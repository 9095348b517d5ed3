"""Edges between the places of a circuit: which output feeds whose query, key, value or MLP (path patching).

Everything outside the circuit writes what it wrote on the paired prompt. A place reads that stream, changed by those of
its senders whose edge is kept (ACDC, Conmy et al., 2023; Goldowsky-Dill et al., 2023). Because few places compute, a
run costs a small share of the model's. Scores of edges are integrated gradients of their gates, from all shut to all
open (Sundararajan et al., 2017), which is EAP-IG within the circuit. They add up to the effect of the circuit. If a
norm follows attention, the effect of heads at one layer and position is not additive. Each head then gets the change
that it makes after those before it have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope_studies.real_hop.language.machine import Machine
from hopscope_studies.real_hop.language.scores import STEPS
from hopscope_studies.real_hop.language.trial import is_head, where

INPUT, LOGITS = "input", "logits"


@dataclass(frozen=True)
class Edge:
    """From a place, or the input there, to a place or the logits; `part` is what it feeds in a head: q, k or v."""

    sender: str
    receiver: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver}" + (f"<{self.part}>" if self.part else "")


class Between:
    """A circuit's places and the possible edges between them.

    Args:
        machine: the model on asks.
        places: the places of the circuit.
    """

    def __init__(self, machine: Machine, places: Collection[str]):
        self.machine = machine
        self.places = sorted(places, key=self.order)
        differs = (machine.asks.suffix != machine.asks.suffix[machine.asks.other]).any(0)
        self.inputs = [
            f"{INPUT}@{name}" for name, is_other in zip(machine.asks.names, differs, strict=True) if is_other
        ]
        self.edges = [edge for receiver in [*self.places, LOGITS] for edge in self.into(receiver)]
        self.number = {edge: i for i, edge in enumerate(self.edges)}
        layers = {where(place, machine)[0] for place in self.places if is_head(place)}
        with torch.no_grad():
            self.keys = {layer: machine.project(layer, machine.corrupt.streams[layer])[1:] for layer in layers}

    def order(self, place: str) -> tuple[int, bool, int, int]:
        layer, position, number = where(place, self.machine)
        assert isinstance(position, int)
        return layer, not is_head(place), position, number

    def position(self, place: str) -> int:
        return self.machine.asks.names.index(place.partition("@")[2])

    def into(self, receiver: str) -> list[Edge]:
        """All possible edges to a place, or to the logits, which are read at the last position."""
        if receiver == LOGITS:
            last = self.machine.size - 1
            return [Edge(place, LOGITS) for place in self.places if self.position(place) == last]
        level, here = self.order(receiver)[:2], self.position(receiver)
        before = self.inputs + [place for place in self.places if self.order(place)[:2] < level]
        at = [one for one in before if self.position(one) == here]
        if not is_head(receiver):
            return [Edge(one, receiver) for one in at]
        seen = [one for one in before if self.position(one) <= here]
        return [Edge(one, receiver, "q") for one in at] + [Edge(one, receiver, part) for part in "kv" for one in seen]

    # One run ---------------------------------------------------------------------------------------------------

    def logits(self, gates: Tensor) -> Tensor:
        """The choices' logits with every edge open by its gate (0–1); shape (row, choice)."""
        machine = self.machine
        way = machine.clean.streams[0] - machine.corrupt.streams[0]
        change = {one: way[:, self.position(one)] for one in self.inputs}
        arriving: dict[tuple[str, str], list[Edge]] = {}
        for edge in self.edges:
            arriving.setdefault((edge.receiver, edge.part), []).append(edge)

        def read(stream: Tensor, receiver: str, part: str = "") -> Tensor:
            for edge in arriving.get((receiver, part), ()):
                stream = stream + gates[self.number[edge]] * change[edge.sender]
            return stream

        handed: dict[tuple[int, int], Tensor] = {}
        for place in self.places:
            layer, position, number = where(place, machine)
            assert isinstance(position, int)
            if is_head(place):
                q = read(machine.corrupt.streams[layer][:, position], place, "q")
                kept = [self.behind(gates, arriving.get((place, part), ()), change, layer, part) for part in "kv"]
                z = self.head(layer, number, position, q, *kept)
                before = handed.get((layer, position), machine.corrupt.z[layer][:, position])
                change[place] = machine.share(layer, number, before, z)
                handed[layer, position] = torch.cat([before[:, :number], z[:, None], before[:, number + 1 :]], 1)
            else:
                middle = machine.corrupt.streams[layer] + machine.corrupt.attention[layer]
                out = machine.mlp(layer, read(middle[:, position], place))
                change[place] = out - machine.corrupt.mlp[layer][:, position]
        return machine.read_off(read(machine.corrupt.streams[-1][:, -1], LOGITS)[:, None])

    def behind(self, gates: Tensor, edges: Sequence[Edge], change: dict[str, Tensor], layer: int, part: str) -> Tensor:
        """Keys or values of the suffix, recomputed where an edge arrives."""
        machine, known = self.machine, self.keys[layer][part == "v"]
        found = machine.corrupt.streams[layer]
        positions = sorted({self.position(edge.sender) for edge in edges})
        if not positions:
            return known
        streams = {position: found[:, position] for position in positions}
        for edge in edges:
            streams[self.position(edge.sender)] = (
                streams[self.position(edge.sender)] + gates[self.number[edge]] * change[edge.sender]
            )
        index = torch.tensor(positions)
        new = machine.part(layer, part, torch.stack([streams[one] for one in positions], 1), index)
        return known.index_copy(2, index, new)

    def head(self, layer: int, number: int, position: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """A head's input to the output projection at a position; shape (row, d_head)."""
        machine = self.machine
        shared = number * k.shape[1] // machine.n_heads  # query heads share keys and values
        query = machine.part(layer, "q", q[:, None], torch.tensor([position]))[:, number, 0]
        keys, values = (
            torch.cat([fact[:, shared], own[:, shared]], 1)
            for fact, own in zip(machine.facts[layer], (k, v), strict=True)
        )
        scaling = machine.lens.layers[layer].self_attn.scaling
        scores = torch.einsum("rd,rkd->rk", query, keys) * scaling + machine.masks[layer][position]
        return torch.einsum("rk,rkd->rd", scores.softmax(-1), values)

    # Scores and sets -------------------------------------------------------------------------------------------

    def scores(self, steps: int = STEPS) -> dict[Edge, float]:
        """Integrated gradients of the metric with respect to the edges' gates."""
        total = torch.zeros(len(self.edges))
        for step in range(steps):
            with torch.enable_grad():
                gates = torch.full((len(self.edges),), (step + 0.5) / steps, requires_grad=True)
                self.machine.asks.difference(self.logits(gates)).mean().backward()
            assert gates.grad is not None
            total += gates.grad / steps
        return dict(zip(self.edges, total.tolist(), strict=True))

    @torch.no_grad()
    def keeping(self, edges: Collection[Edge]) -> Tensor:
        """The choices' logits with some edges open and all others shut."""
        gates = torch.zeros(len(self.edges))
        gates[[self.number[edge] for edge in edges]] = 1
        return self.logits(gates)


def on_the_way(ends: Collection[tuple[str, str]]) -> set[str]:
    """The places on a path from an input to the logits, both ends included, given the edges' ends."""

    def reached(start: set[str], steps: Collection[tuple[str, str]]) -> set[str]:
        found, new = set(start), set(start)
        while new:
            new = {b for a, b in steps if a in new} - found
            found |= new
        return found

    inputs = {sender for sender, _ in ends if sender.startswith(INPUT)}
    return reached(inputs, ends) & reached({LOGITS}, [(b, a) for a, b in ends])
