"""The claims of the census, judged by thresholds of ours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from pandas import DataFrame

from hopscope.experiments.circuit_tables import NONE
from hopscope.experiments.judging import Claim, Evidence, significant
from hopscope_studies.census.entropy import Explained, explained

FACTORS = {
    "order": "order of facts",
    "layers": "number of layers",
    "rate": "learning rate",
    "weights": "initial weights",
}
#: Hops whose classes are explained: only D = 2 has every factor.
EXPLAINED = 2


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about whether circuits are found, how they are distributed over classes, and what determines the class."""
    table = classed(table)
    circuits = counted(table[table.trained > 0])
    yield from about_tests(table, circuits)
    yield Evidence(circuits, "5, 8.2", among=table).claim(
        "circuits_are_schedules",
        "By the theory of information flow, the attention paths of every circuit in the census suffice to bring the "
        "answer to the query.",
        circuits.name != NONE,
        "circuits whose paths suffice",
        equals=1,
        of="share of",
    )
    untrained = table[table.trained == 0]
    yield Evidence(untrained, "beyond (8)", among=table).claim(
        "untrained_models_have_none",
        "Control: circuit discovery finds no circuit in any model of the census at its initial weights.",
        untrained.wiring != "",
        "models with a circuit",
        equals=0,
        of="share of",
    )
    yield from spread_of(circuits, table)
    yield from (decides(factor, circuits[circuits.D == EXPLAINED], table) for factor in FACTORS)


def about_tests(table: DataFrame, circuits: DataFrame) -> Iterator[Claim]:
    """Claims about whether the paths suffice with patterns set by hand, and with live patterns."""
    grown = table[table.trained > 0]
    solved = grown[grown.verdict != "unsolved"]
    yield Evidence(solved, "appendix E", among=table).claim(
        "paths_suffice_by_hand",
        "In at least nine in ten models that solve their task, the paths found suffice if all attention patterns are "
        "set by hand, as in the paper's test: ideal on these paths, uninformative elsewhere (this holds in "
        f"{len(circuits)} of {len(solved)} models).",
        solved.wiring != "",
        "models whose paths suffice",
        at_least=0.9,
        of="share of",
    )
    yield Evidence(circuits, "beyond (8)", among=table).claim(
        "circuits_pass_live",
        "Nine in ten circuits that suffice with ideal attention patterns on their paths also suffice with the patterns "
        f"that the model computes there ({(circuits.verdict == 'circuit').sum()} of {len(circuits)}).",
        circuits.verdict == "circuit",
        "circuits that pass live",
        at_least=0.9,
        of="share of",
    )


def classed(table: DataFrame) -> DataFrame:
    """The table with an empty text for a missing class, which a file stores as an empty entry."""
    return table.assign(wiring=table.wiring.astype(object).where(table.wiring.notna(), ""))


def counted(table: DataFrame) -> DataFrame:
    """The rows of trained models whose circuit has a class, that is, passes the test by hand."""
    return table[(table.wiring != "") & (table.trained > 0)]


def spread_of(circuits: DataFrame, table: DataFrame) -> Iterator[Claim]:
    """Claims about how similar circuits are, and how many heads they use."""
    pairs = pairs_of_seeds(circuits)
    yield Evidence(circuits, "beyond (8)", among=table).claim(
        "seeds_agree",
        f"Models that differ only in seed mostly have circuits of one class ({sum(pairs)} of {len(pairs)} pairs).",
        pairs,
        "pairs of one class",
        above=0.5,
        of="share of",
    )
    two = circuits[circuits.D == EXPLAINED]
    common = set(two.wiring.value_counts().index[:3])
    yield Evidence(two, "beyond (8)", among=table).claim(
        "three_classes_are_half",
        "Of the census's circuits for two hops, at least half belong to the three most common of "
        f"{two.wiring.nunique()} classes.",
        two.wiring.isin(common),
        "circuits of one of these classes",
        at_least=0.5,
        of="share of",
    )
    yield Evidence(circuits, "8.2 (ii)", among=table).claim(
        "heads_to_spare",
        "Most circuits in the census use more heads than the fewest that would suffice, as the paper's circuits do.",
        circuits.heads > circuits.fewest,
        "circuits with more heads",
        above=0.5,
        of="share of",
    )


def pairs_of_seeds(circuits: DataFrame) -> list[bool]:
    """For every two circuits whose models differ only in their seed, whether they are of one class."""
    groups = circuits.groupby(["D", *FACTORS]).wiring
    return [one == other for _, classes in groups for one, other in combinations(classes, 2)]


def explained_by(factor: str, circuits: DataFrame) -> Explained | None:
    """How much of the class one factor explains among models that agree in the other factors."""
    alike = circuits[["D", *(name for name in FACTORS if name != factor)]].apply(tuple, axis=1)
    return explained(list(circuits.wiring), list(circuits[factor]), list(alike)) if len(circuits) else None


def decides(factor: str, circuits: DataFrame, table: DataFrame) -> Claim:
    """The claim that a factor explains more of the class than chance does."""
    found = explained_by(factor, circuits)
    return Evidence(circuits, "beyond (8)", among=table).claim(
        f"{factor}_decides",
        f"Among models otherwise alike, the class of the circuit for two hops depends on the {FACTORS[factor]}.",
        found.share if found else float("nan"),
        also=[significant("the share explained, adjusted for chance, > 0", found.chance, found.contrary)]
        if found
        else [significant("the share explained > 0", 1.0, 1.0)],
    )
