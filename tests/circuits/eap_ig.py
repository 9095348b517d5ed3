"""EAP-IG's graphs as its own reader sees them: names, whether they are in the graph, scores."""

from __future__ import annotations

import json

from hopscope.circuits.export.formats import Component, ComponentGraph


def read_eap_ig(text: str) -> ComponentGraph:
    """A graph in EAP-IG's JSON."""
    values = json.loads(text)
    nodes, edges = (
        {name: Component(one["in_graph"], one["score"]) for name, one in values[kind].items()}
        for kind in ("nodes", "edges")
    )
    return ComponentGraph(values["cfg"], nodes, edges)


def heads_in(graph: ComponentGraph) -> list[str]:
    """The heads of a graph, in order."""
    return sorted(name for name, node in graph.nodes.items() if name[0] == "a" and node.in_graph)
