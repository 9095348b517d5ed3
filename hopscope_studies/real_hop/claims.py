"""Claims on the circuit of a real model's hop, from the table, on facts that no search has seen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import names, of

KEPT = 0.8  # share of the metric that a circuit must keep, or that must be lost without it (ours)
IDLE = 0.2  # share of the metric that random sets may keep or cost (ours)
FEW = 0.1  # share of all nodes (ours)
ALIKE = 0.5  # Jaccard similarity of two circuits (ours)
NODES = "beyond (E; Wang et al., 2023)"
TWO = "beyond (Biran et al., 2024)"

#: The claim on each change: id, kind and name of its rows, the factor on the metric that is asked, and the sentence.
CHANGES = (
    (
        "perfect_lookups_suffice",
        "perfect",
        "all of these",
        5.0,
        "With perfect attention in the look-up heads, {model}'s one-hop logit difference is at least five times that "
        "of the unchanged model",
    ),
    (
        "louder_heads_help",
        "louder",
        "the heads",
        2.0,
        "With the outputs of its circuit's heads scaled up, {model}'s one-hop logit difference is at least twice that "
        "of the unchanged model",
    ),
    (
        "quieter_opponents_help",
        "quieter",
        "the heads",
        1.5,
        "With the outputs of the five heads that most work against the answer scaled down, {model}'s one-hop logit "
        "difference is at least 1.5 times that of the unchanged model",
    ),
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


def about_the_circuit(table: DataFrame) -> Iterator[Claim]:
    """Claims that the circuit is small, sufficient and necessary, compared with chance."""
    evidence = Evidence(table, NODES)
    yield evidence.claim(
        "the_question_moves_the_answer",
        f"{names(table)} answers one hop: the right answer's logit is above that of the answer to a paired question, "
        "which asks about another chain of the same facts.",
        of(table, "answers", "metric", "low"),
        "lower end (nats)",
        above=0,
    )
    yield evidence.claim(
        "few_nodes_keep_it",
        f"A circuit of at most a tenth of {names(table)}'s heads and MLPs keeps at least 0.8 of its one-hop logit "
        "difference on facts that the search never saw.",
        of(table, "kept", "nodes"),
        "share kept",
        at_least=KEPT,
        also=[
            bound(
                "share of the model's nodes", of(table, "size", "nodes") / of(table, "size", "all nodes"), at_most=FEW
            )
        ],
    )
    yield from about_losing_it(table)


def about_losing_it(table: DataFrame) -> Iterator[Claim]:
    """Claims about what is lost without the circuit, and without random nodes."""
    evidence = Evidence(table, NODES)
    yield evidence.claim(
        "it_is_lost_without_them",
        f"Without its one-hop circuit, {names(table)} loses at least 0.8 of its one-hop logit difference.",
        of(table, "lost", "nodes"),
        "share lost",
        at_least=KEPT,
    )
    yield evidence.claim(
        "it_is_lost_without_the_heads",
        f"Without the heads of its one-hop circuit, but with the circuit's MLPs in place, {names(table)} loses at "
        "least 0.8 of its one-hop logit difference.",
        of(table, "lost", "heads"),
        "share lost",
        at_least=KEPT,
    )
    for id, kind, words in (
        ("random_nodes_keep_nothing", "kept", "as many random heads and MLPs keep next to nothing"),
        ("random_nodes_cost_little", "lost", "in the median, removing as many random heads and MLPs costs little"),
    ):
        found = of(table, kind, "random nodes")
        if kind == "lost":
            found = found.groupby(level=0).median()
        sentence = f"Control for {names(table)}'s one-hop circuit: {words} of the logit difference."
        yield evidence.claim(id, sentence, found, f"share {kind}", at_most=IDLE)


def about_edges(table: DataFrame) -> Iterator[Claim]:
    """Claims about places, and about edges between them."""
    evidence = Evidence(table, "beyond (Conmy et al., 2023)")
    yield evidence.claim(
        "single_tokens_keep_it",
        f"The heads and MLPs of {names(table)}'s one-hop circuit are needed at a few tokens only: computing at these "
        "tokens alone, they keep at least 0.8 of the logit difference on other facts.",
        of(table, "kept", "places"),
        "share kept",
        at_least=KEPT,
    )
    yield evidence.claim(
        "half_of_the_edges_keep_it",
        f"In {names(table)}'s one-hop circuit, at most half of the possible edges between its heads and MLPs at single "
        "tokens keep at least 0.8 of the logit difference on other facts.",
        of(table, "kept", "edges"),
        "share kept",
        at_least=KEPT,
        also=[
            bound(
                "share of possible edges", of(table, "size", "edges") / of(table, "size", "possible edges"), at_most=0.5
            )
        ],
    )
    yield evidence.claim(
        "random_edges_do_not",
        f"Control: in {names(table)}'s one-hop circuit, as many random edges between its heads and MLPs at single "
        "tokens keep next to nothing of the logit difference.",
        of(table, "kept", "random edges"),
        "share kept",
        at_most=IDLE,
    )


def about_methods(table: DataFrame) -> Iterator[Claim]:
    """Claims about baseline methods with the same unit, searched and judged on the same facts."""
    sizes, kept = (
        table[table.kind == "method kept"].pivot(index="run", columns="name", values=column)
        for column in ("step", "value")
    )
    acdc = [name for name in sizes if str(name).startswith("ACDC")]
    ours = table[(table.kind == "method kept") & (table.name == "ours")].set_index("run")
    yield Evidence(table, "beyond (Conmy et al., 2023)").claim(
        "smaller_than_acdc",
        f"ACDC finds a larger one-hop circuit in {names(table)} than our search does, counted in heads and MLPs (with "
        "ACDC's threshold τ at one per cent of the logit difference).",
        (sizes[acdc].min(axis=1) - ours.step).dropna(),
        "nodes more",
        above=0,
    )
    gradients = [name for name in kept if str(name).startswith("EAP")]
    best = kept[gradients].T.groupby(lambda name: name.partition(",")[0]).max().T
    yield Evidence(table, "beyond (Syed et al., 2023)").claim(
        "gradients_alone_keep_less",
        f"The heads and MLPs of {names(table)} with the highest EAP scores, as many as our one-hop circuit has, keep "
        "less of the logit difference on other facts than our circuit does.",
        (ours.value - best["EAP"]).dropna(),
        "share kept more",
        above=0,
    )


def about_seeds(table: DataFrame) -> Iterator[Claim]:
    """Claims about the circuits of several draws of facts."""
    sets = [frozenset(rows.name) for _, rows in table[table.kind == "node"].groupby("run")]
    alike = [len(a & b) / len(a | b) for a, b in combinations(sets, 2)]
    yield Evidence(table, "beyond (8.2)").claim(
        "same_nodes_for_other_facts",
        f"Searches on different draws of facts find much the same one-hop circuit in {names(table)}, by the Jaccard "
        "similarity of its heads and MLPs.",
        alike,
        "Jaccard similarity of two circuits",
        of="mean",
        at_least=ALIKE,
        provided=bound("the number of draws", len(sets), above=1),
    )


def about_wordings(main: DataFrame, others: DataFrame) -> Iterator[Claim]:
    """Claims about whether the hop is done in other wordings, and by which nodes."""
    low = of(others, "answers", "metric", "low")
    done = others[others.run.isin(low[low > 0].index)]
    yield Evidence(others, "beyond (4)", source="").claim(
        "one_hop_in_other_words",
        f"{names(main)} answers one hop in all other wordings, too.",
        [value > 0 for value in low],
        "wordings in which it is answered",
        of="share of",
        equals=1,
    )
    first = [frozenset(rows.name) for _, rows in main[main.kind == "node"].groupby("run")]
    sets = {run: frozenset(rows.name) for run, rows in done[done.kind == "node"].groupby("run")}
    shared = [max(len(a & b) / min(len(a), len(b)) for a in first) for b in sets.values()]
    yield Evidence(done, "beyond (8.2)", among=others).claim(
        "same_nodes_in_other_words",
        f"In every other wording in which {names(main)} answers one hop, its circuit shares with the circuit for "
        "equations at least half of the heads and MLPs of the smaller circuit.",
        shared,
        "share of the smaller circuit",
        at_least=ALIKE,
    )


def about_two_hops(table: DataFrame) -> Iterator[Claim]:
    """Claims about whether the first hop's answer is present, in time, and read."""
    evidence = Evidence(table, TWO)
    one, both = (of(table, "answers: metric", name) for name in ("one hop", "two hops"))
    yield evidence.claim(
        "two_hops_fail",
        f"Asked for two hops, {names(table)} reaches at most a quarter of the logit difference that it reaches for one "
        "hop with the same facts.",
        both / one,
        "metric as a share of one hop's",
        at_most=0.25,
    )
    early = handed_in(table)
    yield evidence.claim(
        "given_the_first_hop_it_does_the_second",
        f"Asked for two hops, {names(table)} reaches at least half of one hop's logit difference if the first hop's "
        "answer x_1 is patched in at the query at a third of the depth.",
        early / one,
        "metric as a share of one hop's",
        at_least=0.5,
    )
    yield from about_time(table)


def about_time(table: DataFrame) -> Iterator[Claim]:
    """Claims about when the first hop's answer is at the query, and about running layers twice."""
    evidence = Evidence(table, TWO)
    yield evidence.claim(
        "the_first_hop_is_not_there_in_time",
        f"Asked for two hops, {names(table)} does not hold the first hop's answer x_1 at the query in time: up to the "
        "last layer at which patching it in helps, no probe decodes it better than with shuffled labels.",
        above_shuffled(table),
        "lower end of the accuracy less the best with shuffled labels",
        at_most=0,
    )
    yield evidence.claim(
        "it_comes_when_it_is_too_late",
        f"Asked for two hops, {names(table)} holds the first hop's answer x_1 at the query too late: after the last "
        "layer at which patching it in helps, a probe decodes it better than with shuffled labels.",
        above_shuffled(table, late=True),
        "lower end of the accuracy less the best with shuffled labels",
        above=0,
    )
    best = of(table, "back-patching: metric", column="low")
    random = of(table, "back-patching of other rows").groupby(level=0).max()
    yield evidence.claim(
        "running_layers_twice_does_not_help",
        f"Running layers twice does not help {names(table)} with two hops: back-patching the query's residual stream "
        "does no better than patching in residual streams of other facts.",
        best - random,
        "lower end less the best of other rows (nats)",
        at_most=0,
    )


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
    now = of(table, "answers", "metric")
    for id, kind, name, factor, sentence in CHANGES:
        found = of(table, f"{kind}: metric", name)
        random = of(table, f"{kind}: metric", "random heads").groupby(level=0).max()
        yield Evidence(table, "beyond (ours)").claim(
            id,
            f"{sentence.format(model=names(table))}, and higher than with the same change to as many random heads.",
            found / now,
            "times the metric as it is",
            at_least=factor,
            also=[bound("metric beyond the best random set's (nats)", found - random, above=0)],
        )
