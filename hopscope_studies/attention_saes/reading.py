"""Reports as rows of a tidy table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hopscope.experiments.reports import Row, row
from hopscope_studies.attention_saes.prefixes import CONDITIONS


def known(report: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of a report on known features."""
    for name, value in report.items():
        if name == "prefixes":
            for one in value:
                yield from (row("by prefix", one["head"], score, other=p, step=one["order"])
                            for p, score in one["by_prefix"].items())  # fmt: skip
        elif isinstance(value, list):
            yield from (row(name, str(at), one) for at, one in enumerate(value))
        else:
            yield row("autoencoder", name, value)


def prefixes(report: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of a report on a language model's heads."""
    yield row("asks", "sequences", report["sequences"])
    yield from (row("log p", "right token", value, other=p) for p, value in report["log_p"].items())
    kinds = {head: kind for kind, found in report["chosen"].items() for head in found}
    for one in report["heads"]:
        name, kind = one["head"], kinds.get(one["head"], "")
        yield from (row(what, name, one[what], other=kind) for what in ("score", "ratio", "scrambled"))
        for what in ("by prefix", "direct"):
            values = one[what.replace(" ", "_")]
            yield from (row(what, name, v, other=str(p)) for p, v in zip(CONDITIONS, values, strict=True))
    yield from (row("chosen", kind, len(found), other=" ".join(found)) for kind, found in report["chosen"].items())
    yield from (row("shuffled", str(draw), value) for draw, value in enumerate(report["shuffled"]))
    for name in ("differ", "direct_differ"):
        if report[name] is not None:
            yield row("differ", name, report[name])
    if "cut" in report:
        yield from cut(report["cut"])


def cut(found: Mapping[str, Any]) -> Iterator[Row]:
    """Rows on the cost of ablating heads, after one token and after nine."""
    for kind in ("short", "long"):
        yield row("cut", kind, len(found["heads"][kind]), other=" ".join(found["heads"][kind]))
        yield from (row("beyond", kind, v, other=p) for p, v in zip("19", found["beyond"][kind], strict=True))
    for name, values in found["lost"].items():
        yield from (row("lost", name, v, other=p) for p, v in zip("19", values, strict=True))
    yield from (row("gained", "prefix", v, other=p) for p, v in zip("19", found["gained"], strict=True))
    yield row("differ", "interaction", found["interaction"])


def layer(report: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of a report on an autoencoder of a language model's layer."""
    yield row("autoencoder", "text", other=report["text"])
    for name, value in report.items():
        if isinstance(value, (int, float)):
            yield row("autoencoder", name, value)
        elif isinstance(value, list) and name != "tried":
            yield from (row(name, str(at), one) for at, one in enumerate(value))
    for one in report["tried"]:
        yield from (row("tried", name, one[name], other=f"{one['l1']:g}") for name in one if name != "l1")
    yield row("autoencoder", "cost_of_zero", report["cost_of_zero"])
    for kind in ("losses", "recovered", "beyond"):
        yield from (row(kind, name, value) for name, value in report[kind].items())
