"""A minimal report for quick tests: the heads of the fourth of six layers have all the effect."""

from __future__ import annotations

from typing import Any

LAYERS, HEADS = 6, 4
CHOSEN = ("L3H0", "L3H1", "L4H0", "L4H1", "L5H0")
TRUE = (1 / 3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9)
PERMUTED = (1 / 3, 0.5, 0.6, 0.6, 0.4, 0.2, 0.2)


def number(mean: float, by: float = 0.01) -> dict[str, float]:
    """A number with its interval."""
    return {"mean": mean, "low": mean - by, "high": mean + by}


def lens(permuted: tuple[float, ...] = PERMUTED, random: float = 0.5) -> dict[str, Any]:
    """The report's part on answers after every layer."""
    between = [*TRUE[:-1], random]
    curves = {"true": TRUE, "permuted": permuted, "half": between, "random": between}
    gaps = [one - other for one, other in zip(TRUE, permuted, strict=True)]
    critical = next((layer for layer, gap in enumerate(gaps) if gap >= gaps[-1] / 2), LAYERS + 1)
    best = max(range(LAYERS), key=permuted.__getitem__)
    return {
        "layers": LAYERS,
        "lens": {kind: [number(value) for value in values] for kind, values in curves.items()},
        "gap": [number(gaps[0], 0), *(number(gap) for gap in gaps[1:])],
        "random_over_permuted": number(random - permuted[-1]),
        "first_third": number(sum(gaps[1:3]) / 2),
        "critical": number(critical, 1),
        "overthinking": {"layer": best, "lost": number(permuted[best] - permuted[-1])},
        "most_probable": {kind: number(values[-1]) for kind, values in curves.items()},
        "followed": number(0.8),
    }


def scored(high: float = 0.5, floor: float = 0.1, chosen: tuple[str, ...] = CHOSEN, shared: int = 4) -> dict[str, Any]:
    """The report's part on heads, some of which attend to the labels of similar words."""
    rows = [
        (layer, head, high if f"L{layer}H{head}" in chosen else 0.0) for layer in range(LAYERS) for head in range(HEADS)
    ]
    return {
        "heads": [
            {"layer": layer, "head": head, "score": score, "again": score, "induction": score}
            for layer, head, score in rows
        ],
        "chosen": [{"head": name, "layer": int(name[1]) + 1, "score": high} for name in chosen],
        "mixed": [floor, floor / 2],
        "ranks": number(0.5),
        "induction_heads": shared,
    }


def silenced(taken: float = 0.4, random: float = 0.05, true_lost: float = 0.01, late: float = 0.2) -> dict[str, Any]:
    """The report's part on the gap without some parts."""

    def left(name: str, heads: tuple[str, ...], true: float, permuted: float) -> dict[str, Any]:
        narrowed = number(0.7 - (true - permuted))
        return {"set": name, "heads": list(heads), "first_layer": 4, "true": number(true), "permuted": number(permuted),
                "narrowed": narrowed}  # fmt: skip

    true = 0.9 - true_lost
    sets = [left("top", CHOSEN, true, true - 0.7 + taken)]
    for draw in range(2):
        sets += [left(f"{kind} {draw}", ("L0H0",), 0.9, 0.2 + random) for kind in ("random", "same layers")]
    sets += [left("late attention", (), 0.8, 0.2 + late), left("late MLPs", (), 0.8, 0.2)]
    return {
        "whole": {"true": number(0.9), "permuted": number(0.2), "gap": number(0.7)},
        "without": sets,
        "beyond": {kind: number(taken - random) for kind in ("random", "same layers")},
        "share": number(taken / 0.7),
        "true_lost": number(true_lost),
        "late": {"over_mlps": number(late), "over_whole": number(late)},
    }


ASKS: dict[str, Any] = {
    "texts": 48,
    "asked": 288,
    "demonstrations": [14, 19],
    "tokens": [90, 110],
    "labels": ["plant", "sport", "animal"],
    "text": "otter: plant\noak: sport",
}
REPORT: dict[str, Any] = {"model": "made up", "asks": ASKS, **lens(), **scored(), **silenced()}
TOY: dict[str, Any] = {
    "seeds": [
        {"seed": seed, "true": 1.0, "permuted": 0.1, "best": 0.97, "critical": 0.75, "share": 0.95, "true_lost": 0.0}
        for seed in range(2)
    ]
}

#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"demonstrations": REPORT, "toy-table": TOY}
