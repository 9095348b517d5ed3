"""A minimal report for quick tests: two heads bring the topic, and the fifth MLP of six applies the function."""

from __future__ import annotations

from typing import Any

LAYERS, HEADS, DRAWS = 6, 4, 2
TOPIC = ("L2H0", "L3H1")
FUNCTION = 4
SETS = ("topic", "answer", *(f"{kind} {draw}" for draw in range(DRAWS) for kind in ("random", "same layers")))


def number(mean: float, by: float = 0.01) -> dict[str, float]:
    """A number with its interval."""
    return {"mean": mean, "low": mean - by, "high": mean + by}


def parts(mlps: float = 0.7) -> dict[str, Any]:
    """The report's part on what heads and MLPs add."""
    by_layer = [number(value) for value in (0, 0, 0.5, 0.5, 4, 1)]
    return {
        "nats": {
            "total": number(6),
            "embedding": number(0),
            "heads": number(6 * (1 - mlps)),
            "mlps": number(6 * mlps),
        },
        "share": {"embedding": number(0), "heads": number(1 - mlps), "mlps": number(mlps)},
        "layers": by_layer,
        "mlps": by_layer,
        "relations": {
            name: {"prompts": 30, "mlps": number(mlps), "last_layer": number(-1)} for name in ("capital", "opposite")
        },
    }


def lens(relation: int = 3, subject: int = 5) -> dict[str, Any]:
    """The report's part on the layer after which either part is known."""

    def curve(known: int, before: float, after: float) -> list[dict[str, float]]:
        return [number(after if layer >= known else before) for layer in range(LAYERS + 1)]

    layers = {"relation": relation, "subject": subject}
    return {
        "loss": {name: curve(layer, 2.0, 0.1) for name, layer in layers.items()},
        "right": {name: curve(layer, 0.2, 0.9) for name, layer in layers.items()},
        "chance": {"relation": 0.5, "subject": 0.1},
        "known": {name: number(layer, 0.1) for name, layer in layers.items()},
        "halved": {name: number(layer, 0.1) for name, layer in layers.items()},
        "subject_later": number(subject - relation, 0.1),
    }


def topic(
    share: float = 0.7, random: float = 0.02, looks: float = 0.5, even: float = 0.1, over: float = 1
) -> dict[str, Any]:
    """The report's part on two heads that write the subject."""
    rows = [(layer, head, f"L{layer}H{head}" in TOPIC) for layer in range(LAYERS) for head in range(HEADS)]
    return {
        "heads": [
            {"layer": layer, "head": head, "topic": float(there), "fact": float(there), "looks": looks * there}
            for layer, head, there in rows
        ],
        "chosen": {"topic": list(TOPIC), "answer": ["L5H0", "L5H1"]},
        "layers": [int(name[1]) for name in TOPIC],
        "written": number(3),
        "apart": {
            name: {
                "subject": number(one),
                "answer": number(other),
                "cosine": number(0.4),
                "subject over answer": number(one - other),
            }
            for name, one, other in (("heads", 2, 2 - over), ("MLPs", 1, 3))
        },
        "share": {name: number(share if name == "topic" else random) for name in SETS},
        "looks": {name: number(looks if name == "topic" else even) for name in SETS},
    }


def function(
    layer: int = FUNCTION,
    adds: float = 3.0,
    mixed: float = -0.1,
    read: float = 0.3,
    answer: float = 1.0,
    heads: tuple[float, float] = (-0.5, 0.5),
    intercept: float = 2.0,
) -> dict[str, Any]:
    """The report's part on an MLP that adds the answer."""
    mlps = [number(adds if at == layer else 0.1) for at in range(LAYERS)]
    return {
        "layer": layer,
        "mlps": mlps,
        "mixed": [mixed] * DRAWS,
        "regression": {
            "read": number(read),
            "read_mixed": [0.0] * DRAWS,
            "all": number(read + 0.1),
            "gain": number(0.1),
            "gain_mixed": [0.0] * DRAWS,
            "numbers": {"subject": number(0), "answer": number(answer), "rest of the stream": number(0)},
            "answer_mixed": [0.0] * DRAWS,
            "heads": {name: number(value) for name, value in zip(TOPIC, heads, strict=True)},
        },
        "intercept": number(intercept),
    }


def last_layer(adds: float = -1.0, negative: float = 0.9, halving: float = 0.05) -> dict[str, Any]:
    """The report's part on a last layer that takes some of the answer back."""
    return {
        "layers": [*(number(value) for value in (0, 0, 1, 1, 4)), number(adds)],
        "negative": [*(number(0.2) for _ in range(LAYERS - 1)), number(negative)],
        "heads": number(0),
        "mlp": number(adds),
        "runner_up": number(0.1),
        "below_runner_up": number(adds - 0.1),
        "among_its_kind": number(adds),
        "other_words": [0.0] * DRAWS,
        "probability": {"0": number(0.6 + 2 * halving), "0.5": number(0.6 + halving), "1": number(0.6)},
        "halving_adds": number(halving),
        "leaving_out_adds": number(2 * halving),
    }


def instead(lost: float = 0.6, exchanged: float = 0.7, by_mlps: float = 0.8, random: float = 0.1) -> dict[str, Any]:
    """The report's part on other outputs in place of the topic heads."""
    shares = {"lost": lost, "exchanged": exchanged, "by_mlps": by_mlps}

    def of(name: str) -> dict[str, Any]:
        return {kind: number(share if name == "topic" else random) for kind, share in shares.items()}

    return {
        "prompts": 30,
        "sets": [{"set": name, "heads": ["L2H0", "L3H1"], **of(name)} for name in SETS],
        "beyond": {
            f"{chosen} over {control}": {
                kind: number(share - random if chosen == "topic" else 0) for kind, share in shares.items()
            }
            for chosen in ("topic", "answer")
            for control in ("random", "same layers")
        },
    }


KNOWN = [
    {"relation": "capital", "sentence": "The capital of {} is", "right": 30, "asked": 40},
    {"relation": "opposite", "sentence": "The opposite of {} is", "right": 30, "asked": 34},
]
REPORT: dict[str, Any] = {
    "model": "made up",
    "known": KNOWN,
    "prompts": [30, 30],
    "parts": parts(),
    "lens": lens(),
    "topic": topic(),
    "function": function(),
    "last_layer": last_layer(),
    "instead": instead(),
}
TOY: dict[str, Any] = {
    "seeds": [{"seed": seed, "relation": 1728.0, "subject": 4416.0} for seed in range(2)],
    "cells": [
        {"attention": 512, "mlp": 0, "recall": 0.28},
        {"attention": 512, "mlp": 2048, "recall": 0.95},
        {"attention": 2048, "mlp": 0, "recall": 0.99},
    ],
}

#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"recall": REPORT, "toy-facts": TOY}
