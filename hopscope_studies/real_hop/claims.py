"""Claims on the circuit of a real model's hop, from the table, on facts that no search has seen."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import names, of

KEPT = 0.8  # share of the metric that a circuit must keep, or that must be lost without it (ours)
IDLE = 0.2  # share of the metric that random sets may keep or cost (ours)
FEW = 0.1  # share of all nodes (ours)
ALIKE = 0.5  # Jaccard similarity of two circuits (ours)
NODES = "beyond (E; Wang et al., 2023)"
TWO = "beyond (Biran et al., 2024)"

#: What is claimed, by id; `{model}` is the model asked.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text(encoding="utf-8"))
#: The claim on each change: id, kind and name of its rows, and the factor on the metric that is asked.
CHANGES = (
    ("perfect_lookups_suffice", "perfect", "all of these", 5.0),
    ("louder_heads_help", "louder", "the heads", 2.0),
    ("quieter_opponents_help", "quieter", "the heads", 1.5),
)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the circuit's sufficiency and necessity, other methods, and two hops."""
    main, others, two = (table[table.part == part] for part in ("one hop", "other wording", "two hops"))
    yield from about_the_circuit(main)
    whole = main[main.run.isin(main[main.kind == "edge"].run)]
    yield from about_edges(whole)
    yield from about_methods(whole)
    yield from about_seeds(main)
    yield from about_wordings(main, others)
    yield from about_two_hops(two)
    yield from about_change(whole)


def told(evidence: Evidence, table: DataFrame, id: str, *measured: Any, **how: Any) -> Claim:
    """A claim about the model that a table's rows are of; the further arguments are those of `Evidence.claim`."""
    return evidence.claim(id, SENTENCES[id].format(model=names(table)), *measured, **how)


def about_the_circuit(table: DataFrame) -> Iterator[Claim]:
    """Claims that the circuit is small, sufficient and necessary, compared with chance."""
    claim = partial(told, Evidence(table, NODES), table)
    low = of(table, "answers", "metric", "low")
    yield claim("the_question_moves_the_answer", low, "lower end (nats)", above=0)
    share = of(table, "size", "nodes") / of(table, "size", "all nodes")
    few = [bound("share of the model's nodes", share, at_most=FEW)]
    yield claim("few_nodes_keep_it", of(table, "kept", "nodes"), "share kept", at_least=KEPT, also=few)
    yield claim("it_is_lost_without_them", of(table, "lost", "nodes"), "share lost", at_least=KEPT)
    yield claim("it_is_lost_without_the_heads", of(table, "lost", "heads"), "share lost", at_least=KEPT)
    yield claim("random_nodes_keep_nothing", of(table, "kept", "random nodes"), "share kept", at_most=IDLE)
    lost = of(table, "lost", "random nodes").groupby(level=0).median()
    yield claim("random_nodes_cost_little", lost, "share lost", at_most=IDLE)


def about_edges(table: DataFrame) -> Iterator[Claim]:
    """Claims about places, and about edges between them."""
    claim = partial(told, Evidence(table, "beyond (Conmy et al., 2023)"), table)
    yield claim("single_tokens_keep_it", of(table, "kept", "places"), "share kept", at_least=KEPT)
    share = of(table, "size", "edges") / of(table, "size", "possible edges")
    few = [bound("share of possible edges", share, at_most=0.5)]
    yield claim("half_of_the_edges_keep_it", of(table, "kept", "edges"), "share kept", at_least=KEPT, also=few)
    yield claim("random_edges_do_not", of(table, "kept", "random edges"), "share kept", at_most=IDLE)


def about_methods(table: DataFrame) -> Iterator[Claim]:
    """Claims about baseline methods with the same unit, searched and judged on the same facts."""
    sizes, kept = (
        table[table.kind == "method kept"].pivot(index="run", columns="name", values=column)
        for column in ("step", "value")
    )
    acdc = [name for name in sizes if str(name).startswith("ACDC")]
    ours = table[(table.kind == "method kept") & (table.name == "ours")].set_index("run")
    more = (sizes[acdc].min(axis=1) - ours.step).dropna()
    conmy, syed = (Evidence(table, f"beyond ({who} et al., 2023)") for who in ("Conmy", "Syed"))
    yield told(conmy, table, "smaller_than_acdc", more, "nodes more", above=0)
    gradients = [name for name in kept if str(name).startswith("EAP")]
    best = kept[gradients].T.groupby(lambda name: name.partition(",")[0]).max().T
    gained = (ours.value - best["EAP"]).dropna()
    yield told(syed, table, "gradients_alone_keep_less", gained, "share kept more", above=0)


def about_seeds(table: DataFrame) -> Iterator[Claim]:
    """Claims about the circuits of several draws of facts."""
    sets = [frozenset(rows.name) for _, rows in table[table.kind == "node"].groupby("run")]
    alike = [len(a & b) / len(a | b) for a, b in combinations(sets, 2)]
    several = bound("the number of draws", len(sets), above=1)
    claim = partial(told, Evidence(table, "beyond (8.2)"), table, "same_nodes_for_other_facts")
    yield claim(alike, "Jaccard similarity of two circuits", of="mean", at_least=ALIKE, provided=several)


def about_wordings(main: DataFrame, others: DataFrame) -> Iterator[Claim]:
    """Claims about whether the hop is done in other wordings, and by which nodes."""
    low = of(others, "answers", "metric", "low")
    done = others[others.run.isin(low[low > 0].index)]
    claim = partial(told, Evidence(others, "beyond (4)", source=""), main, "one_hop_in_other_words")
    yield claim([value > 0 for value in low], "wordings in which it is answered", of="share of", equals=1)
    first = [frozenset(rows.name) for _, rows in main[main.kind == "node"].groupby("run")]
    sets = {run: frozenset(rows.name) for run, rows in done[done.kind == "node"].groupby("run")}
    shared = [max(len(a & b) / min(len(a), len(b)) for a in first) for b in sets.values()]
    claim = partial(told, Evidence(done, "beyond (8.2)", among=others), main, "same_nodes_in_other_words")
    yield claim(shared, "share of the smaller circuit", at_least=ALIKE)


def about_two_hops(table: DataFrame) -> Iterator[Claim]:
    """Claims about whether the first hop's answer is present, in time, and read."""
    claim, what = partial(told, Evidence(table, TWO), table), "metric as a share of one hop's"
    one, both = (of(table, "answers: metric", name) for name in ("one hop", "two hops"))
    yield claim("two_hops_fail", both / one, what, at_most=0.25)
    yield claim("given_the_first_hop_it_does_the_second", handed_in(table) / one, what, at_least=0.5)
    what = "lower end of the accuracy less the best with shuffled labels"
    yield claim("the_first_hop_is_not_there_in_time", above_shuffled(table), what, at_most=0)
    yield claim("it_comes_when_it_is_too_late", above_shuffled(table, late=True), what, above=0)
    best = of(table, "back-patching: metric", column="low")
    gained = best - of(table, "back-patching of other rows").groupby(level=0).max()
    what = "lower end less the best of other rows (nats)"
    yield claim("running_layers_twice_does_not_help", gained, what, at_most=0)


def deadlines(table: DataFrame) -> list[float]:
    """For each run, the last layer before which patching x_1 in still gives half of one hop's metric."""
    found = []
    for run, rows in table[table.kind == "handed in: metric"].groupby("run"):
        enough = rows[rows.value >= 0.5 * of(table, "answers: metric", "one hop")[run]]
        found.append(float(enough.step.max()) if len(enough) else -1.0)
    return found


def handed_in(table: DataFrame) -> Series:
    """The metric with x_1 patched in at a third of the depth, by run."""
    rows = table[table.kind == "handed in: metric"]
    third = rows.step.max() / 3
    nearest = (rows.step - third).abs().min()
    return rows[(rows.step - third).abs() == nearest].groupby("run").value.max()


def above_shuffled(table: DataFrame, late: bool = False) -> list[float]:
    """By run, the most by which a probe for x_1 at the query exceeds shuffled labels, up to the deadline or after.

    NaN if there is no such layer.
    """
    found = []
    for (_, rows), deadline in zip(table.groupby("run"), deadlines(table), strict=True):
        some = rows[rows.name.str.startswith("query") & ((rows.step > deadline) == late)]
        right, wrong = some[some.kind == "probe x_1"], some[some.kind == "probe x_1, shuffled"]
        gap = right.set_index("step").low - wrong.set_index("step").value
        found.append(float(gap.max()) if len(gap) else float("nan"))
    return found


def about_change(table: DataFrame) -> Iterator[Claim]:
    """Claims about which changes improve the hop."""
    claim = partial(told, Evidence(table, "beyond (ours)"), table)
    now = of(table, "answers", "metric")
    for id, kind, name, factor in CHANGES:
        found = of(table, f"{kind}: metric", name)
        gained = found - of(table, f"{kind}: metric", "random heads").groupby(level=0).max()
        beyond = bound("metric beyond the best random set's (nats)", gained, above=0)
        yield claim(id, found / now, "times the metric as it is", at_least=factor, also=[beyond])
