"""Reports as rows of a tidy table, for claims and figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hopscope.experiments.reports import Row, row


def recalled(report: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of one model."""
    for one in report["known"]:
        yield row("right", one["sentence"], one["right"], other=one["relation"], step=one["asked"])
    yield from (row("prompts", name, found) for name, found in zip(("first", "second"), report["prompts"], strict=True))
    yield from parts(report["parts"])
    yield from lens(report["lens"])
    yield from topic(report["topic"])
    yield from function(report["function"])
    yield from last_layer(report["last_layer"])
    if "instead" in report:
        yield from instead(report["instead"])


def parts(found: Mapping[str, Any]) -> Iterator[Row]:
    """The contributions of parts to what is known about the subject."""
    for kind in ("nats", "share"):
        yield from (row(kind, name, one) for name, one in found[kind].items())
    for kind in ("layers", "mlps"):
        yield from (row("adds", kind, one, step=layer) for layer, one in enumerate(found[kind]))
    for name, one in found["relations"].items():
        yield row("relation: prompts", name, one["prompts"])
        yield from (row(f"relation: {kind.replace('_', ' ')}", name, one[kind]) for kind in ("mlps", "last_layer"))


def lens(found: Mapping[str, Any]) -> Iterator[Row]:
    """Both parts of an answer after every layer."""
    for kind in ("loss", "right"):
        for name, curve in found[kind].items():
            yield from (row(f"lens: {kind}", name, one, step=layer) for layer, one in enumerate(curve))
    yield from (row("chance", name, one) for name, one in found["chance"].items())
    for kind in ("known", "halved"):
        yield from (row(f"{kind} after", name, one) for name, one in found[kind].items())
    yield row("halved after", "subject later", found["subject_later"])


def topic(found: Mapping[str, Any]) -> Iterator[Row]:
    """Heads that write the subject."""
    for one in found["heads"]:
        name = f"L{one['layer']}H{one['head']}"
        yield from (row(f"head: {kind}", name, one[kind], step=one["layer"]) for kind in ("topic", "fact", "looks"))
    for kind, heads in found["chosen"].items():
        yield from (row("chosen", kind, None, other=name, step=int(name[1:].split("H")[0])) for name in heads)
    yield row("written", "topic", found["written"])
    for kind, numbers in found["apart"].items():
        yield from (row(f"apart: {kind}", name, one) for name, one in numbers.items())
    for kind in ("share", "looks"):
        yield from (row(f"topic: {kind}", name, one) for name, one in found[kind].items())


def function(found: Mapping[str, Any]) -> Iterator[Row]:
    """The MLP that applies the function, and the regression of what it adds."""
    yield row("function", "layer", found["layer"])
    yield row("function", "adds", found["mlps"][found["layer"]], step=found["layer"])
    yield from (row("judged", "mlps", one, step=layer) for layer, one in enumerate(found["mlps"]))
    yield from (row("function: mixed", "adds", one, step=draw) for draw, one in enumerate(found["mixed"]))
    made = found["regression"]
    yield from (row("regression", name, made[name]) for name in ("read", "all", "gain"))
    yield from (row("regression: number", name, one) for name, one in made["numbers"].items())
    yield from (row("regression: head", name, one) for name, one in made["heads"].items())
    for name in ("read", "gain", "answer"):
        yield from (row("regression: mixed", name, one, step=draw) for draw, one in enumerate(made[f"{name}_mixed"]))
    yield row("intercept", "own kind", found["intercept"])


def last_layer(found: Mapping[str, Any]) -> Iterator[Row]:
    """The effect of the last layer on the answer, and the contribution of every layer."""
    for kind in ("layers", "negative"):
        yield from (row(f"answer: {kind}", "all", one, step=layer) for layer, one in enumerate(found[kind]))
    for name in ("heads", "mlp", "runner_up", "below_runner_up", "among_its_kind", "halving_adds", "leaving_out_adds"):
        yield row("last layer", name.replace("_", " "), found[name])
    yield row("last layer", "answer", found["layers"][-1])
    yield row("last layer", "negative", found["negative"][-1])
    yield from (row("last layer: other words", "adds", one, step=draw) for draw, one in enumerate(found["other_words"]))
    yield from (row("last layer: probability", name, one) for name, one in found["probability"].items())


def instead(found: Mapping[str, Any]) -> Iterator[Row]:
    """The effects of replacing the outputs of some heads."""
    yield row("instead", "prompts", found["prompts"])
    for one in found["sets"]:
        heads = " ".join(one["heads"])
        yield from (row(f"instead: {kind}", one["set"], one[kind], other=heads) for kind in KINDS)
    for name, beyond in found["beyond"].items():
        yield from (row(f"beyond: {kind}", name, beyond[kind]) for kind in KINDS)


KINDS = ("lost", "exchanged", "by_mlps")


def toy(report: Mapping[str, Any]) -> Iterator[Row]:
    """The toy study: a row per number and seed, and per cell of its grid."""
    for one in report["seeds"]:
        yield from (row("toy: halved after", name, one[name], seed=one["seed"]) for name in ("relation", "subject"))
    yield from (
        row("toy: recall", "of 144 facts", one["recall"], step=one["attention"], other=f"MLP {one['mlp']}")
        for one in report["cells"]
    )
