"""Reports of the circuit as rows of a tidy table, for claims and figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hopscope.experiments.reports import Row, row
from hopscope_studies.real_hop.language.portrait import looked_at


def one_hop(report: Mapping[str, Any]) -> Iterator[Row]:
    """Rows on the circuit of one hop; for a wording that the model cannot do, only on its answers."""
    answers = report["answers"]
    yield row("answers", "metric", answers["metric"])
    yield row("answers", "metric with no node", answers["none"])
    yield row("answers", "accuracy", answers["accuracy"])
    yield row("answers", "chance", answers["chance"])
    if "judged" in report:
        yield from judged(report)
    if "table" in report:
        yield from compared(report)
        yield from drawn(report)
    if "change" in report:
        yield from change(report["change"])


def judged(report: Mapping[str, Any]) -> Iterator[Row]:
    """Rows on the circuit on facts that the search has not seen, and on random sets."""
    yield from (row("node", one["node"], one["score"]) for one in report["nodes"])
    yield row("size", "all nodes", report["of"])
    for unit in ("nodes", "heads", "places"):
        if found := report["judged"].get(unit):
            yield row("size", unit, found["size"])
            yield row("kept", unit, found["kept"])
            yield row("lost", unit, found["lost"])
    for draw, found in enumerate(report["random"]):
        yield row("kept", "random nodes", found["kept"], step=draw)
        yield row("lost", "random nodes", found["lost"], step=draw)
    yield from (row("answers", f"accuracy of the {unit}", value) for unit, value in report["accuracy"].items())


def compared(report: Mapping[str, Any]) -> Iterator[Row]:
    """Rows on edges, baselines, curves, single nodes, and nodes against the answer."""
    edges = report["judged"]["edges"]
    yield row("size", "edges", edges["size"])
    yield row("size", "possible edges", edges["of"])
    yield row("kept", "edges", edges["kept"])
    yield row("kept", "all other edges", edges["others"])
    yield from (row("kept", "random edges", value, step=draw) for draw, value in enumerate(report["random_edges"]))
    for one in report["table"]:
        for kind in ("kept", "lost"):
            yield row(f"method {kind}", one["method"], one[kind], step=one["size"], other=one["shared"])
        yield row("method searched", one["method"], one["searched"], step=one["size"])
    for name, points in report["curves"].items():
        yield from (row("curve", name, point, step=point["size"]) for point in points)
    for one in report["alone"]:
        yield row("circuit without", one["node"], one["circuit_without"])
    against = report["against"]
    yield from (row("against", node) for node in against["nodes"])
    yield row("without", "what works against it", against["without"])
    yield from (row("without", "random nodes", value, step=draw) for draw, value in enumerate(against["random"]))


def drawn(report: Mapping[str, Any]) -> Iterator[Row]:
    """Rows with the content of the picture of the circuit."""
    for step, (name, token) in enumerate(zip(report["asks"]["names"], report["asks"]["tokens"], strict=True)):
        yield row("token", name, step=step, other=repr(token))
    yield row("facts", repr(report["asks"]["facts"]))
    for one in report["places"]:
        role, seen = looked_at(one)
        yield row("place", one["place"], seen, other=role)
    for edge in report["edges"]:
        sender, receiver, part = edge["ends"]
        yield row("edge", f"{sender}->{receiver}", edge["score"], other=part)


def change(found: Mapping[str, Any]) -> Iterator[Row]:
    """Rows on perfect heads and gains: the metric and the accuracy with each, and with random heads."""
    perfect = found["perfect"]
    for one in perfect["single"]:
        yield from answered("perfect", one["heads"][0], one)
    yield from answered("perfect", "all of these", perfect["all"])
    for draw, one in enumerate(perfect["random"]):
        yield from answered("perfect", "random heads", one, step=draw)
    for name in ("louder", "quieter"):
        about = found[name]
        yield from answered(name, "the heads", about["judged"], other=f"{about['gain']:g}")
        for draw, one in enumerate(about["random"]):
            yield from answered(name, "random heads", one, step=draw)
        yield from (row(f"{name} head", head) for head in about["heads"])


def answered(kind: str, name: str, found: Mapping[str, Any], **more: Any) -> Iterator[Row]:
    """Rows on the metric and the accuracy of an answer."""
    yield row(f"{kind}: metric", name, found["metric"], **more)
    yield row(f"{kind}: accuracy", name, found["accuracy"], **more)


def two_hops(report: Mapping[str, Any]) -> Iterator[Row]:
    """Rows on the reasons why two hops fail."""
    for name, found in report["answers"].items():
        yield from answered("answers", name.replace("_", " "), found)
    for one in report["lens"]:
        if one["token"] in ("query", "answer"):
            yield row(f"lens {one['what']}", one["token"], one, step=one["layer"])
    for one in report["probes"]:
        yield row(f"probe {one['what']}", one["token"], one, step=one["layer"])
        yield row(f"probe {one['what']}, shuffled", one["token"], one["shuffled"], step=one["layer"])
    for one in report["handed_in"]:
        yield from answered("handed in", "x_1 at the query", one, step=one["layer"])
    back = report["back_patching"]
    for cell in back["cells"]:
        yield row("back-patching, chosen on", f"from {cell['from']}", cell["metric"], step=cell["to"])
    best = f"from {back['best']['from']} to {back['best']['to']}"
    yield from answered("back-patching", best, back["judged"])
    yield from (row("back-patching of other rows", best, x, step=draw) for draw, x in enumerate(back["other_rows"]))
