"""A sentence that names a circuit's algorithm (`hopscope.theory.naming`), and its induction heads."""

from __future__ import annotations

from hopscope.circuits.circuit import Circuit
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.theory.naming import schedules_of

SHORTEST = 3  # least number of hops for a name; with fewer hops all algorithms are the same
CALLED = {
    "linear": "one hop after the other",
    "doubling": "pointer doubling",
    "mixed": "something between one hop after the other and pointer doubling",
}
MERGED = {
    "query": "all by the query itself",
    "chain": "all by facts ahead of the query",
    "both": "some by facts ahead of the query",
}

#: The rules of heads that feed an induction head's keys: they copy the token before (Olsson et al., 2022).
PREVIOUS = ("previous position", "first of fact")


def algorithm_words(circuit: Circuit, task: Task) -> list[str]:
    """A sentence on the flattest schedule that a retrieval circuit realises; none below `SHORTEST` hops."""
    if not isinstance(task, Retrieval | SymbolicRetrieval) or task.n_hops < SHORTEST:
        return []
    schedules = schedules_of([found.path for found in circuit.paths], task.n_hops)
    return [
        f"The algorithm is {CALLED[one.kind]}: {one.height} successive merges, {MERGED[one.side]}, bring the query "
        f"{task.n_hops} hops."
        for one in schedules[:1]
    ]


def induction_heads(circuit: Circuit) -> frozenset[Path]:
    """The paths of induction heads: they attend after their own symbol, and a previous-token head feeds their keys.

    Attention after the same symbol is not enough, because a head that looks back by a fixed distance may have it, too.
    """
    rules = {found.path: found.hypothesis for found in circuit.paths}
    fed = {one.path for one in circuit.supplies if one.part == "key" and rules.get(one.source) in PREVIOUS}
    return frozenset(path for path in fed if rules.get(path) == "after the same symbol")
