"""A gate of 0–1 on every path, which gradients can pass: attribution, learned masks, and what to add to a circuit.

Where all gates are 0 or 1, and rows of patterns sum to 1, the spread form is the evaluator's `Kept`. The plain form,
gate·A + (1 − gate)·null entry by entry, is that of attribution: its rows need not sum to 1. On the way from all 0 to
all 1 with equal gates both are the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.changes import nulls
from hopscope.circuits.evaluator import Evaluator, Pattern
from hopscope.circuits.units import NO_ROLE, Ground, Row
from hopscope.models.base import Replacement
from hopscope.problem.paths import Path


class Gates:
    """The model with a gate on every path, differentiably: 1 as computed, 0 null. Rows without a role stay as computed.

    Args:
        evaluator: the model on sequences.
        null: kind of the null patterns.
        form: `plain` or `spread`.
        rows: which sequences; all of them by default.
        identity: rows whose null pattern is oneself.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        null: str = "uniform",
        form: Literal["plain", "spread"] = "plain",
        rows: slice = slice(None),
        identity: frozenset[Row] = frozenset(),
    ):
        self.null, self.form, self.identity = null, form, identity
        self.model, batch = evaluator.model, evaluator.batch
        whole = rows == slice(None)
        self.ground = evaluator.ground if whole else Ground(batch.rows(rows), self.model.architecture)
        self.share = len(self.ground.batch) / len(batch)
        self.forwards = 0.0  # over the whole set, as are
        self.backwards = 0.0
        self.layers = evaluator.layers
        self.paths = evaluator.ground.paths
        kinds = evaluator.ground.kinds
        self.masks = torch.stack([self.ground.entries(Path(0, 0, *kind)) for kind in kinds]).float()
        shape = self.model.architecture
        self.shape = (shape.n_layers, shape.n_heads, len(kinds))
        where = {kind: i for i, kind in enumerate(kinds)}
        #: The place of every path in a tensor of gates.
        self.places = [(p.layer, p.head, where[p.query, p.key, p.chain]) for p in self.paths]

    def at(self, paths: Collection[Path]) -> Float[Tensor, "layer head kind"]:
        """Gates that are 1 on some paths and 0 on all others."""
        gates = torch.zeros(self.shape, device=self.masks.device)
        for path, place in zip(self.paths, self.places, strict=True):
            gates[place] = float(path in paths)
        return gates

    def loss(self, gates: Float[Tensor, "layer head kind"]) -> Float[Tensor, ""]:
        """The task's loss under some gates."""
        return self.ground.batch.task.loss(self.outputs(gates), self.ground.batch.targets)

    def outputs(self, gates: Float[Tensor, "layer head kind"]) -> Float[Tensor, "batch query output"]:
        """The model's answers under some gates."""
        self.forwards += self.share
        batch = self.ground.batch
        return self.model(batch.inputs, replace=self.replaced(gates), at=batch.task.query_positions)

    def replaced(self, gates: Float[Tensor, "layer head kind"]) -> dict[str, Replacement]:
        """What the model's activations are replaced by: every pattern by its mixture with the null."""
        return {
            f"blocks.{layer}.attn.hook_pattern": lambda actual, layer=layer: self.pattern(layer, actual, gates[layer])
            for layer in self.layers
        }

    def pattern(self, layer: int, actual: Pattern, gates: Float[Tensor, "head kind"]) -> Pattern:
        """One layer's pattern under its gates."""
        kept = torch.einsum("hk,kbqs->bhqs", gates, self.masks).clamp(max=1.0)
        if NO_ROLE in self.ground.query_roles:
            kept = torch.where(self.ground.holders(NO_ROLE)[:, None, :, None], 1.0, kept)
        nothing = nulls(self.null, self.identity, layer, actual, self.ground)
        on, off = actual * kept, nothing * (1 - kept)
        if self.form == "plain":
            return on + off
        lacking, filled = 1 - on.sum(-1, keepdim=True), off.sum(-1, keepdim=True)
        enough = filled > 1e-6
        return on + torch.where(enough, off * (lacking / torch.where(enough, filled, 1.0)), 0.0)

    def gradient(self, gates: Float[Tensor, "layer head kind"]) -> tuple[float, Float[Tensor, "layer head kind"]]:
        """The loss, and its derivative by every gate."""
        leaf = gates.detach().clone().requires_grad_()
        with torch.enable_grad():
            loss = self.loss(leaf)
            [gradient] = torch.autograd.grad(loss, [leaf])
        self.backwards += self.share
        return float(loss.detach()), gradient

    def by_path(self, values: Float[Tensor, "layer head kind"]) -> dict[Path, float]:
        """A tensor of gates as a number for every path."""
        numbers = values.tolist()
        return {path: numbers[a][b][c] for path, (a, b, c) in zip(self.paths, self.places, strict=True)}
