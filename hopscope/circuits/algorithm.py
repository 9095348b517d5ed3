"""What a circuit's algorithm is called, in a sentence (`hopscope.theory.naming`), and what its induction heads are."""

from __future__ import annotations

from hopscope.circuits.circuit import Circuit
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval
from hopscope.theory.naming import schedules_of

SHORTEST = 3  # hops, below which all algorithms are one
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

#: What feeds the keys of an induction head: what stood before (Olsson et al., 2022).
PREVIOUS = ("previous position", "first of fact")


def algorithm_words(circuit: Circuit, task: Task) -> list[str]:
    """The flattest schedule that a circuit of plain retrieval realises, told; nothing of chains that are too short."""
    if not isinstance(task, Retrieval | SymbolicRetrieval) or task.n_hops < SHORTEST:
        return []
    schedules = schedules_of([found.path for found in circuit.paths], task.n_hops)
    return [
        f"The algorithm is {CALLED[one.kind]}: {one.height} successive merges, {MERGED[one.side]}, bring the query "
        f"{task.n_hops} hops."
        for one in schedules[:1]
    ]


def induction_heads(circuit: Circuit) -> frozenset[Path]:
    """The paths to what follows the own symbol whose keys are fed by a head that attends to what stood before.

    To look where an induction head looks is not to be one: a head may look so many positions back, wherever that is.
    """
    rules = {found.path: found.hypothesis for found in circuit.paths}
    fed = {one.path for one in circuit.supplies if one.part == "key" and rules.get(one.source) in PREVIOUS}
    return frozenset(path for path in fed if rules.get(path) == "after the same symbol")
