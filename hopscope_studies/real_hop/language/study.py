"""The circuit of one hop in a language model, as found, judged and reported by `hopscope lm heads --circuit`.

The search uses half of the draws of facts: for scores, for the sets of all methods, and for pruning. Every number that
is reported about a set is from the other half.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hopscope.core.intervals import wilson
from hopscope.core.settings import Settings, setting
from hopscope.formulations.base import Formulation
from hopscope.language.checkpoints import Opened
from hopscope.language.layouts.base import Layout
from hopscope.language.lens.attention import Lens
from hopscope.language.lens.estimates import estimate
from hopscope.language.readings.base import Watch
from hopscope_studies.real_hop.language.asks import asks_of
from hopscope_studies.real_hop.language.change import LOUDER, QUIETER, best_gain, perfect_heads
from hopscope_studies.real_hop.language.edges import Between, Edge
from hopscope_studies.real_hop.language.machine import Machine
from hopscope_studies.real_hop.language.portrait import in_words, looks_up, portraits
from hopscope_studies.real_hop.language.scores import STEPS, eap, eap_ig
from hopscope_studies.real_hop.language.search import LEVEL, THRESHOLD, acdc, found, pruned, random_like, shortest
from hopscope_studies.real_hop.language.trial import Trial, by_node, by_place, is_head, mask, ranked

AGAINST = 5  # nodes that work against the answer
FEW = 8  # draws of the search for ACDC and for edges, which take hundreds of tests each
SIZES = (4, 8, 16, 32, 64, 128)  # sizes on the curves of rankings


@dataclass(frozen=True)
class CircuitStudy(Settings):
    """The extent of the measurements."""

    count: int = setting(
        48, "draws of facts, each asked about every chain; half to search, half to judge", low=8, high=2000
    )
    seed: int = setting(0, "of the facts and of everything random", low=0)
    random: int = setting(10, "random sets of the circuit's size", low=1, high=100)
    brief: bool = setting(False, "without baselines, edges and curves: the circuit, judged beside random sets")
    change: bool = setting(False, "also what the model would have to change: heads made perfect, turned up or down")


def circuit_study(
    opened: Opened, formulation: Formulation, layout: Layout, settings: CircuitStudy, watch: Watch
) -> dict[str, Any]:
    """Find the circuit, compare it with the baselines, and report it, as in circuit.json.

    Raises BadInput for a model or questions that do not fit.
    """
    began = time.monotonic()
    lens, half = Lens(opened), settings.count // 2
    watch(f"writing {settings.count} draws of facts")
    asks = asks_of(lens.tokenizer, formulation, layout, settings.seed, settings.count)
    search, judge = (
        Trial(Machine(lens, part), settings.seed) for part in (asks.part(0, half), asks.part(half, settings.count))
    )
    few = search if settings.brief else Trial(Machine(lens, asks.part(0, min(FEW, half))), settings.seed)
    report: dict[str, Any] = {
        **opened.about,
        "protocol": {
            **settings.as_dict(),
            "formulation": {"name": formulation.name(), **formulation.as_dict()},
            "layout": {"name": layout.name(), **layout.as_dict()},
            "metric": "logit of the right answer less that of the paired question's, nats",
            "null": "what the node writes on the same facts asked about another chain",
            "level": LEVEL,
            "ACDC thresholds": [THRESHOLD],
            "draws of ACDC and of edges": min(FEW, half),
            "EAP-IG steps": STEPS,
        },
        "asks": {
            "names": list(asks.names),
            "tokens": list(asks.tokens),
            "per_draw": asks.per_draw,
            "facts": lens.tokenizer.decode(asks.prefix[0]),
        },
        "answers": answers(judge, formulation.chance),
    }
    if report["answers"]["metric"]["low"] > 0:
        found_here = Found(search, few, judge, settings, watch)
        report |= found_here.in_brief() if settings.brief else found_here.report()
        if settings.change:
            report["change"] = found_here.changes(report)
    report["seconds"] = round(time.monotonic() - began, 1)
    return report


def answers(judge: Trial, chance: float) -> dict[str, Any]:
    """The model's answers: the metric, with the question and without; and accuracy among the acceptable answers."""
    asks = judge.machine.asks
    right = judge.machine.clean.logits.argmax(1) == asks.right
    low, high = wilson(int(right.sum()), len(right))
    return {
        "metric": estimate(judge.full),
        "none": estimate(judge.empty),
        "accuracy": {"mean": float(right.float().mean()), "low": low, "high": high, "n": len(right)},
        "chance": chance,
    }


@dataclass
class Found:
    """The search and the judgement.

    Attributes:
        search: the draws for choosing.
        few: some of them, for methods with hundreds of tests.
        judge: the draws for reporting.
        settings: the extent of the measurements.
        watch: receives a line of text on progress.
    """

    search: Trial
    few: Trial
    judge: Trial
    settings: CircuitStudy
    watch: Watch

    def in_brief(self) -> dict[str, Any]:
        """The circuit, compared with random sets of its size."""
        self.watch("EAP-IG of all nodes")
        self.by_token = eap_ig(self.search.machine)
        self.order = ranked(self.scores)
        self.watch("searching for the fewest nodes that keep the answer")
        circuit = found(self.search, self.order)
        self.watch(f"judging {len(circuit)} nodes on other facts, beside random sets")
        seed = self.settings.seed + 100
        draws = [random_like(self.judge, circuit, seed + draw) for draw in range(self.settings.random)]
        heads = [node for node in circuit if is_head(node)]
        return {
            "of": len(self.scores),
            "nodes": [{"node": node, "score": self.scores[node]} for node in circuit],
            "judged": {"nodes": self.judge.judged(circuit), "heads": self.judge.judged(heads)},
            "accuracy": {"nodes": self.accuracy(circuit)},
            "random": [self.judge.judged(draw) for draw in draws],
        }

    @property
    def scores(self) -> dict[str, float]:
        """EAP-IG by node."""
        return by_node(self.search.machine, self.by_token)

    def report(self) -> dict[str, Any]:
        """Run all steps, and return the report."""
        brief = self.in_brief()
        circuit = [row["node"] for row in brief["nodes"]]
        self.watch(f"{len(circuit)} nodes; searching for the tokens at which they are needed")
        places = found(self.search, ranked(by_place(self.search.machine, self.by_token, circuit)))
        edges, edge_scores, edge_random = self.edges(places)
        scores = {"EAP-IG": self.scores, "EAP": by_node(self.search.machine, eap(self.search.machine))}
        more = {"places": self.judge.judged(places), "edges": self.edge_share(places, edges)}
        told: dict[str, Any] = {
            **brief,
            "judged": brief["judged"] | more,
            "accuracy": brief["accuracy"] | {"places": self.accuracy(places)},
            "alone": self.each(circuit),
            "random_edges": edge_random,
            "table": self.table(circuit, scores),
            "curves": {name: self.curve(ranked(values)) for name, values in scores.items()},
            "places": portraits(self.judge.machine, Between(self.judge.machine, places).places),
            "edges": [{"ends": [edge.sender, edge.receiver, edge.part], "score": edge_scores[edge]} for edge in edges],
            "possible_edges": len(edge_scores),
            "against": self.against(),
        }
        names, tokens = self.judge.machine.asks.names, self.judge.machine.asks.tokens
        return {**told, "words": in_words(told, dict(zip(names, tokens, strict=True)))}

    def changes(self, report: dict[str, Any]) -> dict[str, Any]:
        """The changes: perfect lookups, the circuit scaled up, and nodes against the answer scaled down."""
        self.watch("heads made perfect, and turned up or down")
        places = report["places"]
        lookups = [one["place"].partition("@")[0] for one in places if looks_up(one)]
        circuit = [row["node"] for row in report["nodes"] if is_head(row["node"])]
        against = [node for node in self.order[::-1] if is_head(node)][:AGAINST]
        choose, judge, seed, draws = self.search.machine, self.judge.machine, self.settings.seed, self.settings.random
        return {
            "perfect": perfect_heads(judge, lookups, seed, draws),
            "louder": best_gain(choose, judge, circuit, LOUDER, seed, draws),
            "quieter": best_gain(choose, judge, against, QUIETER, seed, draws),
        }

    def accuracy(self, units: Collection[str]) -> float:
        """The accuracy with some units alone."""
        machine = self.judge.machine
        logits = machine.logits(mask(machine, units))
        return float((logits.argmax(1) == machine.asks.right).float().mean())

    def each(self, circuit: Sequence[str]) -> list[dict[str, Any]]:
        """The share that the circuit keeps without each of its nodes."""
        rest = {node: [unit for unit in circuit if unit != node] for node in circuit}
        return [
            {"node": node, "circuit_without": self.judge.interval(self.judge.keeping(rest[node]))} for node in circuit
        ]

    def table(self, circuit: Sequence[str], scores: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
        """Our circuit, ACDC's, and as many nodes by attribution, all searched and judged on the same draws."""
        self.watch("ACDC on the same draws")
        by_acdc = (f"ACDC, τ = {THRESHOLD:g} of the gap", acdc(self.few))
        sets: list[tuple[str, Collection[str]]] = [("ours", circuit), by_acdc]
        sets += [
            (f"{name}, the first {len(circuit)}", ranked(values)[: len(circuit)]) for name, values in scores.items()
        ]
        rows = []
        for name, units in sets:
            shared = len(set(units) & set(circuit))
            rows.append(
                {"method": name, **self.judge.judged(units), "searched": self.search.kept(units), "shared": shared}
            )
        return rows

    def curve(self, order: Sequence[str]) -> list[dict[str, Any]]:
        """The share that the first nodes of a ranking keep, by their number."""
        sizes = [size for size in SIZES if size < len(order)]
        return [{"size": size, **self.judge.interval(self.judge.keeping(order[:size]))} for size in sizes]

    def edges(self, places: Sequence[str]) -> tuple[list[Edge], dict[Edge, float], list[float]]:
        """Edges between the places that together keep the answer, all scores, and shares of random sets of edges."""
        self.watch("edges between them")
        between = Between(self.few.machine, places)
        scores = between.scores()
        names = {str(edge): edge for edge in between.edges}
        order = sorted(names, key=lambda name: (-scores[names[name]], name))

        def passes(chosen: Collection[str]) -> bool:
            values = self.few.metric(between.keeping([names[name] for name in chosen]))
            return self.few.share(values) >= LEVEL

        kept = pruned(order[: shortest(order, passes)], passes)
        on, random = Between(self.judge.machine, places), []
        for draw in range(self.settings.random):
            generator = torch.Generator().manual_seed(self.settings.seed + 200 + draw)
            chosen = torch.randperm(len(on.edges), generator=generator)[: len(kept)].tolist()
            random.append(self.judge.share(self.judge.metric(on.keeping([on.edges[i] for i in chosen]))))
        return [names[name] for name in kept], scores, random

    def edge_share(self, places: Sequence[str], edges: Sequence[Edge]) -> dict[str, Any]:
        """The share that the edges keep, and the share that all other edges keep."""
        between = Between(self.judge.machine, places)
        rest = [edge for edge in between.edges if edge not in edges]
        values = [self.judge.interval(self.judge.metric(between.keeping(chosen))) for chosen in (edges, rest)]
        return {"size": len(edges), "of": len(between.edges), "kept": values[0], "others": values[1]}

    def against(self) -> dict[str, Any]:
        """The nodes that cost the answer most, and the metric without them, beside random ones."""
        worst = self.order[: -AGAINST - 1 : -1]
        random = [
            self.judge.share(self.judge.without(random_like(self.judge, worst, self.settings.seed + 300 + draw)))
            for draw in range(self.settings.random)
        ]
        return {"nodes": worst, "without": self.judge.interval(self.judge.without(worst)), "random": random}
