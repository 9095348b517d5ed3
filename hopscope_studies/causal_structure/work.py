"""Work without training: information between positions from matrices alone, and hand-set transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.experiments.reports import Report
from hopscope.theory.markov.chains import dirichlet, stationary
from hopscope.theory.markov.graphs import GRAPHS, Graph, information
from hopscope_studies.causal_structure.constructions import WAYS, constructed
from hopscope_studies.causal_structure.readings import at_the_end
from hopscope_studies.causal_structure.tasks.causal_sequences import CausalSequences


@dataclass(frozen=True)
class Information(Report):
    """Whether the parent is the earlier position with the most mean χ² information, computed without any sequence."""

    label, file = "causal_information", "numbers.json"

    d_vocab: int = setting(3, "number of states", low=2)
    length: int = setting(12, "number of positions", low=3)
    concentration: float = setting(0.1, "α of the Dirichlet law of rows", low=1e-3)
    graph: str = setting("tree", "latent graph", choices=tuple(GRAPHS))
    matrices: int = setting(1024, "matrices over which information is averaged", low=1)
    seed: int = setting(0, "of graph and matrices", low=0)

    def report(self) -> dict[str, Any]:
        graph = Graph(GRAPHS[self.graph](self.length, self.seed))
        size = (self.matrices, self.d_vocab, self.d_vocab)
        rows = dirichlet(self.concentration, size, generator(self.seed, "information"))
        mean = information(rows, graph, stationary(rows)).mean(0)
        right = [int(mean[child, :child].argmax()) == graph.parents[child][0] for child in graph.children]
        return {"parents found": sum(right) / len(right), "children": len(right)}


@dataclass(frozen=True)
class Construction(Report):
    """A hand-set transformer, measured as trained ones are: the positive control."""

    label, file = "causal_construction", "numbers.json"

    way: str = setting(WAYS[0], "where the graph is stored", choices=WAYS)
    d_vocab: int = setting(3, "number of states", low=2)
    length: int = setting(12, "number of positions", low=3)
    seed: int = setting(0, "of the graph and of the sequences", low=0)

    def report(self) -> dict[str, Any]:
        task = CausalSequences(d_vocab=self.d_vocab, length=self.length, graph_seed=self.seed)
        with torch.no_grad():
            return at_the_end(constructed(task, self.way), task, self.seed)
