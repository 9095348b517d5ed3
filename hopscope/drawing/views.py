"""What an attention page shows: every head's pattern on some sequences, next to each row's hypothesis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.circuit import Circuit, Found
from hopscope.circuits.evaluator import Evaluator, Hard, Kept, Pattern
from hopscope.circuits.units import Row, row_of
from hopscope.circuits.words import symbols_at


@dataclass(frozen=True)
class RowView:
    """A row, its rule, and the model's loss if this row alone is replaced by its pattern by hand."""

    row: Row
    rule: str
    loss: float


@dataclass(frozen=True)
class Views:
    """Every head's attention on a few sequences, as computed and by hand: the content of an attention page.

    Attributes:
        symbols: the symbol at each position, by instance.
        roles: each position's roles, such as `b value[2]`, by instance.
        actual: the model's patterns.
        by_hand: the patterns of the circuit with all patterns set by hand.
        causal: whether the upper triangles are empty.
        rows: every row of the model with its rule (`unused` if it has none) and its loss.
        paths: the circuit's paths.
        cells: for every path, by instance, the pairs of an attending and an attended position.
        losses: mean losses: `model`, `circuit`, `null` …
        words: about the circuit, in plain text.
    """

    symbols: list[list[str]]
    roles: list[list[str]]
    actual: Float[Tensor, "layer instance head query key"]
    by_hand: Float[Tensor, "layer instance head query key"]
    causal: bool
    rows: list[RowView] = field(default_factory=list)
    paths: list[Found] = field(default_factory=list)
    cells: list[list[list[list[int]]]] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    words: str = ""


def views(
    evaluator: Evaluator,
    circuit: Circuit,
    *,
    instances: int = 4,
    words: str = "",
) -> Views:
    """The content of a page on a circuit's attention.

    Args:
        evaluator: the model on sequences, over which losses are taken; the first of them are shown.
        circuit: rows of its paths are ideal by hand, weighted by strength where several share a row; others are null.
        instances: the number of sequences shown.
        words: shown above, such as `hopscope.circuits.words.paragraph`.
    """
    ground, batch = evaluator.ground, evaluator.batch
    few = range(min(instances, len(batch)))
    change = Hard({f.path: max(f.strength, 1e-6) for f in circuit.paths}, circuit.protocol.get("null", "uniform"))
    actual = evaluator.patterns
    by_hand = [change.pattern(layer, pattern, ground) for layer, pattern in enumerate(actual)]
    losses = evaluator.losses(
        Kept(frozenset(ground.rows), rows={row: by_hand[row.layer][:, row.head]}) for row in ground.rows
    )
    rules = {row_of(part.path): part.hypothesis for part in circuit.paths}
    every = zip(ground.rows, losses, strict=True)
    ordered = sorted(circuit.paths, key=lambda part: part.path)
    return Views(
        symbols=[symbols_at(batch, i) for i in few],
        roles=[batch.roles.labels(i) for i in few],
        actual=stacked(actual, len(few)),
        by_hand=stacked(by_hand, len(few)),
        causal=evaluator.model.architecture.causal,
        rows=[RowView(row, rules.get(row, "unused"), loss.mean) for row, loss in every],
        paths=ordered,
        cells=[[ground.entries(part.path)[i].nonzero().tolist() for i in few] for part in ordered],
        losses={name: loss.mean for name, loss in circuit.losses.items()},
        words=words,
    )


def stacked(patterns: Iterable[Pattern], n: int) -> Tensor:
    return torch.stack([pattern[:n].float().cpu() for pattern in patterns])
