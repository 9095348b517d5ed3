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
    "query": "all by itself",
    "chain": "all made by facts ahead of it",
    "both": "some made by facts ahead of it",
}


def algorithm_words(circuit: Circuit, task: Task) -> list[str]:
    """The flattest schedule that a circuit of plain retrieval realises, told; nothing of chains that are too short."""
    if not isinstance(task, Retrieval | SymbolicRetrieval) or task.n_hops < SHORTEST:
        return []
    schedules = schedules_of([found.path for found in circuit.paths], task.n_hops)
    return [
        f"This is {CALLED[one.kind]}: {one.height} merges in a row bring the query {task.n_hops} hops, "
        f"{MERGED[one.side]}."
        for one in schedules[:1]
    ]
