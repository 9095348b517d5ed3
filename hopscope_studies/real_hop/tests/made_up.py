"""Minimal reports for quick tests: one head of a model of two layers does the hop."""

from __future__ import annotations

from typing import Any


def number(mean: float, by: float = 0.05) -> dict[str, float]:
    """A number with its interval."""
    return {"mean": mean, "low": mean - by, "high": mean + by}


def answer(metric: float, accuracy: float) -> dict[str, Any]:
    """An answer's two numbers."""
    return {"metric": number(metric), "accuracy": number(accuracy)}


def set_of(size: int, kept: float, lost: float) -> dict[str, Any]:
    """The entry of a judged set."""
    return {"size": size, "heads": size, "mlps": 0, "kept": number(kept), "lost": number(lost)}


ONE_HOP: dict[str, Any] = {
    "asks": {"names": ["query", "answer"], "tokens": ["a", ":"], "facts": "a = 1\n"},
    "answers": {
        "metric": number(0.2),
        "none": number(-0.2),
        "accuracy": number(0.4),
        "chance": 0.25,
    },
    "of": 40,
    "nodes": [{"node": "m0", "score": 0.1}, {"node": "a1.h0", "score": 0.3}],
    "judged": {
        "nodes": set_of(2, 1.0, 1.0),
        "heads": set_of(1, 0.0, 0.9),
        "places": set_of(2, 1.0, 1.0),
        "edges": {"size": 3, "of": 30, "kept": number(0.9), "others": number(0.1)},
    },
    "accuracy": {"nodes": 0.5, "places": 0.5},
    "random": [set_of(2, 0.0, 0.0), set_of(2, 0.01, 0.02)],
    "random_edges": [0.0, 0.1],
    "alone": [{"node": "a1.h0", "circuit_without": number(0.0)}],
    "table": [
        {"method": "ours", **set_of(2, 1.0, 1.0), "searched": 1.0, "shared": 2},
        {"method": "ACDC, τ = 0.01 of the gap", **set_of(9, 1.0, 1.0), "searched": 1.0, "shared": 2},
        {"method": "EAP-IG, the first 2", **set_of(2, 0.6, 1.0), "searched": 1.0, "shared": 1},
        {"method": "EAP, the first 2", **set_of(2, 0.1, 1.0), "searched": 1.0, "shared": 1},
    ],
    "curves": {"EAP-IG": [{"size": 4, **number(0.8)}, {"size": 8, **number(1.0)}]},
    "places": [
        {"place": "m0@query"},
        {"place": "a1.h0@answer", "to_facts": [{"role": "value[1]", "asked": 0.4, "paired": 0.1}]},
    ],
    "edges": [
        {"ends": ["input@query", "m0@query", ""], "score": 0.1},
        {"ends": ["m0@query", "a1.h0@answer", "v"], "score": 0.1},
        {"ends": ["a1.h0@answer", "logits", ""], "score": 0.3},
    ],
    "against": {"nodes": ["a0.h1"], "without": number(1.6), "random": [1.0, 1.1]},
    "change": {
        "perfect": {
            "single": [{"heads": ["a1.h0"], **answer(1.0, 0.7)}],
            "all": {"heads": ["a1.h0"], **answer(1.5, 0.9)},
            "random": [{"heads": ["a0.h0"], **answer(0.2, 0.4)}],
        },
        "louder": {
            "heads": ["a1.h0"],
            "gain": 2.0,
            "judged": answer(0.8, 0.6),
            "random": [{"heads": ["a0.h0"], **answer(0.2, 0.4)}],
        },
        "quieter": {
            "heads": ["a0.h1"],
            "gain": 0.5,
            "judged": answer(0.5, 0.5),
            "random": [{"heads": ["a0.h0"], **answer(0.2, 0.4)}],
        },
    },
}

LAYERS = range(5)
TWO_HOPS: dict[str, Any] = {
    "answers": {"two_hops": answer(0.0, 0.25), "one_hop": answer(0.2, 0.4)},
    "lens": [
        {"what": what, "layer": layer, "token": token, **number(0.0)}
        for what in ("x_1", "answer")
        for layer in LAYERS
        for token in ("query", "answer")
    ],
    "probes": [
        {"what": what, "layer": layer, "token": token, **number(0.25 if layer < 3 else 0.6), "shuffled": 0.35}
        for what in ("x_1", "answer")
        for layer in LAYERS
        for token in ("query", "answer")
    ],
    "handed_in": [{"layer": layer, **answer(0.2 if layer < 3 else 0.0, 0.4)} for layer in LAYERS],
    "back_patching": {
        "cells": [{"from": 4, "to": 2, **answer(0.01, 0.25)}],
        "best": {"from": 4, "to": 2},
        "judged": answer(0.0, 0.25),
        "other_rows": [0.0, 0.02],
    },
}

#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"circuit": ONE_HOP, "two-hops": TWO_HOPS}
