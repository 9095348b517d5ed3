"""Minimal reports for quick tests: one head of each kind, and a layer of few features."""

from __future__ import annotations

from typing import Any

from hopscope.experiments.reports import row

CURVES = {
    "L2H0": [0.0, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.6],
    "L2H1": [0.0, 0.1, 0.3, 0.4, 0.45, 0.5, 0.5, 0.1],
    "L3H0": [0.0, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01],
}
CONDITIONS = ("0", "1", "2", "3", "4", "6", "9", "scrambled")
DRAWS = 2


def number(mean: float, by: float = 0.01) -> dict[str, float]:
    """A number with its interval."""
    return {"mean": mean, "low": mean - by, "high": mean + by}


def head(name: str, curve: list[float]) -> dict[str, Any]:
    """The entry of one head, from its scores by prefix."""
    full = (curve[5] + curve[6]) / 2
    return {
        "head": name,
        "layer": int(name[1]),
        "score": number(full),
        "by_prefix": curve,
        "direct": [5 * value for value in curve],
        "ratio": number(curve[1] / full),
        "scrambled": number(curve[7] / curve[6]),
    }


def heads(**changes: Any) -> dict[str, Any]:
    """A minimal report on a language model's heads."""
    sets = ("short", "long", *(f"random {draw}" for draw in range(DRAWS)))
    costs = {"short": (3.0, 1.0), "long": (0.5, 2.0)}
    return {
        "sequences": 8,
        "log_p": {name: number(-12 + at) for at, name in enumerate(CONDITIONS)},
        "heads": [head(name, curve) for name, curve in CURVES.items()],
        "chosen": {"short": ["L2H0"], "long": ["L2H1"]},
        "shuffled": [0] * DRAWS,
        "differ": number(0.6),
        "direct_differ": number(0.5),
        "cut": {
            "heads": {name: ["L2H0"] for name in sets},
            "lost": {name: [number(value) for value in costs.get(name, (0.1, 0.1))] for name in sets},
            "gained": [number(4.0), number(9.0)],
            "beyond": {kind: [number(value - 0.1) for value in costs[kind]] for kind in ("short", "long")},
            "interaction": number(0.7),
        },
        **changes,
    }


HEADS = heads()

LAYER: dict[str, Any] = {
    "text": "0" * 64,
    "layer": 2,
    "vectors": 100,
    "seen": 1000,
    "l1": 4.0,
    "tried": [{"l1": 4.0, "trained_l0": 4.0, "l0": 4.0, "explained": 0.7, "recovered": number(0.9)}],
    "d": 16,
    "features": 32,
    "l0": 4.0,
    "dead": 0.1,
    "silent": 0.2,
    "dense": 0.1,
    "explained": 0.7,
    "explained_by_mean": 0.0,
    "explained_by_components": 0.5,
    "of_one_head": 0.5,
    "by_head": [13, 13],
    "top_share": [0.5, 0.6, 0.7, 0.8, 0.9],
    "losses": {"clean": number(3.0), "zero": number(3.1), "features": number(3.01), "random 0": number(3.06)},
    "cost_of_zero": number(0.1),
    "recovered": {
        "features": number(0.9),
        "mean": number(0.2),
        "components": number(0.5),
        **{f"{kind} {draw}": number(0.3) for kind in ("random", "shuffled") for draw in range(DRAWS)},
    },
    "beyond": {kind: number(0.05) for kind in ("random", "shuffled", "components", "mean")},
}


def source_kinds(**changes: float) -> dict[str, Any]:
    """Rows on the features of two layers, as of a language model; each head has features of two kinds or more."""
    given = {"late": 0.3, "early": 0.05, "kinds": 2.0, "untrained": 1.2, "specialised": 0.5, "foreign": 0.01} | changes
    rows: list[dict[str, Any]] = []
    for layer in (6, 18):
        found = {"own": given["kinds"], "another's": 1.5, "untrained": given["untrained"]}
        for what, kinds in found.items():
            after = given["late" if layer == 18 else "early"] if what == "own" else given["foreign"]
            shares = {"start": 0.1, "self": 0.2, "after a copy": after, "copy": 0.01, "near": 0.2, "far": 0.2}
            about = {"other": what, "step": layer}
            rows += [row("share", name, number(share), **about) for name, share in shares.items()]
            rows += [row("owned", f"H{head}", 20, **about) for head in range(2)]
            rows += [row("number of kinds", f"H{head}", number(kinds), **about) for head in range(2)]
            rows += [row("mean kinds", "own", kinds, **about)]
            rows += [row("specialised", "heads", given["specialised"], **about)]
    return {"rows": rows}


#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"prefix-heads": HEADS, "layer-features": LAYER, "source-kinds": source_kinds()}
