"""Attention paths emerge one after the other (Musat, ICLR 2025, figures 6 and 7, appendix D, section 9).

The paper follows the paths of one model, Transformer D (24 layers, D = 4), over its checkpoints: a path has emerged
when its mean attention exceeds 0.5. At the scale for two cores models have its shape and its order of facts, with a
prior for the previous token in layer 0 (`transformer_d_prior`), with five seeds. `hopscope.circuits` finds the circuit
of each, and the order of emergence is compared over seeds (docs/emergence.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.emergence.onset import Onset
from hopscope.emergence.order import agreement, first_of_kind
from hopscope.emergence.track import Emergence
from hopscope.experiments.circuit_tables import circuit_of, emergence_of, paths_by_hand
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.tables import columns_of
from hopscope.experiments.values import lags
from hopscope.problem.paths import Path
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.circuit_shapes import first_look_ups, together
from hopscope_studies.stacked_heads.named_circuits import all_have_one
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 10, "cpu": 700, "paper": 60_000}
COMPARES_RUNS = True  # the paths tracked in one run are tracked in all

TOGETHER = 10.0  # steps within which an onset and a hop's learning count as one event: one checkpoint (ours)
told = telling("fig7")


def runs(scale: str) -> Iterator[Config]:
    """Transformer D's shape with a prior, over seeds; at `paper` Transformer D itself, over three seeds."""
    return models_of("transformer_d", scale, 5)


def models_of(preset: str, scale: str, seeds: int) -> Iterator[Config]:
    """At `paper` three models of a preset; else its shape with a prior, over seeds; at `quick` a tiny model."""
    if scale == "paper":
        yield from (recipe(preset).config(seed=seed) for seed in range(3))
        return
    with_prior = recipe(f"{preset}_prior")
    if scale == "quick":
        small = with_prior.config(steps=12, batch=16, log_every=4, val_size=32, checkpoints="4", decay_steps=4)
        yield Config(small.task.but(n_hops=2), small.model.but(n_layers=3, d_model=16), small.training)
        return
    yield from (with_prior.config(seed=seed) for seed in range(seeds))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per event of every run: a path of its circuit (or of another run's), or a hop.

    Columns: run, version, seed, prior, model, circuit (losses on fresh sequences, the latter by hand), verdict; kind
    (`path` or `hop`), event (the name that it has in every run), path, in_circuit, hop (that it serves), onset (JSON).
    """
    rows: list[dict[str, Any]] = []
    for run, emergence in zip(runs, emergence_of(runs, scale), strict=True):
        circuit = circuit_of(run, scale)
        about = {
            **columns_of(run),
            "n": emergence.protocol["sequences"],
            "model": circuit.losses["model"].mean,
            "circuit": circuit.losses["circuit"].mean,
            "verdict": circuit.verdict,
        }
        rows += [about | event for event in events_of(emergence, paths_by_hand(run, scale))]
    return DataFrame(rows)


def events_of(emergence: Emergence, circuit: list[Path]) -> Iterator[dict[str, Any]]:
    """The events of a run: its paths, then its hops."""
    for followed in emergence.paths:
        about = {"kind": "path", "event": followed.name, "path": str(followed.path), "hop": followed.hop or "none"}
        yield about | {"in_circuit": followed.path in circuit, "onset": json.dumps(asdict(followed.onset))}
    for hop, learnt in emergence.learnt.items():
        about = {"kind": "hop", "event": hop, "path": "none", "hop": hop}
        yield about | {"in_circuit": False, "onset": json.dumps(asdict(learnt))}


def onsets(table: DataFrame, kind: str) -> dict[int, dict[str, Onset]]:
    """The events of one kind by seed and name."""
    rows = table[table.kind == kind]
    found: dict[int, dict[str, Onset]] = {}
    for seed, event, text in zip(rows.seed, rows.event, rows.onset, strict=True):
        found.setdefault(int(seed), {})[str(event)] = Onset(**json.loads(text))
    return found


def firsts(table: DataFrame) -> dict[int, dict[str, Onset]]:
    """The first onset of each kind of path, by seed, for paths in a circuit of some run."""
    return {seed: first_of_kind(events) for seed, events in onsets(table, "path").items()}


@styled
def figure(table: DataFrame) -> Figure:
    """A row per kind of path and per hop, with a dot for each seed's first onset."""
    paths, hops = firsts(table), onsets(table, "hop")
    order = agreement(list(paths.values())).events
    names = [*order, *(f"{hop} learnt" for hop in next(iter(hops.values())))]
    shown = picture(8.0, 1.3 + 0.32 * len(names))
    ax = shown.subplots()
    for row, name in enumerate(names):
        ax.axhline(row, color="#e4e4e4", lw=0.8, zorder=0)
        for index, seed in enumerate(paths):
            onset = hops[seed][name.split(" ")[0]] if name.endswith("learnt") else paths[seed].get(name)
            if onset and onset.step is not None:
                label = f"seed {seed}" if row == 0 else "_"
                ax.plot(onset.step, row, "o", ms=4, color=colour(index), alpha=0.8, label=label)
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set(xlabel="optimizer steps (linear between checkpoints)", ylim=(len(names) - 0.5, -0.5))
    ax.set_title("When the mean attention of the first path of each kind goes above 0.5")
    ax.axhline(len(order) - 0.5, color=GREY, lw=0.8)
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """The claims on the observations of section 9.2."""
    yield ablated(table)
    yield several_paths(table)
    yield in_layer_order(table)
    hops, paths = onsets(table, "hop"), firsts(table)
    yield hops_in_order(hops, table)
    yield paths_drive_losses(paths, hops, table)
    yield induction_first(paths, table)
    yield same_order(paths, table)
    yield last_comes_late(hops, table)
    yield last_path_comes_late(paths, hops, table)


def ablated(table: DataFrame) -> Claim:
    """Judge whether the circuit keeps the model's loss."""
    each = table.groupby("run").first()
    solved = each[each.model < 0.05]
    evidence, n, loss = Evidence(table, "9.2", source="paper"), len(solved), solved.circuit
    also, said = [all_have_one(solved.verdict.isin(["circuit", "partial"]))], {"n": (loss < 0.05).sum(), "all": n}
    return told(evidence, "circuit_keeps_the_loss", loss, "loss by hand", n=n, number="highest", also=also, said=said)


def several_paths(table: DataFrame) -> Claim:
    """Judge whether circuits use several heads for one step."""
    own = table[(table.kind == "path") & table.in_circuit.astype(bool)]
    most = own.path.str.split(" ", n=1).str[1].groupby(own.run).agg(lambda kinds: kinds.value_counts().max())
    evidence, said = Evidence(own, "9.2", source="", among=table), {"n": (most > 1).sum(), "all": len(most)}
    return told(evidence, "several_paths_for_one_step", most, "number of such paths", of="highest", above=1, said=said)


def in_layer_order(table: DataFrame) -> Claim:
    """Judge whether the query looks later symbols up in later layers."""
    own = table[(table.kind == "path") & table.in_circuit.astype(bool)]
    hops = int((table.kind == "hop").groupby(table.run).sum().max())
    circuits = own.groupby("run").path.agg(together)
    first = [first_look_ups(circuit, hops) for circuit in circuits]
    evidence = Evidence(own, "9.2 (i, ii, iii)", source="paper", among=table)
    found = [all(a < b < math.inf for a, b in pairwise(layers)) for layers in first]
    return told(evidence, "answers_in_layer_order", found, "circuits in that order", of="share of", equals=1)


def paths_drive_losses(
    paths: Mapping[int, dict[str, Onset]], hops: Mapping[int, dict[str, Onset]], table: DataFrame
) -> Claim:
    """Judge whether a hop is learnt when the first path that looks it up emerges, and neither without the other."""
    apart = []
    for seed, learnt in hops.items():
        for k, hop in enumerate(learnt.values(), 1):
            emerged, known = moment(paths[seed].get(f"query->value[{k}]")), moment(hop)
            apart += [] if emerged == known else [abs(known - emerged)]
    evidence = Evidence(table, "9.2 (i, ii, iii)", source="ours: that of checkpoints")
    what = "distance in steps (∞ where one came alone)"
    return told(evidence, "paths_drive_losses", apart, what, n=len(apart), number="median", at_most=TOGETHER)


def moment(onset: Onset | None) -> float:
    """The step of an onset: −∞ if before the first checkpoint, ∞ if never."""
    if onset is None or onset.status == "never":
        return float("inf")
    return -float("inf") if onset.step is None else onset.step


def times(events: Mapping[str, Onset]) -> list[float]:
    """The steps of named events, in the given order."""
    return [moment(onset) for onset in events.values()]


def hops_in_order(hops: Mapping[int, dict[str, Onset]], table: DataFrame) -> Claim:
    """Judge whether hops are learnt in the order x1, x2, …."""
    whole = sum(all(time < float("inf") for time in times(events)) for events in hops.values())
    evidence, what = Evidence(table, "9.2", source=""), "number of steps from one hop to the next"
    found = lags(times(events) for events in hops.values())
    return told(evidence, "hops_in_order", found, what, n=len(hops), above=0, said={"n": whole, "all": len(hops)})


def induction_first(paths: Mapping[int, dict[str, Onset]], table: DataFrame) -> Claim:
    """Judge whether the path that looks up x1 emerges before the one that looks up x2."""
    waits = lags([moment(events.get(f"query->value[{k}]")) for k in (1, 2)] for events in paths.values())
    evidence, said = Evidence(table, "9.2 (i, ii)", source=""), {"n": len(waits), "all": len(paths)}
    what = "number of steps from query->value[1] to query->value[2]"
    return told(evidence, "induction_head_first", waits, what, n=len(waits), above=0, said=said)


def same_order(paths: Mapping[int, dict[str, Onset]], table: DataFrame) -> Claim:
    """Judge whether all seeds have the same order (beyond the paper, which has one model)."""
    order = agreement(list(paths.values()))
    tau = float("nan") if order.mean_tau is None else order.mean_tau
    also = [bound("the number of runs that contradict the modal order", order.runs - order.holds, equals=0)]
    provided, said = bound("the number of runs", order.runs, above=1), {"holds": order.holds, "runs": order.runs}
    how: dict[str, Any] = {"n": order.runs, "spread": order.mean_tau_interval, "also": also, "provided": provided}
    return told(Evidence(table, "beyond (9.2)", source=""), "order_over_seeds", tau, said=said, **how)


def last_comes_late(hops: Mapping[int, dict[str, Onset]], table: DataFrame) -> Claim:
    """Judge whether, of at least three hops, the last waits longest (observation iv on hops)."""
    gaps = [[b - a for a, b in pairwise(times(events))] for events in hops.values()]
    asked = [gap for gap in gaps if len(gap) >= 2 and gap[-1] < float("inf")]
    ratios = [gap[-1] / max(1e-9, max(gap[:-1])) for gap in asked]
    what = "ratio of the last wait to the longest before it"
    return told(Evidence(table, "9.2 (iv)"), "last_hop_late", ratios, what, n=len(ratios), above=1)


def last_path_comes_late(
    paths: Mapping[int, dict[str, Onset]], hops: Mapping[int, dict[str, Onset]], table: DataFrame
) -> Claim:
    """Judge whether the path for the last symbol comes latest after the path before it (observation iv on heads)."""
    last = max(len(events) for events in hops.values())
    looked = [[moment(events.get(f"query->value[{k}]")) for k in range(1, last + 1)] for events in paths.values()]
    waits = [[b - a for a, b in pairwise(times)] for times in looked if max(times) < math.inf and last > 2]
    what, said = "ratio of the last wait to the longest before it", {"n": len(waits), "all": len(paths)}
    found = [gaps[-1] / max(1e-9, max(gaps[:-1])) for gaps in waits]
    return told(Evidence(table, "9.2 (iv)"), "last_path_late", found, what, n=len(waits), above=1, said=said)
