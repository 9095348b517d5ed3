"""A circuit in words: what its heads attend to, by role, and what they pass on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hopscope.language.lens.ablation import short
from hopscope_studies.real_hop.language.edges import LOGITS, Edge, on_the_way
from hopscope_studies.real_hop.language.machine import Machine
from hopscope_studies.real_hop.language.trial import is_head, where

#: Least attention that is mentioned (ours): to the asked chain's fact beyond that to the paired one's; and to an
#: earlier #: token of the question.
TELLING = 0.04
SEEN = 0.1
WORDS = {
    "key": "what is asked about, where a fact names it",
    "link": "the tokens after its name in the fact",
    "value": "its value",
    "end": "the end of its fact",
}


def called(unit: str) -> str:
    """`L15H7`, `MLP 20`; at a place as in `L15H7 at query`."""
    node, _, place = unit.partition("@")
    layer, _, head = node[1:].partition(".h")
    name = node if node in ("input", LOGITS) else short((int(layer), int(head))) if head else f"MLP {layer}"
    return f"{name} at {place}" if place else name


def portraits(machine: Machine, places: Sequence[str]) -> list[dict[str, Any]]:
    """The name of every place in words and, for heads, what they attend to on average over all rows."""
    return [portrait(machine, place) for place in places]


def portrait(machine: Machine, place: str) -> dict[str, Any]:
    """The attention of one place to the facts of the asked and the paired chain, by role, and to the question."""
    about: dict[str, Any] = {"place": place, "name": called(place)}
    if not is_head(place):
        return about
    layer, position, head = where(place, machine)
    assert isinstance(position, int)
    with torch.no_grad():
        q, k, _ = machine.project(layer, machine.clean.streams[layer])
        attention = machine.pattern(layer, q, k)[:, head, position]
    start = machine.asks.prefix.shape[1]
    to_facts = []
    for role in roles(machine):
        asked, paired = torch.tensor(rows(machine, attention, role)).mean(0).tolist()
        to_facts.append({"role": role, "asked": asked, "paired": paired})
    to_ask = [
        {"token": name, "attention": float(attention[:, start + i].mean())}
        for i, name in enumerate(machine.asks.names)
        if i < position
    ]
    return {**about, "to_facts": to_facts, "to_question": to_ask, "looks": looks(to_facts, to_ask)}


def roles(machine: Machine) -> list[str]:
    """The facts' roles in the order of reading."""
    start = machine.asks.prefix.shape[1]
    return list(dict.fromkeys(role for role, _, at in machine.asks.held[0] if "[" in role and at < start))


def rows(machine: Machine, attention: Tensor, role: str) -> list[tuple[float, float]]:
    """For every row, attention to a role of the chain that it asks about, and of the paired row's chain."""
    asks, found = machine.asks, []
    chains = [next(chain for name, chain, _ in held if name == "answer") for held in asks.held]
    for row, held in enumerate(asks.held):
        both = [
            sum(float(attention[row, at]) for name, chain, at in held if name == role and chain == wanted)
            for wanted in (chains[row], chains[int(asks.other[row])])
        ]
        found.append((both[0], both[1]))
    return found


def looks(to_facts: list[dict[str, Any]], to_ask: list[dict[str, Any]]) -> str:
    """What a head attends to, in words; empty if nothing stands out."""
    said = []
    best = max(to_facts, key=more)
    if more(best) >= TELLING:
        kind, _, step = best["role"].rstrip("]").partition("[")
        of = f" (fact {step})" if len({seen["role"].partition("[")[2] for seen in to_facts}) > 1 else ""
        said.append(f"{WORDS[kind]}{of} ({best['asked']:.2f}; in the paired fact {best['paired']:.2f})")
    token = max(to_ask, key=lambda one: float(one["attention"]), default=None)
    if token is not None and token["attention"] >= SEEN:
        said.append(f"the token {token['token']} of the question ({token['attention']:.2f})")
    return " and ".join(said)


def looked_at(about: dict[str, Any]) -> tuple[str, float | None]:
    """The role of the asked fact that a place attends to, and how much; none if nothing stands out."""
    best = max(about.get("to_facts", ()), key=more, default=None)
    return ("", None) if best is None or more(best) < TELLING else (best["role"], float(best["asked"]))


def more(seen: dict[str, Any]) -> float:
    """By how much attention to the asked fact exceeds that to the paired one."""
    return float(seen["asked"] - seen["paired"])


def looks_up(about: dict[str, Any]) -> bool:
    """Whether a place is a head at the answer that attends to the right value more than to the paired question's."""
    if not about["place"].endswith("@answer") or "to_facts" not in about:
        return False
    values = [seen for seen in about["to_facts"] if seen["role"].startswith("value")]
    return more(max(values, key=lambda seen: str(seen["role"]))) >= TELLING


def in_words(report: dict[str, Any], tokens: dict[str, str]) -> list[str]:
    """The circuit from the query to the answer, a sentence for each place on the way, with tokens by name."""
    edges = [Edge(*edge["ends"]) for edge in report["edges"]]
    way = on_the_way([(edge.sender, edge.receiver) for edge in edges])
    edges = [edge for edge in edges if {edge.sender, edge.receiver} <= way]
    said = []
    for about in (one for one in report["places"] if one["place"] in way):
        place = about["place"]
        node, _, at = place.partition("@")
        told = [edge.receiver for edge in edges if edge.sender == place]
        onto = ", ".join(
            dict.fromkeys("the logits" if one == LOGITS else called(one.partition("@")[0]) for one in told)
        )
        sees = f" looks at {about['looks']}" if about.get("looks") else ""
        fed = [edge for edge in edges if edge.receiver == place]
        source = ", ".join(dict.fromkeys(called(edge.sender.partition("@")[0]) for edge in fed))
        said.append(
            f"{called(node)}, at the {at} ({tokens[at]!r}),{sees}{' and' if sees else ''} "
            f"takes from {source} and writes for {onto}."
        )
    return said
