"""The text report of `hopscope lm heads`, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SHOWN = 12  # paths and connections that are listed; the report has all


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as text."""
    yield from score_lines(report)
    yield from hop_lines(report)


def score_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The standard scores, and the ablation."""
    scores, ablation = report["scores"], report["ablation"]
    yield f"{report['model']}: attention on {scores['sequences']} sequences of repeated random tokens, 0-1"
    for name, heads in scores["top"].items():
        yield f"  {name.replace('_', ' '):16}" + "  ".join(f"{row['head']} {row['score']:.3f}" for row in heads)
    random = ablation["without_random"]
    yield f"loss on the repeat (nats): {ablation['loss']:.2f}"
    size, each = len(ablation["top"]), ", ".join(f"{loss:.2f}" for loss in random)
    yield f"  without the top {size} induction heads: {ablation['without_top']:.2f}"
    yield f"  without {size} random heads: {ablation['median_random']:.2f} in the median (draws: {each})"
    yield ""


def hop_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The accuracy, and the paths, the set and its stack if the hop is done."""
    hop, asked = report["hop"], report["protocol"]["formulation"]
    yield (
        f"{asked['name']}, {asked['n_hops']} hop{'s' * (asked['n_hops'] > 1)}: {hop['accuracy']:.3f} right "
        f"({hop['low']:.3f} to {hop['high']:.3f}, n = {hop['n']}), chance {hop['chance']:.3f}"
    )
    if not hop["above_chance"]:
        yield "not above chance: there is no hop here whose heads could be found, so the analysis stops"
        return
    yield from path_lines(report)
    yield from set_lines(report)


def path_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The paths that the answer needs most."""
    yield "\npaths whose knock-out harms the answer most (log-odds, nats, 95 %):"
    for row in report["paths"][:SHOWN]:
        control = f"; shuffled chains {row['shuffled']['mean']:+.3f}" if row["shuffled"] else ""
        yield (
            f"  {row['path']:38} {interval(row['knocked_out'])}  by hand {row['by_hand']['mean']:+.3f}"
            f"  attention {row['strength']:.2f}{control}"
        )


def set_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The minimal set, its controls, and the connections between heads."""
    found, depth = report["minimal"], report["depth"]
    if not found["size"]:
        yield f"\nno set of heads was found that keeps {found['level']:.0%} of the metric; try more --tests"
        return
    kind = "minimal" if found["finished"] else "smallest found (the tests ran out)"
    yield f"\n{kind} set: {found['size']} of {found['of']} heads; others at their mean pattern"
    for head in (head for head in report["heads"] if head["minimal"]):
        control = head["shuffled_strength"]
        yield f"  {head['path']:38} attention {head['strength']:.2f}, with shuffled chains {control:.2f}"
    yield f"metric kept on unseen questions: {share(found['set'])}"
    yield f"  by all heads but these: {share(found['without_set'])}"
    yield "  by random sets of the same size: " + ", ".join(f"{r['faithfulness']:.2f}" for r in found["random_sets"])
    yield "\nwhat stacks on what (effect of cutting the connection):"
    for row in report["stacking"]["cut"][:SHOWN]:
        yield f"  {row['sender']} → {row['receiver']} {row['part']:6} {interval(row['cut'])}"
    stack, least = " → ".join(depth["stack"]) or "none", depth["min_layers"]
    yield f"longest stack: {stack}" + (f"; theory asks for at least {least} layers" if least else "")


def interval(value: Mapping[str, float]) -> str:
    return f"{value['mean']:+.3f} ({value['low']:+.3f} to {value['high']:+.3f})"


def share(value: Mapping[str, float]) -> str:
    return f"{value['faithfulness']:.2f} ({value['low']:.2f} to {value['high']:.2f})"
