"""Why a head attends where it does: which earlier paths supply a path's query, its key, and the value it carries.

For two paths of a circuit, the earlier one is left out, and what the later head then reads as query (or key, or value)
is put into the intact circuit: path patching (Wang et al., 2022; Goldowsky-Dill et al., 2023). Attention layers between
the two are held as they were, so that only what arrives directly, or through MLPs, counts. The effect is measured as
the drop in attention on the path for queries and keys, and as the rise in loss for values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hopscope.circuits.evaluator import Evaluator, Kept
from hopscope.circuits.units import Ground, Row, Unit, paths_of
from hopscope.interventions.engine import PATTERN, STREAM
from hopscope.problem.paths import Path

Part = Literal["query", "key", "value"]
HOOKS: Mapping[Part, str] = {"query": "q", "key": "k", "value": "v"}
HELD = "attn.hook_z"  # what attention layers are held by: what their heads say
LEAST_SHARE = 0.25  # of the attention, or of what the path is worth in loss: below, a supply is not reported (ours)


@dataclass(frozen=True)
class Supply:
    """One path feeds another.

    Attributes:
        path: the later path, which is fed.
        part: which of its inputs is fed: query, key or value.
        source: the earlier path that feeds it.
        before: mean attention on the path in the circuit (query, key), or the circuit's loss (value).
        after: the same when only the source's contribution to this part is removed.
    """

    path: Path
    part: Part
    source: Path
    before: float
    after: float

    def as_dict(self) -> dict[str, Any]:
        """The entry in circuit.json."""
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
        null: the null pattern of everything outside the circuit, except for the rows in `identity`.
        identity: rows whose null is that each position attends to itself.

    Returns:
        The supplies; an empty list for a model whose queries, keys and values cannot be replaced (`can_be_asked`).
    """
    if not can_be_asked(evaluator):
        return []
    circuit = Intact(evaluator, units, null, identity)
    paths = paths_of(units)
    pairs = [(path, source) for path in paths for source in paths if source.layer < path.layer]
    return [supply for path, source in pairs for supply in circuit.supplies(path, source)]


def can_be_asked(evaluator: Evaluator) -> bool:
    """Whether the model exposes every activation that certificates patch. The search needs only patterns."""
    known = {*evaluator.model.activation_names}
    names = [PATTERN, HELD, *(f"attn.hook_{short}" for short in HOOKS.values())]
    names += [STREAM] if evaluator.model.starts_at_layers else []
    return {f"blocks.{layer}.{name}" for layer in evaluator.layers for name in names} <= known


class Intact:
    """The intact circuit's forward pass and its activations, from which patches are taken.

    Only the layers that matter are run: from the first one that is changed to the last one that is read.
    """

    def __init__(self, evaluator: Evaluator, units: Iterable[Unit], null: str, identity: frozenset[Row]):
        self.evaluator, self.units, self.null, self.identity = evaluator, frozenset(units), null, identity
        names = [HELD, PATTERN, *([STREAM] if evaluator.model.starts_at_layers else [])]
        kept = [f"blocks.{layer}.{name}" for layer in evaluator.layers for name in names]
        outputs, self.whole = self.run(self.units, {}, kept)
        self.loss = self.loss_of(outputs)
        self.without: dict[tuple[Unit, int], Mapping[Any, Tensor]] = {}
        self.worth: dict[Path, float] = {}

    @torch.no_grad()
    def run(
        self,
        units: frozenset[Unit],
        replace: Mapping[str, Any],
        cache: Sequence[str] = (),
        start: int = 0,
        stop: int | None = None,
    ) -> tuple[Tensor, Mapping[Any, Tensor]]:
        """Outputs and activations of layers start to stop, with some units kept and some activations replaced."""
        evaluator = self.evaluator
        evaluator.count(1)
        start, stop = (start, stop) if evaluator.model.starts_at_layers else (0, None)
        changed = evaluator.changed([Kept(units, self.null, self.identity)], start, stop) | dict(replace)
        stream = self.whole["resid_pre", start] if start else evaluator.batch.inputs
        return evaluator.through(stream, changed, start, stop, cache)

    def loss_of(self, outputs: Tensor) -> float:
        return float(self.evaluator.batch.task.loss(outputs, self.evaluator.batch.targets))

    def attention(self, path: Path, cache: Mapping[Any, Tensor]) -> float:
        """Mean attention on a path in one of the runs."""
        return self.evaluator.attention(path, {path.layer: cache["pattern", path.layer]})

    def lacking(self, source: Unit, layer: int) -> Mapping[Any, Tensor]:
        """Queries, keys and values of a layer without an earlier unit; layers in between keep their attention."""
        if (source, layer) not in self.without:
            held = (f"blocks.{i}.{HELD}" for i in range(source.layer + 1, layer))
            between = {name: self.whole[name] for name in held}
            names = [f"blocks.{layer}.attn.hook_{short}" for short in HOOKS.values()]
            _, kept = self.run(self.units - {source}, between, names, source.layer, layer + 1)
            self.without[source, layer] = kept
        return self.without[source, layer]

    def worth_of(self, path: Path) -> float:
        """By how much the circuit's loss rises without a path."""
        if path not in self.worth:
            self.worth[path] = self.loss_of(self.run(self.units - {path}, {}, start=path.layer)[0]) - self.loss
        return self.worth[path]

    def supplies(self, path: Path, source: Path) -> list[Supply]:
        """The supplies from an earlier path to a later one, for each of query, key and value."""
        lacking, layer, found = self.lacking(source, path.layer), path.layer, []
        for part, short in HOOKS.items():
            name = f"blocks.{layer}.attn.hook_{short}"
            role = path.query if part == "query" else path.key
            patched = {name: patch(lacking[name], self.evaluator.ground, role, path.head)}
            if part == "value":
                loss = self.loss_of(self.run(self.units, patched, start=layer)[0])
                if 0 < LEAST_SHARE * self.worth_of(path) <= loss - self.loss:
                    found.append(Supply(path, part, source, self.loss, loss))
                continue
            _, cache = self.run(self.units, patched, [f"blocks.{layer}.{PATTERN}"], layer, layer + 1)
            before, after = self.attention(path, self.whole), self.attention(path, cache)
            if before - after >= LEAST_SHARE * before:
                found.append(Supply(path, part, source, before, after))
        return found


def patch(other: Tensor, ground: Ground, role: str, head: int) -> Any:
    """A replacement for one head's vectors (batch position head d_head) at one role: those of another run."""
    at = torch.zeros(other.shape[:3], dtype=torch.bool, device=other.device)
    at[:, :, head] = ground.holders(role)
    return lambda actual: torch.where(at[..., None], other, actual)
