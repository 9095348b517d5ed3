"""The claims of `causal_structure`, about the paper's statements and our own, judged from the table alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, between, bound
from hopscope.experiments.quantities import Quantities
from hopscope_studies.causal_structure.constructions import WAYS

PAPER = "Nichani et al. (2024)"
#: What is claimed, by id.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text())["causal_structure"]


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims, in the order of the study's page."""
    told = Quantities(table, PAPER)
    yield from about_theory(told)
    yield from about_attention(told)
    yield from about_where(told)
    yield from about_floors(told)
    split, section = told.of("two parents", "split"), f"{PAPER}, section 6"
    how: dict[str, Any] = {"of": "mean", "above": 0.75, "section": section}
    yield said(told, "two_parents_split", split, "share of children", ("two parents",), **how)


def said(told: Quantities, id: str, *measured: Any, n: int = 0, **how: Any) -> Claim:
    """One of `SENTENCES` as a claim, on `n` searched seeds if it names them."""
    return told.claim(id, SENTENCES[id].format(n=n), *measured, **how)


def about_theory(told: Quantities) -> Iterator[Claim]:
    """Claims about theory, which need no training."""
    found = Quantities(told.table.assign(seed=told.table.run), PAPER).of("information", "parents found")
    section = f"{PAPER}, section 4, and lemma on the data processing inequality"
    kinds = ("information",)
    yield said(told, "information_finds_parents", found, "share of children", kinds, equals=1, section=section)
    keys, query = (told.of(way, "loss") for way in WAYS)
    attention = [told.of(way, "layer 0") for way in WAYS]
    also = [
        bound("attention on parents in the first", attention[0], above=0.99),
        bound("attention on parents in the second", attention[1], below=0.5),
    ]
    gap, section = (keys - query).abs(), f"{PAPER}, section 2.3; the second is ours"
    yield said(told, "made_by_hand", gap, "difference of losses", WAYS, below=1e-5, also=also, section=section)


def about_attention(told: Quantities) -> Iterator[Claim]:
    """Claims about the first layer's attention in models trained by SGD and by AdamW."""
    attention, first, other = (told.of("sgd", f"layer 0{word}") for word in ("", " first", " shuffled"))
    also = [
        bound("share of parents attended most", first, above=0.75),
        bound("attention on a shuffled graph's parents", other, below=0.25),
    ]
    source = "ours; paper, V = 3, T = 20, 2^14 steps: 0.837, standard deviation over 20 graphs 0.054"
    what = "mean attention on parents"
    yield said(told, "sgd_attends_to_parents", attention, what, ("sgd",), above=0.5, also=also, source=source)
    attention, first = told.of("adamw", "layer 0"), told.of("adamw", "layer 0 first")
    also = [bound("share of parents attended most", first, below=0.25)]
    yield said(told, "adamw_does_not", attention, what, ("adamw",), below=0.2, also=also)
    gap, what = told.of("adamw", "loss") - told.of("sgd", "loss"), "AdamW's loss less SGD's"
    yield said(told, "at_the_same_loss", gap.dropna(), what, ("adamw", "sgd"), of="mean", at_most=0.01)


def about_where(told: Quantities) -> Iterator[Claim]:
    """Claims about where models trained by AdamW store the graph."""
    found, other = (told.of("adamw", f"layer 1 first{word}") for word in ("", " shuffled"))
    also = [bound("share on a shuffled graph", other, of="mean", below=0.35)]
    how: dict[str, Any] = {"of": "mean", "above": 0.75, "also": also}
    what = "share of children whose parent stands out"
    yield said(told, "adamw_keeps_it_in_layer_1", found, what, ("adamw",), **how)
    gap = query_share(told, "adamw") - query_share(told, "sgd")
    what = "difference of the query's part, AdamW's less SGD's"
    yield said(told, "whose_layer_0", gap.dropna(), what, ("adamw", "sgd"), above=0)
    yield about_circuit(told, "sgd", "L0H0 child->parent")
    yield about_circuit(told, "adamw", "L0H0 query->other-token")


def query_share(told: Quantities, kind: str) -> Series:
    """By seed, the query's share (0–1) of the rise in loss when queries or children attend evenly in layer 0."""
    loss = told.of(kind, "loss")
    query, children = (told.of(kind, f"{who} blind") - loss for who in ("query", "children"))
    return query / (query + children)


def about_circuit(told: Quantities, kind: str, path: str) -> Claim:
    """The claim that discovery finds a circuit that contains a path."""
    accepted = told.of(kind, "circuit accepted")
    there = (accepted > 0) & told.of(kind, f"circuit {path}").reindex(accepted.index).notna()
    how: dict[str, Any] = {"of": "share of", "equals": 1}
    return said(told, f"{kind}_circuit", there, "models with such a circuit", (kind,), n=len(accepted), **how)


def about_floors(told: Quantities) -> Iterator[Claim]:
    """Claims about the lowest possible losses."""
    gap = told.of("sgd", "counted") - told.of("sgd", "bayes")
    what, section = "excess of the reference's loss over that of Bayes", f"{PAPER}, section 5"
    yield said(told, "reference_is_not_bayes", gap, what, ("sgd",), within=between(0.005, 0.1), section=section)
    kinds = ("sgd", "adamw", "two parents")
    gaps = [gap for kind in kinds for gap in told.of(kind, "loss") - told.of(kind, "bayes")]
    yield said(told, "none_below_bayes", gaps, "loss less that of Bayes", kinds, above=0)
