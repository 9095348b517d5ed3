"""Components and the edges between them, named and counted as EAP-IG does (Hanna et al., 2024; MIB, 2025).

Nodes are `input`, `a{layer}.h{head}`, `m{layer}` and `logits`. An edge leads from what one node adds to the residual
stream to what another reads from it. Three edges lead from one node to a head, for its query, key and value:
`a0.h1->a3.h0<q>`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.models.base import Shape

Edge = str


def component_nodes(n_layers: int, n_heads: int, mlp: bool = True) -> list[str]:
    """All nodes, in the order of the forward pass."""
    inner = []
    for layer in range(n_layers):
        inner += [f"a{layer}.h{head}" for head in range(n_heads)] + [f"m{layer}"] * mlp
    return ["input", *inner, "logits"]


def component_edges(n_layers: int, n_heads: int, mlp: bool = True) -> list[Edge]:
    """All edges, as EAP-IG counts them: from every node to every later one, to a head three times.

    With MLPs, there are 613 edges for 12 layers of one head, and 6,637 for 8 layers of 8 heads. Without MLPs, there are
    925 for 24 layers of one head.
    """
    stream, edges = ["input"], []
    for layer in range(n_layers):
        heads = [f"a{layer}.h{head}" for head in range(n_heads)]
        edges += [f"{source}->{head}<{part}>" for source in stream for head in heads for part in "qkv"]
        stream += heads
        if mlp:
            edges += [f"{source}->m{layer}" for source in stream]
            stream.append(f"m{layer}")
    return edges + [f"{source}->logits" for source in stream]


def ends(edge: Edge) -> tuple[str, str, str]:
    """An edge's source, its target, and which part of a head it feeds (`q`, `k`, `v`; empty for others)."""
    source, _, target = edge.partition("->")
    target, _, part = target.rstrip(">").partition("<")
    return source, target, part


@dataclass(frozen=True)
class Wiring:
    """The index of every edge of a model in a mask (target, source).

    Attributes:
        n_layers, n_heads: numbers of layers of the model, and of heads in a layer.
        mlp: whether its layers have MLPs.
        sources: all nodes except `logits`, in the order of the forward pass.
        targets: all inputs of nodes, in the order of the forward pass: `a0.h0<q>` …, `m0`, `logits`.
        edges: all edges.
        places: for each edge, the indices (target, source).
    """

    n_layers: int
    n_heads: int
    mlp: bool
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    edges: tuple[Edge, ...]
    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, shape: Shape) -> Wiring:
        layout = shape.n_layers, shape.n_heads, shape.mlp
        edges, sources = component_edges(*layout), component_nodes(*layout)[:-1]
        targets = list(dict.fromkeys(edge.partition("->")[2] for edge in edges))
        target_at, source_at = ({name: i for i, name in enumerate(names)} for names in (targets, sources))
        parts = [edge.split("->") for edge in edges]
        places = tuple((target_at[target], source_at[source]) for source, target in parts)
        return cls(*layout, tuple(sources), tuple(targets), tuple(edges), places)

    @property
    def per_layer(self) -> int:
        """The number of nodes in a layer."""
        return self.n_heads + self.mlp

    def heads_at(self, layer: int) -> int:
        """The index of a layer's first target, which is the query of its first head."""
        return layer * (3 * self.n_heads + self.mlp)

    def before(self, layer: int) -> int:
        """The number of sources before a layer."""
        return 1 + layer * self.per_layer

    def layer_of(self, target: int) -> int:
        """The layer that a target belongs to; for the logits, the number of layers."""
        return target // (3 * self.n_heads + self.mlp)
