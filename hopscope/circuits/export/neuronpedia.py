"""A circuit as an attribution graph: the JSON of circuit-tracer and Neuronpedia (Ameisen et al., 2025).

A node is a path at one position of an example, so that roles become places in a prompt; tokens stand below, answers
above. Graphs of that kind are made of features and first-order attributions. Ours are made of attention paths, and
every weight is measured. It is a share: of a head's attention that falls on a token; of what a head would lose, in
attention on its target or in the circuit's loss, without what feeds its query, key or value; of the gap from null to
circuit that an answer loses without the path.
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
    """The graph on one sequence, for a viewer of attribution graphs.

    Args:
        circuit: whose paths and supplies are shown.
        batch: the sequence, of its task.
        shape: of the model.
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
        circuit: what is drawn.
        ground: the sequence.
        n_layers: of the model; answers stand above them.
    """

    circuit: Circuit
    ground: Ground
    n_layers: int

    def cells(self, path: Path) -> dict[int, list[int]]:
        """By attending position the attended ones."""
        entries = self.ground.entries(path)[0]
        return {at: row.nonzero()[:, 0].tolist() for at, row in enumerate(entries) if row.any()}

    @property
    def answers(self) -> list[int]:
        """The positions at which answers are read off."""
        n = self.ground.batch.inputs.shape[1]
        return list(range(n))[self.ground.batch.task.query_positions]

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Tokens, paths where they attend, answers."""
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
        """All of them, each measured."""
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
        """From where the source attends to where what it feeds does: for a query there itself, else where it looks."""
        share = self.lost(supply)
        holders = self.cells(supply.source)
        for q, keys in self.cells(supply.path).items():
            ends = [at for at in ([q] if supply.part == "query" else keys) if at in holders]
            yield from (
                link(head(supply.source, at), head(supply.path, q), share) | {"part": supply.part} for at in ends
            )

    @property
    def gap(self) -> float:
        """From null to circuit, in loss."""
        return self.circuit.losses["null"].mean - self.circuit.losses["live"].mean

    def worth(self, found: Found) -> float:
        """What leaving a path out costs the circuit."""
        return found.removal_loss - self.circuit.losses["live"].mean

    def lost(self, supply: Supply) -> float:
        """Of the attention on the path, or of what it is worth in loss."""
        if supply.part != "value":
            return (supply.before - supply.after) / max(supply.before, 1e-12)
        [found] = [found for found in self.circuit.paths if found.path == supply.path]
        return (supply.after - supply.before) / max(self.worth(found), 1e-12)

    def supernodes(self, used: set[str]) -> dict[str, list[str]]:
        """By path all of its nodes, where it has several."""
        every = {str(f.path): [head(f.path, q) for q in self.cells(f.path)] for f in self.circuit.paths}
        return {name: kept for name, ids in every.items() if len(kept := [one for one in ids if one in used]) > 1}


def token(at: int) -> str:
    return f"E_{at}_{at}"


def head(path: Path, at: int) -> str:
    """Layer, head and what it attends to, position."""
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
