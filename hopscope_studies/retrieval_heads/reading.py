"""Reports as rows of a tidy table, for claims and figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hopscope.core.intervals import wilson
from hopscope.experiments.reports import Row, row


def needles(report: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of one model on needles."""
    asked = report["asks"]
    for name in ("n", "needles"):
        yield row("asks", name, asked[name])
    for name in ("tokens", "needle_tokens"):
        yield from (
            row("asks", f"{end} {name}", value) for end, value in zip(("least", "most"), asked[name], strict=True)
        )
    yield from (row("answers", name, value) for name, value in report["answers"].items())
    for way, found in report["sparsity"].items():
        yield from (row(f"sparsity {way}", name.replace("_", " "), value) for name, value in found.items())
    for one in report["heads"]:
        name = f"L{one['layer']}H{one['head']}"
        yield from (row(kind, name, one[kind]) for kind in ("forced", "free", "induction"))
    for one in report["firing"]:
        yield row("active", one["head"], one["active"])
        yield from (row(f"p of {group}", one["head"], value) for group, value in one["p"].items())
        yield from (row("by depth", one["head"], value, step=at) for at, value in enumerate(one["by_depth"]))
    for name in ("halves", "induction", "by_force_and_free"):
        yield from agreement(name.replace("_", " "), report[name])
    if "masking" in report:
        yield from masking(report["masking"])


def agreement(name: str, found: Mapping[str, Any]) -> Iterator[Row]:
    """Rows on the agreement of two scores of the same heads."""
    yield row("ranks", name, found["ranks"])
    yield row("ranks of those with a score", name, found["of_those_with_a_score"])
    yield row("heads with a score", name, found["with_a_score"])
    yield row("shared tops", name, found["shared"], other=found["of"])
    yield row("shared tops by chance", name, found["by_chance"], other=found["of"])


def masking(found: Mapping[str, Any]) -> Iterator[Row]:
    """The cost of masking each set."""
    for name, heads in found["heads"].items():
        if name.startswith(("retrieval", "induction")):
            yield row("masked", name, len(heads), other=" ".join(heads))
    for measure in ("log_p", "zeroed", "aside", "answered"):
        for one in found[measure]:
            for kind in one.keys() - {"set"}:
                yield row(f"{kind}: {measure}", one["set"], one[kind])


def released(report: Mapping[str, Any]) -> Iterator[Row]:
    """The authors' models, with intervals that treat heads as a sample."""
    for one in report["models"]:
        low, high = wilson(one["retrieval"], one["heads"])
        share = {"mean": one["retrieval"] / one["heads"], "low": low, "high": high}
        yield row("share", one["model"], share)
        for name in ("heads", "runs", "retrieval", "half", "always", "highest"):
            yield row(name, one["model"], one[name])
