"""Reports as rows of a tidy table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hopscope.experiments.reports import Row, row


def demonstrations(report: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of one model."""
    yield from asks(report["asks"])
    yield row("layers", "all", report["layers"])
    for kind, curve in report["lens"].items():
        yield from (row("lens", kind, found, step=layer) for layer, found in enumerate(curve))
    yield from (row("gap", "true less permuted", found, step=layer) for layer, found in enumerate(report["gap"]))
    for kind in ("random_over_permuted", "first_third", "critical", "followed"):
        yield row(kind.replace("_", " "), "all texts", report[kind])
    yield row("overthinking", "judged", report["overthinking"]["lost"], step=report["overthinking"]["layer"])
    yield from (row("most probable", kind, found) for kind, found in report["most_probable"].items())
    yield from heads(report)
    if "without" in report:
        yield from silenced(report)


def asks(found: Mapping[str, Any]) -> Iterator[Row]:
    """Rows that count what was asked."""
    yield from (row("asks", name, found[name]) for name in ("texts", "asked"))
    for name in ("demonstrations", "tokens"):
        yield from (row("asks", f"{end} {name}", at) for end, at in zip(("least", "most"), found[name], strict=True))
    yield row("asks", "the first text", other=repr(found["text"]))


def heads(report: Mapping[str, Any]) -> Iterator[Row]:
    """The scores of all heads, and the chosen ones; `step` is their layer, from 1."""
    for one in report["heads"]:
        name = f"L{one['layer']}H{one['head']}"
        yield from (row(kind, name, one[kind], step=one["layer"] + 1) for kind in ("score", "again", "induction"))
    yield from (row("chosen", one["head"], one["score"], step=one["layer"]) for one in report["chosen"])
    yield from (row("classes mixed", "highest score", value, step=draw) for draw, value in enumerate(report["mixed"]))
    yield row("ranks", "induction", report["ranks"])
    yield row("induction heads", "among the chosen", report["induction_heads"], other=str(len(report["chosen"])))


def silenced(report: Mapping[str, Any]) -> Iterator[Row]:
    """Accuracies and gaps with parts silenced."""
    yield from (row("whole", name, found) for name, found in report["whole"].items())
    for one in report["without"]:
        about = {"other": " ".join(one["heads"]), "step": one["first_layer"]}
        kinds = ("true", "permuted", "narrowed")
        yield from (row(f"without: {kind}", one["set"], one[kind], **about) for kind in kinds)
    yield from (row("beyond", kind, found) for kind, found in report["beyond"].items())
    yield from (row(name.replace("_", " "), "top", report[name]) for name in ("share", "true_lost"))
    yield from (row("late attention", name.replace("_", " "), found) for name, found in report["late"].items())


def toy(report: Mapping[str, Any]) -> Iterator[Row]:
    """The toy study: a row per number and seed."""
    for one in report["seeds"]:
        yield from (row("toy", name.replace("_", " "), one[name], seed=one["seed"]) for name in one if name != "seed")
