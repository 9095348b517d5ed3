"""The retrieval problem in plain Python: the oracle of every rendering (Musat, ICLR 2025, section 3).

Facts say what may be concluded from what; a query is a symbol whose consequences are asked. In the retrieval
problem a fact has one premise and the steps form a chain; in the conditional retrieval problem a fact may have
several, and the steps form a directed acyclic graph. Tensors, sentences, information flow and circuits are all
tested against `Problem.hops`, which is slow, obvious and free of any library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fact:
    """If all premises are known, the conclusion may be retrieved.

    `premises` are kept in the order in which they are written down, but order does not matter to what follows.
    `step` is the number of the retrieval step that the fact serves, counted from 1.
    """

    premises: tuple[str, ...]
    conclusion: str
    step: int = 1

    def __str__(self) -> str:
        return f"{', '.join(self.premises)} → {self.conclusion}"


@dataclass(frozen=True)
class Problem:
    """Facts in the order in which they are presented, and the symbols that are asked about.

    >>> chain = Problem((Fact(("b",), "c", 2), Fact(("a",), "b", 1)), queries=("a",))
    >>> chain.hops("a")
    [{'b'}, {'c'}]
    >>> chain.successors("a")
    ['b', 'c']
    """

    facts: tuple[Fact, ...]
    queries: tuple[str, ...]

    def hops(self, *query: str) -> list[set[str]]:
        """What each round of retrieval adds to what is known, beginning with the query alone.

        A query is one symbol, or several that are asked about together, as f and i in f(i). Round h holds every
        symbol that needs h retrieval steps, and no fewer: for a chain, round h is {x_h}.
        """
        known, rounds = set(query), []
        while new := {f.conclusion for f in self.facts if known.issuperset(f.premises)} - known:
            rounds.append(new)
            known |= new
        return rounds

    def successors(self, *query: str) -> list[str]:
        """All that follows from the query, by round; within a round by the facts' step numbers."""
        step_of = {fact.conclusion: fact.step for fact in self.facts}
        return [symbol for new in self.hops(*query) for symbol in sorted(new, key=lambda s: (step_of[s], s))]

    def as_dict(self) -> dict[str, Any]:
        """`facts` as [premises, conclusion], `queries`, and `answers`: each query's successors in order."""
        return {
            "facts": [[list(fact.premises), fact.conclusion] for fact in self.facts],
            "queries": list(self.queries),
            "answers": [self.successors(query) for query in self.queries],
        }
