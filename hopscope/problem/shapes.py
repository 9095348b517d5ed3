"""Shapes and orders: which facts make a chain, and in which order they are presented.

A shape is a directed acyclic graph, `a>x a>y xy>z`: a leads to x and to y, and x and y together lead to z. A plain
chain of D hops is `0>1 1>2 …`. PyTorch is not imported here, so that theory, which shares these words, starts fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.core.settings import BadInput

NAMED_ORDERS = ("nearest_first", "deepest_first", "shuffled")


@dataclass(frozen=True)
class Step:
    """One edge of the shape: the premises' variables and the conclusion's."""

    premises: tuple[str, ...]
    conclusion: str


def chain_shape(n_hops: int) -> tuple[Step, ...]:
    """The shape of a plain chain: `0>1 1>2 … `."""
    return tuple(Step((str(k),), str(k + 1)) for k in range(n_hops))


def parse_shape(text: str) -> tuple[Step, ...]:
    """Steps from text such as `a>x a>y xy>z`; variables are single letters, the first premise is the query.

    Raises BadInput unless it is a directed acyclic graph in which everything follows from the query.
    """
    steps = []
    known: set[str] = set()
    for part in text.split():
        premises, arrow, conclusion = part.partition(">")
        if not arrow or len(conclusion) != 1 or not premises.isalpha() or not conclusion.isalpha():
            raise BadInput(f"shape must be steps such as 'a>x a>y xy>z', of single letters; got {part!r}")
        known = known or {premises[0]}
        if not known.issuperset(premises) or conclusion in known or len(set(premises)) < len(premises):
            raise BadInput(
                f"in shape {text!r} the premises of {part!r} must differ and be concluded before it, "
                "and its conclusion must be new"
            )
        known.add(conclusion)
        steps.append(Step(tuple(premises), conclusion))
    if not steps:
        raise BadInput("shape must have at least one step, such as 'a>x'")
    return tuple(steps)


def parse_order(text: str, n_steps: int) -> tuple[int, ...] | None:
    """The steps, counted from 1, in their order of presentation; None if each sequence draws its own order.

    Raises BadInput unless `text` is one of `NAMED_ORDERS` or a permutation of the steps such as `3,1,2`.
    """
    steps = tuple(range(1, n_steps + 1))
    if text in NAMED_ORDERS:
        return {"nearest_first": steps, "deepest_first": steps[::-1], "shuffled": None}[text]
    listed = tuple(int(part) for part in text.split(",") if part.strip().isdecimal())
    if sorted(listed) != list(steps) or len(text.split(",")) != n_steps:
        example = ",".join(map(str, steps[::-1]))
        raise BadInput(
            f"order must be {', '.join(NAMED_ORDERS)} or every step from 1 to {n_steps} once, such as {example}; "
            f"got {text!r}"
        )
    return listed
