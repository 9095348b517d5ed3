"""A circuit as an attribution graph: the JSON of circuit-tracer and Neuronpedia (Ameisen et al., 2025).

A node is a path at one position of an example, so that roles become positions in a prompt. Tokens are drawn below,
answers above. Usual attribution graphs are made of features and first-order attributions. Ours are made of attention
paths, and every weight is a measured share. From a token to a head, it is the share of the head's attention that falls
on the token. From a head to a head, it is the share of attention on the target, or of the path's effect on the loss,
that is lost without what the first head feeds into the second. From a head to an answer, it is the share of the gap in
loss between null and circuit that is lost without the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hopscope.circuits.certificates import Supply
from hopscope.circuits.circuit import Circuit, Found
from hopscope.circuits.units import Ground
from hopscope.circuits.words import symbols_at
from hopscope.models.base import Shape
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch

WEIGHTS = (
    "Every weight is a measured share, from 0 to 1 but for chance: token to head, of the head's attention; head to "
    "head, of the attention or the loss that path patching costs; head to answer, of the gap from null to circuit that "
    "is lost without it."
)


def attribution_graph(circuit: Circuit, batch: Batch, shape: Shape, scan: str, slug: str) -> dict[str, Any]:
    """The circuit on one sequence, in the format of viewers of attribution graphs.

    Args:
        circuit: the circuit, with its paths and supplies.
        batch: sequences of its task; the first is shown.
        shape: the model's shape.
        scan: the model's name.
        slug: the graph's name.
    """
    drawn = Drawn(circuit, Ground(batch, shape), shape.n_layers)
    links = list(drawn.links())
    used = {end for link in links for end in (link["source"], link["target"])}
    nodes = [node for node in drawn.nodes() if node["node_id"] in used]
    tokens = symbols_at(batch, 0)
    info = {
        "description": f"{circuit.verdict}: {circuit.reason}. {WEIGHTS}",
        "generator": {"name": "hopscope"},
    }
    metadata = {"slug": slug, "scan": scan, "prompt_tokens": tokens, "prompt": " ".join(tokens), "info": info}
    groups = [[name, *members] for name, members in drawn.supernodes(used).items()]
    pinned = [member for group in groups for member in group[1:]]
    return {
        "metadata": metadata,
        "qParams": {"pinnedIds": pinned, "supernodes": groups},
        "nodes": nodes,
        "links": links,
    }


@dataclass(frozen=True)
class Drawn:
    """A circuit on one sequence.

    Attributes:
        circuit: the circuit that is drawn.
        ground: the sequence.
        n_layers: number of layers of the model; answers are drawn above the last.
    """

    circuit: Circuit
    ground: Ground
    n_layers: int

    def cells(self, path: Path) -> dict[int, list[int]]:
        """The attended positions of a path, by attending position."""
        entries = self.ground.entries(path)[0]
        return {at: row.nonzero()[:, 0].tolist() for at, row in enumerate(entries) if row.any()}

    @property
    def answers(self) -> list[int]:
        """The positions at which answers are read."""
        n = self.ground.batch.inputs.shape[1]
        return list(range(n))[self.ground.batch.task.query_positions]

    def nodes(self) -> Iterator[dict[str, Any]]:
        """All nodes: tokens, paths at their attending positions, and answers."""
        symbols, labels = symbols_at(self.ground.batch, 0), self.ground.roles.labels(0)
        for at, symbol in enumerate(symbols):
            yield node(token(at), "E", at, "embedding", f"{symbol} ({labels[at]})" if labels[at] else symbol)
        for found in self.circuit.paths:
            for at in self.cells(found.path):
                yield node(
                    head(found.path, at), str(found.path.layer), at, "attention head", str(found.path), found.path.head
                ) | {"activation": round(found.strength, 4)}
        for at in self.answers:
            yield node(answer(at), str(self.n_layers), at, "logit", f"answer to {symbols[at]}")

    def links(self) -> Iterator[dict[str, Any]]:
        """All links with their measured weights."""
        for found in self.circuit.paths:
            cells = self.cells(found.path)
            for q, keys in cells.items():
                yield from (link(token(k), head(found.path, q), found.strength / len(keys)) for k in keys)
            if found.path.query == "query":
                share = self.worth(found) / max(self.gap, 1e-12)
                yield from (link(head(found.path, q), answer(q), share) for q in cells if q in self.answers)
        for supply in self.circuit.supplies:
            yield from self.fed(supply)

    def fed(self, supply: Supply) -> Iterator[dict[str, Any]]:
        """The links of a supply.

        They start where the source attends. For a query, this is the attending position of the fed path; for keys and
        values, it is an attended one.
        """
        share = self.lost(supply)
        holders = self.cells(supply.source)
        for q, keys in self.cells(supply.path).items():
            ends = [at for at in ([q] if supply.part == "query" else keys) if at in holders]
            yield from (
                link(head(supply.source, at), head(supply.path, q), share) | {"part": supply.part} for at in ends
            )

    @property
    def gap(self) -> float:
        """The loss with every head null minus the circuit's loss."""
        return self.circuit.losses["null"].mean - self.circuit.losses["live"].mean

    def worth(self, found: Found) -> float:
        """By how much the circuit's loss rises without a path."""
        return found.removal_loss - self.circuit.losses["live"].mean

    def lost(self, supply: Supply) -> float:
        """The share of a path's attention (query, key) or effect on the loss (value) lost without the source."""
        if supply.part != "value":
            return (supply.before - supply.after) / max(supply.before, 1e-12)
        [found] = [found for found in self.circuit.paths if found.path == supply.path]
        return (supply.after - supply.before) / max(self.worth(found), 1e-12)

    def supernodes(self, used: set[str]) -> dict[str, list[str]]:
        """The nodes of each path that has several, by path."""
        every = {str(f.path): [head(f.path, q) for q in self.cells(f.path)] for f in self.circuit.paths}
        return {name: kept for name, ids in every.items() if len(kept := [one for one in ids if one in used]) > 1}


def token(at: int) -> str:
    return f"E_{at}_{at}"


def head(path: Path, at: int) -> str:
    """The identifier of a path's node at a position: layer, head, attended role, position."""
    return f"{path.layer}_{path.head}.{path.key}{'.other' if path.chain == 'other' else ''}_{at}"


def answer(at: int) -> str:
    return f"answer_{at}_{at}"


def node(name: str, layer: str, at: int, kind: str, words: str, feature: int | None = None) -> dict[str, Any]:
    return {
        "node_id": name,
        "feature": feature,
        "layer": layer,
        "ctx_idx": at,
        "feature_type": kind,
        "jsNodeId": name.rpartition("_")[0] + f"-{at}",
        "clerp": words,
    }


def link(source: str, target: str, weight: float) -> dict[str, Any]:
    return {"source": source, "target": target, "weight": round(weight, 6)}
