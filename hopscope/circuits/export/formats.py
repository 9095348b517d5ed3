"""Export of a circuit as EAP-IG's graph.

EAP-IG (Hanna et al., 2024) and the MIB benchmark's circuit track describe circuits by components: nodes `input`,
`a{layer}.h{n}`, `m{layer}`, `logits`, and edges between them, with separate edges into a head's query, key and value:
`a0.h1->a3.h0<q>`. Our circuits consist of paths, which say more about attention (from which positions to which) and
nothing about MLPs. So the export is a projection. What it loses is written into the same file, under a key that other
readers ignore.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from hopscope.circuits.certificates import Supply
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.components.circuit import ComponentCircuit
from hopscope.circuits.components.graph import component_edges, component_nodes, ends
from hopscope.circuits.components.patching import Patching
from hopscope.circuits.losses import Loss
from hopscope.circuits.units import NO_ROLE, Row
from hopscope.models.base import Shape
from hopscope.problem.paths import Path

OURS = "hopscope"  # the key for what the projection loses


@dataclass(frozen=True)
class Component:
    """A node or an edge: whether it belongs to the circuit, and its score."""

    in_graph: bool = False
    score: float = 0.0


@dataclass(frozen=True)
class ComponentGraph:
    """A circuit in EAP-IG's terms.

    Attributes:
        cfg: `n_layers`, `n_heads`, `d_model`, `parallel_attn_mlp`.
        nodes: the nodes, by name.
        edges: the edges, by name.
    """

    cfg: dict[str, Any]
    nodes: dict[str, Component]
    edges: dict[str, Component]


def component_graph(circuit: Circuit, shape: Shape) -> ComponentGraph:
    """A circuit's projection to components.

    A head is in the graph if the circuit has one of its paths, or needs one of its rows whole. There is an edge between
    two such heads if a certificate says that a path of the first feeds a path of the second, directly or through MLPs.
    Without certificates, all three edges exist if the first is in an earlier layer. Each head reads the input. Only
    heads with a path or whole row of the query, or a whole row of positions without a role, write to the logits,
    because answers are read there. A model's MLPs are all in the graph, with all their edges to what is in it, because
    paths do not say what MLPs do and no ablation of paths takes them out. A model without MLPs still has MLP nodes, as
    EAP-IG's reader expects, marked as not in the graph. The projection is a guess, which `tested` checks edge by edge.

    A head's score is the rise of the loss without its most costly path; an edge's score is the lower of its ends'
    scores. So any threshold on scores leaves no edge without its nodes.

    Roles and chains are lost: two paths of one head are one node.

    Args:
        circuit: the circuit.
        shape: the model's shape.
    """
    worth = head_scores(circuit)
    nodes = component_nodes(shape.n_layers, shape.n_heads)
    top = max(worth.values(), default=0.0)
    fixed = {"input", "logits", *(name for name in nodes if name[0] == "m" and shape.mlp)}
    scores = {name: top if name in fixed else worth.get(name, 0.0) for name in nodes}
    kept = {name for name in nodes if name in fixed or name in worth}
    feeds = fed(circuit.supplies)
    writing = {node_of(unit) for unit in circuit.units if unit.query in ("query", NO_ROLE)}

    def stands(edge: str) -> bool:
        source, target, _ = ends(edge)
        if not {source, target} <= kept:
            return False
        if source[0] == "a" and target == "logits":
            return source in writing
        between_heads = source[0] == target[0] == "a"
        return edge in feeds if between_heads and feeds else True

    edges = {
        edge: Component(True, min(scores[end] for end in ends(edge)[:2])) if stands(edge) else Component()
        for edge in component_edges(shape.n_layers, shape.n_heads)
    }
    return ComponentGraph(cfg_of(shape), {n: Component(n in kept, scores[n]) for n in nodes}, edges)


def tested(graph: ComponentGraph, lab: Patching) -> ComponentGraph:
    """The same graph with only the edges that the model needs; each edge is cut alone.

    An edge stays if the 95 % interval of the loss's rise (paired over sequences) is above 0; the mean rise is its
    score. A node stays if one of its edges does; its score is the highest score of these edges.
    """
    guessed = [edge for edge in lab.wiring.edges if graph.edges[edge].in_graph]
    every = frozenset(lab.wiring.edges)
    whole, *cut = lab.accounts([every, *(every - {edge} for edge in guessed)])
    rises = {edge: Loss.of(found.losses - whole.losses) for edge, found in zip(guessed, cut, strict=True)}
    needed = {edge: Component(loss.low > 0, round(loss.mean, 6)) for edge, loss in rises.items()}
    edges = {edge: needed.get(edge, Component()) for edge in graph.edges}
    return replace(graph, edges=edges, nodes=nodes_with(edges, graph.nodes))


def nodes_with(edges: Mapping[str, Component], names: Iterable[str]) -> dict[str, Component]:
    """Every node: in the graph if one of its edges is, with the highest score of these edges."""
    best: dict[str, float] = {}
    for edge, found in edges.items():
        for node in ends(edge)[:2] if found.in_graph else ():
            best[node] = max(best.get(node, found.score), found.score)
    return {name: Component(name in best, best.get(name, 0.0)) for name in names}


def graph_of(found: ComponentCircuit, shape: Shape) -> ComponentGraph:
    """A circuit of edges, or of nodes with the edges between them, in EAP-IG's terms; scores are measured effects.

    In a circuit of edges, a node's score is the highest score of its edges. In a circuit of nodes, an edge's score is
    that of its source.
    """
    names = component_nodes(shape.n_layers, shape.n_heads)
    every = component_edges(shape.n_layers, shape.n_heads)
    effect = {unit: round(value, 6) for unit, value in found.effects.items()}
    if found.unit == "edges":
        edges = {edge: Component(edge in found.edges, effect.get(edge, 0.0)) for edge in every}
        return ComponentGraph(cfg_of(shape), nodes_with(edges, names), edges)
    kept = {*found.kept, "input", "logits"}  # which are never cut
    between = {edge: {*ends(edge)[:2]} <= kept for edge in every}
    edges = {edge: Component(inside, effect.get(ends(edge)[0], 0.0)) for edge, inside in between.items()}
    return ComponentGraph(cfg_of(shape), {n: Component(n in kept, effect.get(n, 0.0)) for n in names}, edges)


def cfg_of(shape: Shape) -> dict[str, Any]:
    return {"n_layers": shape.n_layers, "n_heads": shape.n_heads, "parallel_attn_mlp": False, "d_model": shape.d_model}


def node_of(unit: Path | Row) -> str:
    return f"a{unit.layer}.h{unit.head}"


def head_scores(circuit: Circuit) -> dict[str, float]:
    """For every head of the circuit, by how much the loss rises without its most costly path; never below 0."""
    base = circuit.losses["live"].mean if "live" in circuit.losses else 0.0
    scores = {node_of(row): 0.0 for row in circuit.rows}
    for found in circuit.paths:
        name = node_of(found.path)
        scores[name] = max(scores.get(name, 0.0), found.removal_loss - base)
    return {name: round(score, 6) for name, score in scores.items()}


def fed(supplies: Iterable[Supply]) -> set[str]:
    """The edges between heads that certificates report."""
    return {f"{node_of(s.source)}->{node_of(s.path)}<{s.part[0]}>" for s in supplies}


def to_eap_ig(circuit: Circuit, shape: Shape, lab: Patching | None = None) -> str:
    """`component_graph` as the JSON that EAP-IG and MIB read, with our paths under the key `hopscope`.

    Args:
        circuit: the circuit.
        shape: the model's shape.
        lab: the model on sequences, to test every edge (`tested`); without it, the file says that no edge was tested.
    """
    graph = component_graph(circuit, shape)
    graph, about = (tested(graph, lab), lab.about) if lab else (graph, {"edges": "projected, untested"})
    ours = {
        "paths": [found.as_dict() for found in circuit.paths],
        "supplies": [supply.as_dict() for supply in circuit.supplies],
        "projection": {**about, "lost": "roles and chains (hopscope.circuits.export.formats)"},
    }
    return eap_ig_json(graph, ours)


def eap_ig_json(graph: ComponentGraph, ours: Mapping[str, Any]) -> str:
    """A graph as the JSON that EAP-IG and MIB read, with our entries under a key of their own."""
    return json.dumps({OURS: dict(ours), **asdict(graph)}, allow_nan=False)
