"""A minimal report for quick tests: one head of forty does everything."""

from __future__ import annotations

from typing import Any

SIZES = (1, 4, 8)
DRAWS = 2


def number(mean: float, by: float = 0.01) -> dict[str, float]:
    """A number with its interval."""
    return {"mean": mean, "low": mean - by, "high": mean + by}


def lost(one: float, random: float) -> list[dict[str, Any]]:
    """The report's part on what is lost with sets of heads masked, and with random ones."""
    rows: list[dict[str, Any]] = [{"set": "none", "kept": number(0.9)}]
    for size in SIZES:
        beside = {
            "beyond random": number(one - random),
            **({"beyond same layers": number(one - random)} if size == 8 else {}),
        }
        rows.append({"set": f"retrieval {size}", "lost": number(one), **beside})
        rows += [{"set": f"random {size} {draw}", "lost": number(random)} for draw in range(DRAWS)]
    rows += [{"set": f"same layers 8 {draw}", "lost": number(random)} for draw in range(DRAWS)]
    return [*rows, {"set": "induction 8", "lost": number(one / 2)}]


def sparsity(share: float) -> dict[str, Any]:
    """The report's part on the number of retrieval heads."""
    return {
        "share": number(share, 0.005),
        "as_sample": number(share, 0.02),
        "retrieval_heads": 1,
        "heads": 40,
        "never": 38,
        "half_or_more": 1,
        "highest": 0.9,
    }


def compared(ranks: float, shared: int) -> dict[str, Any]:
    """The report's part on two scores of the same heads."""
    return {
        "ranks": number(ranks),
        "of_those_with_a_score": ranks,
        "with_a_score": 12,
        "shared": shared,
        "of": 8,
        "by_chance": 1.6,
    }


def firing(head: str, active: float, p: float) -> dict[str, Any]:
    """The report's part on when a head hits a token."""
    return {
        "head": head,
        "score": 0.5,
        "active": active,
        "p": {"needle": p, "depth": 0.5, "length": 0.5},
        "by_depth": [0.5] * 5,
    }


REPORT: dict[str, Any] = {
    "asks": {"n": 20, "needles": 4, "tokens": [200, 400], "needle_tokens": [7, 8]},
    "answers": {"log_p": number(-0.2), "recall": number(0.8), "answered": number(0.7)},
    "sparsity": {"forced": sparsity(0.025), "free": sparsity(0.025)},
    "heads": [
        {
            "layer": layer,
            "head": head,
            "forced": 0.9 if (layer, head) == (3, 1) else 0.0,
            "free": 0.8 if (layer, head) == (3, 1) else 0.0,
            "induction": 0.9 if (layer, head) == (3, 1) else 0.1,
        }
        for layer in range(5)
        for head in range(8)
    ],
    "firing": [firing("L3H1", 1.0, 0.5), firing("L2H2", 0.5, 0.001)],
    "halves": compared(0.9, 8),
    "induction": compared(0.5, 5),
    "by_force_and_free": compared(0.9, 7),
    "masking": {
        "heads": {"none": [], "retrieval 8": ["L3H1"], "random 8 0": ["L0H0"], "induction 8": ["L3H1"]},
        "log_p": lost(2.0, 0.1),
        "zeroed": [one for one in lost(2.0, 0.1) if one["set"].startswith(("none", "retrieval 8", "random 8"))],
        "aside": [one for one in lost(0.1, 0.1) if one["set"].startswith(("none", "retrieval 8", "random 8"))],
        "answered": [one for one in lost(0.6, 0.0) if one["set"].startswith(("none", "retrieval 8", "random 8"))],
    },
}

#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"needles": REPORT}
