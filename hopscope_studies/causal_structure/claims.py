"""The claims of `causal_structure`, about the paper's statements and our own, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, between, bound
from hopscope.experiments.quantities import Quantities
from hopscope_studies.causal_structure.constructions import WAYS

PAPER = "Nichani et al. (2024)"


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims, in the order of the study's page."""
    told = Quantities(table, PAPER)
    yield from about_theory(told)
    yield from about_attention(told)
    yield from about_where(told)
    yield from about_floors(told)
    yield about_two_parents(told)


def about_theory(told: Quantities) -> Iterator[Claim]:
    """Claims about theory, which need no training."""
    yield told.claim(
        "information_finds_parents",
        "Of all earlier positions, a child's parent shares the most χ² mutual information with it, on average over "
        "transition matrices.",
        Quantities(told.table.assign(seed=told.table.run), PAPER).of("information", "parents found"),
        "share of children",
        ("information",),
        equals=1,
        section=f"{PAPER}, section 4, and lemma on the data processing inequality",
    )
    keys, query = (told.of(way, "loss") for way in WAYS)
    attention = [told.of(way, "layer 0") for way in WAYS]
    yield told.claim(
        "made_by_hand",
        "Two transformers with hand-set weights have the same loss: one has the causal graph in layer 0's attention "
        "and the other has it in layer 1's scores.",
        (keys - query).abs(),
        "difference of losses",
        WAYS,
        below=1e-5,
        also=[
            bound("attention on parents in the first", attention[0], above=0.99),
            bound("attention on parents in the second", attention[1], below=0.5),
        ],
        section=f"{PAPER}, section 2.3; the second is ours",
    )


def about_attention(told: Quantities) -> Iterator[Claim]:
    """Claims about the first layer's attention in models trained by SGD and by AdamW."""
    attention, first, other = (told.of("sgd", f"layer 0{word}") for word in ("", " first", " shuffled"))
    yield told.claim(
        "sgd_attends_to_parents",
        "In models trained with SGD on a random tree, children attend to their parents in layer 0 (paper's code: a "
        "mean attention of .837).",
        attention,
        "mean attention on parents",
        ("sgd",),
        above=0.5,
        also=[
            bound("share of parents attended most", first, above=0.75),
            bound("attention on a shuffled graph's parents", other, below=0.25),
        ],
        source="ours; paper, V = 3, T = 20, 2^14 steps: 0.837, standard deviation over 20 graphs 0.054",
    )
    attention, first = told.of("adamw", "layer 0"), told.of("adamw", "layer 0 first")
    yield told.claim(
        "adamw_does_not",
        "In models trained with AdamW on the same trees, children do not attend to their parents in layer 0.",
        attention,
        "mean attention on parents",
        ("adamw",),
        below=0.2,
        also=[bound("share of parents attended most", first, below=0.25)],
    )
    adamw, sgd = told.of("adamw", "loss"), told.of("sgd", "loss")
    yield told.claim(
        "at_the_same_loss",
        "On the same trees, models trained with AdamW have no higher a loss than models trained with SGD.",
        (adamw - sgd).dropna(),
        "AdamW's loss less SGD's",
        ("adamw", "sgd"),
        of="mean",
        at_most=0.01,
    )


def about_where(told: Quantities) -> Iterator[Claim]:
    """Claims about where models trained by AdamW store the graph."""
    found, other = (told.of("adamw", f"layer 1 first{word}") for word in ("", " shuffled"))
    yield told.claim(
        "adamw_keeps_it_in_layer_1",
        "Models trained with AdamW have the causal graph in layer 1: a position that the query attended to in layer 0 "
        "changes the scores of its own children most.",
        found,
        "share of children whose parent stands out",
        ("adamw",),
        of="mean",
        above=0.75,
        also=[bound("share on a shuffled graph", other, of="mean", below=0.35)],
    )
    adamw, sgd = (query_share(told, kind) for kind in ("adamw", "sgd"))
    yield told.claim(
        "whose_layer_0",
        "If attention in layer 0 is made uniform at the query and at children, the loss rises; the query's share of "
        "this rise is greater in models trained with AdamW than in models trained with SGD.",
        (adamw - sgd).dropna(),
        "difference of the query's part, AdamW's less SGD's",
        ("adamw", "sgd"),
        above=0,
    )
    yield about_circuit(told, "sgd", "L0H0 child->parent", "children attend to their parents in layer 0")
    yield about_circuit(told, "adamw", "L0H0 query->other-token", "the query attends to other tokens in layer 0")


def query_share(told: Quantities, kind: str) -> Series:
    """By seed, the query's share (0–1) of the rise in loss when queries or children attend evenly in layer 0."""
    loss = told.of(kind, "loss")
    query, children = (told.of(kind, f"{who} blind") - loss for who in ("query", "children"))
    return query / (query + children)


def about_circuit(told: Quantities, kind: str, path: str, words: str) -> Claim:
    """The claim that discovery finds a circuit that contains a path."""
    accepted = told.of(kind, "circuit accepted")
    there = told.of(kind, f"circuit {path}").reindex(accepted.index).notna()
    return told.claim(
        f"{kind}_circuit",
        f"In models trained with {'SGD' if kind == 'sgd' else 'AdamW'}, circuit discovery accepts a circuit in which "
        f"{words} ({len(accepted)} seeds were searched).",
        (accepted > 0) & there,
        "models with such a circuit",
        (kind,),
        of="share of",
        equals=1,
    )


def about_floors(told: Quantities) -> Iterator[Claim]:
    """Claims about the lowest possible losses."""
    counted, bayes = told.of("sgd", "counted"), told.of("sgd", "bayes")
    yield told.claim(
        "reference_is_not_bayes",
        "Counting transitions from parents to children, the paper's reference, is not the best predictor, because the "
        "tokens at roots carry information about the transition matrix, too.",
        counted - bayes,
        "excess of the reference's loss over that of Bayes",
        ("sgd",),
        within=between(0.005, 0.1),
        section=f"{PAPER}, section 5",
    )
    gaps = [told.of(kind, "loss") - told.of(kind, "bayes") for kind in ("sgd", "adamw", "two parents")]
    yield told.claim(
        "none_below_bayes",
        "No trained model's expected loss is below that of the Bayes-optimal predictor.",
        [gap for each in gaps for gap in each],
        "loss less that of Bayes",
        ("sgd", "adamw", "two parents"),
        above=0,
    )


def about_two_parents(told: Quantities) -> Claim:
    """The claim that two heads divide two parents between them."""
    split = told.of("two parents", "split")
    return told.claim(
        "two_parents_split",
        "If each position has two parents, two heads of layer 0 divide them between themselves: the positions that "
        "they attend to most are each child's two parents.",
        split,
        "share of children",
        ("two parents",),
        of="mean",
        above=0.75,
        section=f"{PAPER}, section 6",
    )
