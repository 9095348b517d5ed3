"""The retrieval problem in plain Python: the oracle for every rendering of it (Musat, ICLR 2025, section 3).

A fact states a conclusion that follows from premises; a query is a symbol whose consequences are asked for. In the
retrieval problem a fact has one premise and the steps form a chain. In the conditional retrieval problem a fact may
have several, and the steps form a directed acyclic graph. Tensors, sentences, information flow and circuits are tested
against `Problem.hops`, which is slow, obvious and uses no library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fact:
    """A fact: if all its premises are known, its conclusion may be retrieved.

    The order of `premises` is that in which they are written; it has no meaning. `step` is the number of the retrieval
    step that the fact serves, counted from 1.
    """

    premises: tuple[str, ...]
    conclusion: str
    step: int = 1

    def __str__(self) -> str:
        return f"{', '.join(self.premises)} → {self.conclusion}"


@dataclass(frozen=True)
class Problem:
    """Facts in their order of presentation, and the symbols that are asked about.

    >>> chain = Problem((Fact(("b",), "c", 2), Fact(("a",), "b", 1)), queries=("a",))
    >>> chain.hops("a")
    [{'b'}, {'c'}]
    >>> chain.successors("a")
    ['b', 'c']
    """

    facts: tuple[Fact, ...]
    queries: tuple[str, ...]

    def hops(self, *query: str) -> list[set[str]]:
        """The symbols that each round of retrieval adds, starting from the query alone.

        A query is one symbol, or several that are asked about together, as f and i in f(i). Round h holds every symbol
        that takes exactly h retrieval steps, and no fewer: in a chain, round h is {x_h}.
        """
        known, rounds = set(query), []
        while new := {f.conclusion for f in self.facts if known.issuperset(f.premises)} - known:
            rounds.append(new)
            known |= new
        return rounds

    def successors(self, *query: str) -> list[str]:
        """All symbols that follow from the query, by round, and within a round by the facts' step numbers."""
        step_of = {fact.conclusion: fact.step for fact in self.facts}
        return [symbol for new in self.hops(*query) for symbol in sorted(new, key=lambda s: (step_of[s], s))]

    def as_dict(self) -> dict[str, Any]:
        """`facts` as [premises, conclusion], `queries`, and `answers`: each query's successors in order."""
        return {
            "facts": [[list(fact.premises), fact.conclusion] for fact in self.facts],
            "queries": list(self.queries),
            "answers": [self.successors(query) for query in self.queries],
        }
