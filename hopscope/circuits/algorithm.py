"""What a circuit's algorithm is called, in a sentence (`hopscope.theory.naming`)."""

from __future__ import annotations

from hopscope.circuits.circuit import Circuit
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
