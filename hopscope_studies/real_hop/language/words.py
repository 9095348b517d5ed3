"""The text report of `hopscope lm heads --circuit`, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as text."""
    answers, accuracy = report["answers"], report["answers"]["accuracy"]
    yield (
        f"{report['model']}: {accuracy['mean']:.3f} right ({accuracy['low']:.3f} to {accuracy['high']:.3f}), chance "
        f"{answers['chance']:.3f}; logit of the right answer minus the paired question's {told(answers['metric'])}"
    )
    if "why" in report:
        yield from why_lines(report["why"])
    elif "nodes" not in report:
        yield "the question does not move the answer: there is no hop here whose circuit could be found"
    else:
        yield from circuit_lines(report)


def circuit_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The circuit in words, and the tables."""
    yield ""
    yield from report["words"]
    yield "\nshares of the metric on other facts: kept by these alone, and lost without them (95 %)"
    for unit, found in report["judged"].items():
        lost = f"  lost {told(found['lost'])}" if "lost" in found else ""
        yield f"  {found['size']:4} {unit:24} kept {told(found['kept'])}{lost}"
    yield "  random nodes, as many: kept " + ", ".join(f"{one['kept']['mean']:.2f}" for one in report["random"])
    yield "  random edges, as many: kept " + ", ".join(f"{value:.2f}" for value in report["random_edges"])
    yield "\nby other methods, in nodes:"
    for row in report["table"]:
        yield (
            f"  {row['method']:30} {row['size']:4} nodes, {row['shared']} of ours  kept {told(row['kept'])}"
            f"  lost {told(row['lost'])}"
        )
    against = report["against"]
    yield f"\nwithout the nodes that work against it ({', '.join(against['nodes'])}): {told(against['without'])}"
    yield f"without as many random ones: {', '.join(f'{value:.2f}' for value in against['random'])}"


def why_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the report on why two hops fail."""
    for name, answer in found["answers"].items():
        yield f"{name.replace('_', ' ')}: metric {told(answer['metric'])}, right {told(answer['accuracy'])}"
    yield "\nmetric with the first hop's answer patched in at the query, before layer:"
    yield "  " + "  ".join(f"{one['layer']}: {one['metric']['mean']:.2f}" for one in found["handed_in"])
    for what in ("x_1", "answer"):
        for token in ("query", "answer"):
            rows = [one for one in found["probes"] if one["what"] == what and one["token"].startswith(token)]
            if rows:
                best = max(rows, key=lambda one: float(one["mean"]))
                yield (
                    f"probe for {what} at the {token}: at best {told(best)}, after layer {best['layer'] - 1}; "
                    f"with shuffled labels up to {best['shuffled']:.2f}"
                )
    back = found["back_patching"]
    yield (
        f"back-patching from before layer {back['best']['from']} to before layer {back['best']['to']}: metric "
        f"{told(back['judged']['metric'])}; from other rows {', '.join(f'{x:.2f}' for x in back['other_rows'])}"
    )


def told(value: Mapping[str, float]) -> str:
    return f"{value['mean']:.2f} ({value['low']:.2f} to {value['high']:.2f})"
