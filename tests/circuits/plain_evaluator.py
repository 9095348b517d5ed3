"""A second evaluator of circuits, in plain PyTorch from weights and docs/circuits.md alone, to check the first one by.

Of the package it uses the task's inputs, targets and roles, and nothing that computes with them: no model class, no
patterns, no changes, no losses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = Mapping[str, Tensor]
Unit = tuple[int, int, str, str | None, str | None]  # layer, head, query, and key and chain, or None: the whole row


class Plain:
    """A transformer's weights on some sequences of a task.

    Args:
        weights: by name, as stored.
        shape: the architecture's settings.
        task: whose sequences.
        n: how many.
        seed: of them.
    """

    def __init__(self, weights: Weights, shape: Mapping[str, Any], task: Any, n: int, seed: int):
        assert shape["attention"] in ("softmax", "kv_shift") and shape["causal"]
        assert shape["positions"] in (None, "learned", "input", "none") or shape["positions"].startswith("relative(")
        self.w, self.shape, self.task = weights, shape, task
        self.batch = task.sample(n, seed)
        self.inputs, self.targets, roles = self.batch.inputs, self.batch.targets, self.batch.searched
        n_positions = self.inputs.shape[1]
        self.sees = torch.ones(n_positions, n_positions, dtype=torch.bool).tril()
        self.even = self.sees / self.sees.sum(-1, keepdim=True)
        self.chain, self.matches = roles.chain, getattr(roles, "matches", None)
        self.names = list(roles.names)
        self.rows = [
            (layer, head, role)
            for layer in range(shape["n_layers"])
            for head in range(shape["n_heads"])
            for role in [*self.names, *(["(none)"] if bool((~self.named_at()).any()) else [])]
        ]

    # Roles ---------------------------------------------------------------------------------------------------

    def named_at(self) -> Tensor:
        """Which positions hold any role, batch position."""
        held = (self.chain != -1).any(1)
        return held if self.matches is None else held | torch.stack([m.any(1) for m in self.matches.values()]).any(0)

    def holders(self, role: str) -> Tensor:
        """Which positions hold a role, batch position."""
        return ~self.named_at() if role == "(none)" else self.chain[:, self.names.index(role)] != -1

    def entries(self, unit: Unit) -> Tensor:
        """The entries of a pattern that a unit is, batch query key."""
        _, _, query, key, relation = unit
        if key is None:
            return self.holders(query)[..., None] & self.sees
        if self.matches is not None:
            none = torch.zeros_like(self.matches[key])
            return self.holders(query)[..., None] & self.matches[key] & self.sees if relation == "same" else none
        mine, theirs = self.chain[:, self.names.index(query), :, None], self.chain[:, self.names.index(key), None, :]
        same = (mine == theirs) & (mine >= 0)
        both = (mine != -1) & (theirs != -1)
        return (same if relation == "same" else both & ~same) & self.sees

    # What patterns become ------------------------------------------------------------------------------------

    def kept(self, units: Iterable[Unit], identity: Iterable[tuple[int, int, str]] = ()) -> Any:
        """Units as computed; what is left of their rows, and all other rows, uniform; those of identity on oneself."""
        units, identity = list(units), list(identity)

        def change(layer: int, pattern: Tensor) -> Tensor:
            result = self.even.expand_as(pattern).clone()
            for at, head, role in identity:
                if at == layer:
                    own = self.holders(role)[..., None]
                    result[:, head] = torch.where(own, torch.eye(len(self.even)), result[:, head])
            for head in range(pattern.shape[1]):
                mask = torch.zeros_like(self.sees).expand(len(pattern), -1, -1).clone()
                for unit in units:
                    if unit[:2] == (layer, head):
                        mask |= self.entries(unit)
                kept, elsewhere = pattern[:, head] * mask, result[:, head] * ~mask
                total = elsewhere.sum(-1, keepdim=True)
                fill = elsewhere * (1 - kept.sum(-1, keepdim=True)) / total.clamp(min=1e-30)
                result[:, head] = kept + torch.where(total > 0, fill, 0.0)
            return result

        return change

    def by_hand(self, paths: Mapping[Unit, float]) -> Any:
        """Rows of paths ideal, several of one row by their weights; all else uniform."""

        def change(layer: int, pattern: Tensor) -> Tensor:
            total, weight = torch.zeros_like(pattern), torch.zeros(pattern.shape[:3])
            for path, strength in paths.items():
                if path[0] == layer:
                    targets = self.entries(path)
                    if self.task.ideal_over == "latest":
                        places = torch.arange(targets.shape[-1])
                        last = torch.where(targets, places, -1).amax(-1, keepdim=True)
                        targets = targets & (places == last)
                    count = targets.sum(-1, keepdim=True)
                    total[:, path[1]] += strength * targets / count.clamp(min=1)
                    weight[:, path[1]] += strength * (count[..., 0] > 0)
            return torch.where(weight[..., None] > 0, total / weight[..., None].clamp(min=1e-9), self.even)

        return change

    # The forward pass ----------------------------------------------------------------------------------------

    def norm(self, x: Tensor, name: str) -> Tensor:
        if not self.shape["layer_norm"]:
            return x
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / (variance + 1e-5).sqrt() * self.w[f"{name}.w"] + self.w[f"{name}.b"]

    @torch.no_grad()
    def outputs(self, change: Any = lambda layer, pattern: pattern, seen: list[Tensor] | None = None) -> Tensor:
        """What the model answers with its patterns changed; `seen` gets them as they were computed."""
        w, n_heads = self.w, self.shape["n_heads"]
        x = w["W_E"][self.inputs] if self.inputs.ndim == 2 else self.inputs @ w["W_E"] + w["b_E"]
        x = x + w["W_pos"][: x.shape[1]] if "W_pos" in w else x
        away = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        for layer in range(self.shape["n_layers"]):
            name = f"blocks.{layer}"
            y, z = self.norm(x, f"{name}.ln1"), torch.zeros_like(x)
            patterns, values = [], []
            for head in range(n_heads):
                into, bias = w[f"{name}.attn.W_QKV"][:, head], w[f"{name}.attn.b_QKV"][:, head]
                q, k, v = (y @ into[which] + bias[which] for which in range(3))
                if self.shape["attention"] == "kv_shift":  # k'_i = a k_i + a' k_(i-1), and values likewise
                    (a, b), (c, d) = (w[f"{name}.attn.variant.{which}_mix"][head] for which in ("key", "value"))
                    k = a * k + b * F.pad(k, (0, 0, 1, 0))[:, :-1]
                    v = c * v + d * F.pad(v, (0, 0, 1, 0))[:, :-1]
                scores = q @ k.mT / math.sqrt(q.shape[-1])
                if f"{name}.attn.positions.beta" in w:
                    scores = scores + self.scale * w[f"{name}.attn.positions.beta"][head][away.abs()]
                patterns.append(scores.masked_fill(~self.sees, -math.inf).softmax(-1))
                values.append(v)
            computed = torch.stack(patterns, 1)
            if seen is not None:
                seen.append(computed)
            changed = change(layer, computed)
            for head in range(n_heads):
                z = z + changed[:, head] @ values[head] @ w[f"{name}.attn.W_O"][head]
            x = x + z + w[f"{name}.attn.b_O"]
            if self.shape["mlp"]:
                y = self.norm(x, f"{name}.ln2")
                hidden = F.gelu(y @ w[f"{name}.mlp.W_in"] + w[f"{name}.mlp.b_in"], approximate="tanh")
                x = x + hidden @ w[f"{name}.mlp.W_out"] + w[f"{name}.mlp.b_out"]
        x = self.norm(x, "ln_final")[:, self.task.query_positions]
        return x @ w["W_U"] + w["b_U"]

    @property
    def scale(self) -> float:
        """Of the relative code's bias."""
        told = str(self.shape["positions"])
        return float(told.split("scale=")[1].split(",")[0].rstrip(")")) if "scale=" in told else 10.0

    # What is measured ----------------------------------------------------------------------------------------

    def strength(self, path: Unit, patterns: list[Tensor]) -> float:
        """Mean attention on a path over the positions that have a target."""
        mask = self.entries(path)
        on = (patterns[path[0]][:, path[1]] * mask).sum(-1)
        return float(on[mask.any(-1)].mean())

    def losses(self, outputs: Tensor) -> Tensor:
        """Of each sequence: squared errors, or cross-entropies in nats, the mean over what is asked."""
        if self.targets.is_floating_point():
            return ((outputs - self.targets) ** 2).flatten(1).mean(1)
        hops = self.targets.shape[-1]
        logits = outputs.unflatten(-1, (-1, self.task.n_logits)).log_softmax(-1)  # batch query hop vocab
        logits = logits.expand(-1, -1, hops, -1)  # where one set of logits serves all kinds of positions
        asked = self.targets != -100
        each = -logits.gather(-1, self.targets.clamp(min=0)[..., None])[..., 0] * asked
        if logits.shape[2] > 1 and outputs.shape[-1] > self.task.n_logits:  # hops count alike
            return (each.sum(1) / asked.sum(1).clamp(min=1)).mean(-1)
        return each.flatten(1).sum(1) / asked.flatten(1).sum(1).clamp(min=1)


def subsets(units: Iterable[Unit], most: int = 12) -> list[frozenset[Unit]]:
    """All proper subsets of up to so many units; of more, all removals of up to three."""
    ordered = sorted(units, key=str)
    least = 0 if len(ordered) <= most else len(ordered) - 3
    return [frozenset(chosen) for n in range(least, len(ordered)) for chosen in itertools.combinations(ordered, n)]
