"""Why a head attends where it does: which earlier paths supply a path's query, its key, and the value it carries.

For two paths of a circuit, the earlier one is left out, and what the later head then reads as query (or key, or value)
is put into the intact circuit: path patching (Wang et al., 2022; Goldowsky-Dill et al., 2023). Attention layers between
the two are held as they were, so that only what arrives directly, or through MLPs, counts. What suffers is measured:
the attention on the path for queries and keys, the loss for values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator, Kept
from hopscope.circuits.units import Ground, Row, Unit
from hopscope.models.base import Cache
from hopscope.problem.paths import Path

Part = Literal["query", "key", "value"]
HOOKS: Mapping[Part, str] = {"query": "q", "key": "k", "value": "v"}
LEAST_SHARE = 0.25  # of the attention, or of what the path is worth in loss: below, a supply is not reported (ours)


@dataclass(frozen=True)
class Supply:
    """One path feeds another.

    Attributes:
        path: which attends.
        part: what of it is fed.
        source: the earlier path that feeds it.
        before: mean attention on the path in the circuit (query, key), or the circuit's loss (value).
        after: the same with the source's contribution to this part alone taken away.
    """

    path: Path
    part: Part
    source: Path
    before: float
    after: float

    def as_dict(self) -> dict[str, Any]:
        """As in circuit.json."""
        return {
            "path": self.path.as_dict(),
            "supplies": self.part,
            "by": self.source.as_dict(),
            "before": round(self.before, 6),
            "after": round(self.after, 6),
        }


def certify(
    evaluator: Evaluator, units: Sequence[Unit], null: str = "uniform", identity: frozenset[Row] = frozenset()
) -> list[Supply]:
    """All supplies between the paths of a circuit that matter by at least `LEAST_SHARE`.

    Args:
        evaluator: the model on sequences.
        units: the circuit.
        null: of all that is not in it, but for the rows that are
        identity: they attend to themselves.
    """
    circuit = Intact(evaluator, units, null, identity)
    paths = sorted(unit for unit in units if isinstance(unit, Path))
    pairs = [(path, source) for path in paths for source in paths if source.layer < path.layer]
    return [supply for path, source in pairs for supply in circuit.supplies(path, source)]


class Intact:
    """A circuit's own forward pass, with all that is patched into others."""

    def __init__(self, evaluator: Evaluator, units: Iterable[Unit], null: str, identity: frozenset[Row]):
        self.evaluator, self.units, self.null, self.identity = evaluator, frozenset(units), null, identity
        self.whole, self.loss = self.run(self.units, {})

    @torch.no_grad()
    def run(self, units: frozenset[Unit], replace: Mapping[str, Any]) -> tuple[Cache, float]:
        """Activations and loss with the units kept, and some activations replaced."""
        evaluator, change = self.evaluator, Kept(units, self.null, self.identity)
        evaluator.forwards += 1
        patterns = {
            f"blocks.{layer}.attn.hook_pattern": lambda actual, layer=layer: change.pattern(
                layer, actual, evaluator.ground
            )
            for layer in evaluator.layers
        }
        task, batch = evaluator.batch.task, evaluator.batch
        outputs, cache = evaluator.model(
            batch.inputs, replace={**patterns, **replace}, cache=True, at=task.query_positions
        )
        return cache, float(task.loss(outputs, batch.targets))

    def attention(self, path: Path, cache: Cache) -> float:
        """Mean attention on a path in one of the runs."""
        return self.evaluator.attention(path, [cache["pattern", layer] for layer in self.evaluator.layers])

    def supplies(self, path: Path, source: Path) -> list[Supply]:
        """Which parts of a path an earlier one feeds."""
        between = {f"blocks.{i}.hook_attn_out": self.whole["attn_out", i] for i in range(source.layer + 1, path.layer)}
        lacking, _ = self.run(self.units - {source}, between)
        found = []
        for part, short in HOOKS.items():
            name = f"blocks.{path.layer}.attn.hook_{short}"
            role = path.query if part == "query" else path.key
            patched = patch(lacking[name], self.evaluator.ground, role, path.head)
            cache, loss = self.run(self.units, {name: patched})
            if part == "value":
                worth = self.run(self.units - {path}, {})[1] - self.loss
                if loss - self.loss >= LEAST_SHARE * max(worth, 1e-9):
                    found.append(Supply(path, part, source, self.loss, loss))
                continue
            before, after = self.attention(path, self.whole), self.attention(path, cache)
            if before - after >= LEAST_SHARE * before:
                found.append(Supply(path, part, source, before, after))
        return found


def patch(other: Tensor, ground: Ground, role: str, head: int) -> Any:
    """A replacement that takes another run's vectors (batch position head d_head) for one head, at one role."""
    at = torch.zeros(other.shape[:3], dtype=torch.bool, device=other.device)
    at[:, :, head] = ground.holders(role)
    return lambda actual: torch.where(at[..., None], other, actual)


def suppliers(supplies: Iterable[Supply], path: Path) -> dict[Part, list[Path]]:
    """Who feeds a path's query, key and value."""
    found: dict[Part, list[Path]] = {"query": [], "key": [], "value": []}
    for supply in supplies:
        if supply.path == path:
            found[supply.part].append(supply.source)
    return found
