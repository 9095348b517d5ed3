"""Paths: the unit in which attention is counted, planned and ablated, `L1H0 value[1]->key[1]`.

A path says that in one head every position of one role attends to a position of another role, of the same chain or of
another (docs/contracts.md). A list of paths is a schedule if theory planned it, a circuit if a search found it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hopscope.core.settings import BadInput, check_choice

#: How the chains of two positions are related.
Relation = Literal["same", "other"]
RELATIONS: tuple[Relation, ...] = ("same", "other")

SHORT = re.compile(r"L(\d+)H(\d+) (\S+?)\s*(?:->|→)\s*(\S+?)( \(other\)| other)?")


@dataclass(frozen=True, order=True)
class Path:
    """Positions of role `query` attend to positions of role `key`; layers and heads count from 0."""

    layer: int
    head: int
    query: str
    key: str
    chain: Relation = "same"

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head} {self.query}->{self.key}" + (" (other)" if self.chain == "other" else "")

    def as_dict(self) -> dict[str, Any]:
        """`{layer, head, query, key, chain}`, as in JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Path:
        """The inverse of `as_dict`; further entries, such as a strength, are ignored. Raises BadInput."""
        try:
            path = cls(**{n: values[n] for n in ("layer", "head", "query", "key")}, chain=values.get("chain", "same"))
        except KeyError as missing:
            raise BadInput(f"a path must have layer, head, query and key; {missing} is missing") from None
        check_choice("a path's chain", path.chain, RELATIONS)
        return path

    @classmethod
    def parse(cls, text: str) -> Path:
        """The path written `L1H0 value[1]->key[1]`, followed by ` (other)` between chains. Raises BadInput."""
        match = SHORT.fullmatch(text.strip())
        if not match:
            raise BadInput(f"a path must be written such as 'L1H0 value[1]->key[1]'; got {text!r}")
        layer, head, query, key, other = match.groups()
        return cls(int(layer), int(head), query, key, "other" if other else "same")


# Roles along a plain chain, in order of reachability from the query (paper, section 5): s_0 is the query, s_(2k-1) and
# s_2k are the first and the second token of fact k.


def role_name(place: int) -> str:
    """The role of position s_i of a chain: `query`, `key[1]`, `value[1]`, `key[2]` …"""
    if place == 0:
        return "query"
    return f"{'key' if place % 2 else 'value'}[{(place + 1) // 2}]"


def place_of(role: str) -> int:
    """The inverse of `role_name`. Raises BadInput for a role that a plain chain lacks."""
    match = re.fullmatch(r"query|(key|value)\[([1-9]\d*)\]", role)
    if not match:
        raise BadInput(f"a plain chain has the roles query, key[k] and value[k]; got {role!r}")
    kind, k = match.groups()
    return 0 if kind is None else 2 * int(k) - (kind == "key")
