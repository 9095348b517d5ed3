"""Many changes of attention in one forward pass that branches where they differ.

Changes that leave the first layers alike share them: one copy of the sequences runs until two changes do different
things to a layer, then one of each kind. What is left out of a late layer costs only the layers after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

if TYPE_CHECKING:
    from hopscope.circuits.evaluator import Change, Evaluator

Groups = Sequence[Sequence[int]]  # of changes, by their place


class Branching:
    """A pass of some changes through a model that can start before any layer, and stop there.

    Attributes:
        keys: for every change and layer what the one does to the other, as a value; None where nothing.
        found: the answers, by the place of the change.
    """

    def __init__(self, evaluator: Evaluator, changes: Sequence[Change]):
        self.evaluator, self.changes = evaluator, changes
        self.n_layers = len(evaluator.layers)
        self.keys = [[key_of(change, layer) for layer in evaluator.layers] for change in changes]
        self.found: dict[int, Float[Tensor, "batch query output"]] = {}

    def answers(self) -> Float[Tensor, "change batch query output"]:
        """The model's answers under each change."""
        firsts = [next((i for i, key in enumerate(row) if key is not None), self.n_layers) for row in self.keys]
        start = min(min(firsts), self.n_layers - 1)
        stream = self.evaluator.streams[start] if start else self.evaluator.batch.inputs
        self.descend(start, stream[None], [[*range(len(self.changes))]])
        return torch.stack([self.found[place] for place in range(len(self.changes))])

    def descend(self, layer: int, stream: Shaped[Tensor, "group batch position ..."], groups: Groups) -> None:
        """Go on from a layer with groups of changes that are alike so far; each has its copy of the stream."""
        apart = [(parent, part) for parent, group in enumerate(groups) for part in self.parts(group, layer)]
        per_tile = max(1, self.evaluator.tile // len(self.evaluator.batch))
        for begin in range(0, len(apart), per_tile):
            some = apart[begin : begin + per_tile]
            parts = [part for _, part in some]
            copies = stream[torch.tensor([parent for parent, _ in some], device=stream.device)]
            until = self.next_branch(parts, layer)
            later = self.run(layer, until, copies, [self.changes[part[0]] for part in parts])
            if until == self.n_layers:
                self.found |= {place: later[i] for i, part in enumerate(parts) for place in part}
            else:
                self.descend(until, later, parts)

    def parts(self, group: Sequence[int], layer: int) -> list[list[int]]:
        """A group of changes, apart by what they do to a layer."""
        parts: dict[Hashable, list[int]] = defaultdict(list)
        for place in group:
            parts[self.keys[place][layer]].append(place)
        return list(parts.values())

    def next_branch(self, groups: Groups, layer: int) -> int:
        """The first layer after this one at which a group branches, or the number of layers."""
        several = [group for group in groups if len(group) > 1]
        later = range(layer + 1, self.n_layers)
        return next((i for i in later if any(len(self.parts(group, i)) > 1 for group in several)), self.n_layers)

    def run(
        self, start: int, stop: int, stream: Tensor, changes: Sequence[Change]
    ) -> Shaped[Tensor, "group batch ..."]:
        """Some layers, with a change for each copy of the sequences: the stream after them, or the answers."""
        n, evaluator = len(stream), self.evaluator

        def replaced(layer: int, actual: Tensor) -> Tensor:
            copies = actual.unflatten(0, (n, -1))
            return torch.cat([c.pattern(layer, copies[i], evaluator.ground) for i, c in enumerate(changes)])

        replace = {
            f"blocks.{layer}.attn.hook_pattern": lambda actual, layer=layer: replaced(layer, actual)
            for layer in range(start, stop)
        }
        last = stop == self.n_layers
        where = ({"start_at_layer": start} if start else {}) | ({} if last else {"stop_at_layer": stop})
        at = evaluator.batch.task.query_positions if last else None
        outputs: Tensor = evaluator.model(stream.flatten(0, 1), replace=replace, at=at, **where)
        return outputs.unflatten(0, (n, -1))


def key_of(change: Change, layer: int) -> Hashable:
    """What a change does to a layer, as a value; one that does not say is like no other from its first layer on."""
    if hasattr(change, "key"):
        key: Hashable = change.key(layer)
        return key
    return None if layer < change.first_layer else id(change)
