"""A minimal table for quick tests: one head of eight is like recall, and answers need it."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

HEADS = [f"L{layer}H{head}" for layer in range(4) for head in range(2)]
BEST = "L3H1"
LAGS = range(-8, 9)


def row(kind: str, name: str, value: float, by: float | None = 0.01, **more: Any) -> Row:
    """A number, with its interval unless `by` is None."""
    ends = {} if by is None else {"low": value - by, "high": value + by}
    return {"kind": kind, "name": name, "value": value, **ends, **more}


def heads(distance: float = 0.01, like: float = 1.0, drift: float = 0.1, falls: float = 0.05) -> list[Row]:
    """Rows on the fits of all heads, and on the curves of the best one."""
    rows = []
    for name in HEADS:
        best = name == BEST
        rows += [
            row("distance", name, distance if best else 2.0, 0.005),
            *(row(kind, name, 0.9 if best else 0.1, None) for kind in ("matching", "encoding", "recall")),
            *(row(kind, name, 0.0, None) for kind in ("duplicate token", "previous token", "studied")),
            *(row(kind, name, like if best else 0.0, None) for kind in ("near", "like recall")),
        ]
    rows += [row("chosen", which, 1, None, other=BEST) for which in ("matching", "recall")]
    rows += [row("lag", BEST, 0.9 if lag == 1 else 0.01, step=lag) for lag in LAGS]
    told = "encoding 0.9, recall 0.9, studied 0"
    return [
        *rows,
        row("asymmetry", BEST, 0.8),
        row("falling off", BEST, falls),
        row("drift", BEST, drift, other=told),
    ]


def shares(own: float = 0.2, shuffled: float = 0.03, quiet: float = 0.03) -> list[Row]:
    """Rows on the shares of heads near a recall model."""
    rows = []
    for which in ("near", "like recall"):
        for among, share in (("all heads", own), ("heads that do not copy", quiet)):
            kind = f"share {which}: {among}"
            rows += [
                row(kind, "heads", share, step=8),
                *(row(kind, name, shuffled, step=8) for name in ("shuffled", "unrelated")),
                *(row(kind, f"beyond {name}", share - shuffled, step=8) for name in ("shuffled", "unrelated")),
            ]
    kinds = ("even near", "even like recall", "exponential near", "exponential like recall")
    return rows + [
        row("chance", name, value, None) for name, value in zip(kinds, (0.05, 0.01, 0.06, 0.02), strict=True)
    ]


def ranks(matching: float = 0.7, shuffled: float = 0.1) -> list[Row]:
    """Rows on rank correlations with matching scores."""
    names = ("matching", "matching: heads that do not copy", "both halves")
    return [
        *(row("ranks", name, matching) for name in names),
        *(row("ranks", "shuffled", shuffled, None, step=draw) for draw in range(2)),
    ]


def answers(contiguity: float = 50.0, asymmetry: float = 10.0) -> list[Row]:
    """Rows on the whole model's answers."""
    return [
        row("asks", "sequences", 24, None),
        row("asks", "tokens of a copy", 50, None),
        row("asks", "lists", 20, None),
        row("asks", "places of a list", 16, None),
        *(row("answers by lag", "whole", 13.0 if lag == 1 else 0.2, step=lag) for lag in LAGS if lag),
        row("contiguity", "whole", contiguity, 0.1),
        row("following", "whole", 13.0),
        row("asymmetry", "whole", asymmetry),
    ]


def silenced(left: float = 0.05, random: float = 0.9) -> list[Row]:
    """Rows on answers without the chosen heads, and without random ones."""
    rows = []
    for name in ("matching", "recall"):
        sets = {name: left, f"random {name} 0": random, f"same layers {name} 0": random}
        for measure in ("contiguity", "following"):
            for which, share in sets.items():
                rows += [
                    row(measure, which, 1 + 49 * share, other="L3H1"),
                    row(f"left: {measure}", which, share, other="L3H1"),
                ]
            for control in ("random", "same layers"):
                rows += [row(f"beyond the {of} {control}: {measure}", name, random - left) for of in ("worst", "mean")]
    return rows


ROWS: list[Row] = [*heads(), *shares(), *ranks(), *answers(), *silenced()]
TOY: list[Row] = [
    one
    for seed in range(2)
    for one in (
        row("distance", "L1H0", 0.003, None, seed=seed),
        row("encoding", "L1H0", 1.0, None, seed=seed),
        row("contiguity", "whole", 30.0, None, seed=seed),
        row("left: contiguity", "matching", 0.0, None, seed=seed),
    )
]

#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"recall": {"rows": ROWS}, "toy-recall": {"rows": TOY}}
