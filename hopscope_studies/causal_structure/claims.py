"""The claims of `causal_structure`: the paper's sentences and ours, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pandas import DataFrame, Series

from hopscope.experiments import quantities
from hopscope.experiments.judging import Claim, between, bound
from hopscope.experiments.quantities import of
from hopscope_studies.causal_structure.constructions import WAYS

PAPER = "Nichani et al. (2024)"


about = partial(quantities.about, section=PAPER)


def claims(table: DataFrame) -> Iterator[Claim]:
    """In the order of the study's page."""
    yield from about_theory(table)
    yield from about_attention(table)
    yield from about_where(table)
    yield from about_floors(table)
    yield about_two_parents(table)


def about_theory(table: DataFrame) -> Iterator[Claim]:
    """What holds without training."""
    yield about(
        "information_finds_parents",
        "Of all earlier positions the parent shares most χ² mutual information with a child, on average over matrices "
        "(trees with V = 3 and α = 0.1 and 1, chains with V = 5).",
        of(table.assign(seed=table.run), "information", "parents found"),
        "share of children",
        table,
        ("information",),
        equals=1,
        section=f"{PAPER}, section 4, and lemma on the data processing inequality",
    )
    keys, query = (of(table, way, "loss") for way in WAYS)
    attention = [of(table, way, "layer 0") for way in WAYS]
    yield about(
        "made_by_hand",
        "Two hand-set transformers, one with the graph in layer 0, one with it in layer 1, have the same loss "
        f"({keys.mean():.4f}; mean attention on parents {attention[0].mean():.2f} and {attention[1].mean():.2f}).",
        (keys - query).abs(),
        "difference of losses",
        table,
        WAYS,
        below=1e-5,
        also=[
            bound("attention on parents in the first", attention[0], above=0.99),
            bound("attention on parents in the second", attention[1], below=0.5),
        ],
        section=f"{PAPER}, section 2.3; the second is ours",
    )


def about_attention(table: DataFrame) -> Iterator[Claim]:
    """The first layer's attention, by SGD and by AdamW."""
    attention, first, other = (of(table, "sgd", f"layer 0{word}") for word in ("", " first", " shuffled"))
    yield about(
        "sgd_attends_to_parents",
        "Trained by SGD on a random tree, children attend to their parents in layer 0 (paper's code: .837 over graphs) "
        f"(parents attended most: {first.mean():.2f}; on a shuffled graph's parents {other.mean():.2f}).",
        attention,
        "mean attention on parents",
        table,
        ("sgd",),
        above=0.5,
        also=[
            bound("share of parents attended most", first, above=0.75),
            bound("attention on a shuffled graph's parents", other, below=0.25),
        ],
        source="ours; paper, V = 3, T = 20, 2^14 steps: 0.837, standard deviation over 20 graphs 0.054",
    )
    attention, first = of(table, "adamw", "layer 0"), of(table, "adamw", "layer 0 first")
    yield about(
        "adamw_does_not",
        "Trained by AdamW on the same trees, children do not attend to their parents in layer 0 (parents attended "
        f"most: {first.mean():.2f}).",
        attention,
        "mean attention on parents",
        table,
        ("adamw",),
        below=0.2,
        also=[bound("share of parents attended most", first, below=0.25)],
    )
    adamw, sgd = of(table, "adamw", "loss"), of(table, "sgd", "loss")
    yield about(
        "at_the_same_loss",
        f"AdamW's loss is no higher than SGD's ({adamw.mean():.4f} and {sgd.mean():.4f}).",
        (adamw - sgd).dropna(),
        "AdamW's loss less SGD's",
        table,
        ("adamw", "sgd"),
        of="mean",
        at_most=0.01,
    )


def about_where(table: DataFrame) -> Iterator[Claim]:
    """Where AdamW's models keep the graph."""
    found, other = (of(table, "adamw", f"layer 1 first{word}") for word in ("", " shuffled"))
    yield about(
        "adamw_keeps_it_in_layer_1",
        "AdamW's models have the graph in layer 1: what the query read in layer 0, where a token stands, moves the "
        f"scores of that place's children most (of a shuffled graph {other.mean():.2f}).",
        found,
        "share of children whose parent stands out",
        table,
        ("adamw",),
        of="mean",
        above=0.75,
        also=[bound("share on a shuffled graph", other, of="mean", below=0.35)],
    )
    adamw, sgd = (query_share(table, kind) for kind in ("adamw", "sgd"))
    yield about(
        "whose_layer_0",
        "Of what it costs to blind children, or the query, in layer 0, the query's part is greater by AdamW than by "
        f"SGD ({adamw.mean():.2f} and {sgd.mean():.2f}).",
        (adamw - sgd).dropna(),
        "the query's part, AdamW's less SGD's",
        table,
        ("adamw", "sgd"),
        above=0,
    )
    yield about_circuit(table, "sgd", "L0H0 child->parent", "children attend to their parents in layer 0")
    yield about_circuit(table, "adamw", "L0H0 query->other-token", "the query attends to other tokens in layer 0")


def query_share(table: DataFrame, kind: str) -> Series:
    """The query's part (0–1) of what blinding costs, by seed."""
    loss = of(table, kind, "loss")
    query, children = (of(table, kind, f"{who} blind") - loss for who in ("query", "children"))
    return query / (query + children)


def about_circuit(table: DataFrame, kind: str, path: str, words: str) -> Claim:
    """Whether discovery finds a circuit with a path in it."""
    accepted = of(table, kind, "circuit accepted")
    there = of(table, kind, f"circuit {path}").reindex(accepted.index).notna()
    return about(
        f"{kind}_circuit",
        f"Circuit discovery accepts a circuit of {'SGD' if kind == 'sgd' else 'AdamW'}'s models in which {words}.",
        (accepted > 0) & there,
        "models with such a circuit",
        table,
        (kind,),
        of="share of",
        equals=1,
    )


def about_floors(table: DataFrame) -> Iterator[Claim]:
    """What can be known."""
    counted, bayes = of(table, "sgd", "counted"), of(table, "sgd", "bayes")
    yield about(
        "reference_is_not_bayes",
        f"Counting from parents, the paper's reference, is not the best predictor: roots tell of the matrix, too "
        f"(expected losses {counted.mean():.4f} and {bayes.mean():.4f}).",
        counted - bayes,
        "the reference's loss less that of Bayes",
        table,
        ("sgd",),
        within=between(0.005, 0.1),
        section=f"{PAPER}, section 5",
    )
    gaps = [of(table, kind, "loss") - of(table, kind, "bayes") for kind in ("sgd", "adamw", "two parents")]
    yield about(
        "none_below_bayes",
        "No model's expected loss is below that of the Bayes predictor.",
        [gap for each in gaps for gap in each],
        "loss less that of Bayes",
        table,
        ("sgd", "adamw", "two parents"),
        above=0,
    )


def about_two_parents(table: DataFrame) -> Claim:
    """Several parents, several heads."""
    split, most = of(table, "two parents", "split"), of(table, "two parents", "layer 0")
    return about(
        "two_parents_split",
        "Where each position has two parents, two heads of layer 0 share them out: each child's two parents are the "
        f"positions that they attend to most (mean attention of the better head {most.mean():.2f}).",
        split,
        "share of children",
        table,
        ("two parents",),
        of="mean",
        above=0.75,
        section=f"{PAPER}, section 6",
    )
