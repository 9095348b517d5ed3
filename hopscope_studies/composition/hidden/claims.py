"""The claims of `hidden_rules`, judged by shares of right answers over all seeds.

Intervals are Wilson's, over prompts, and hold at 95 % for four kinds together. Random sets answer the same prompts, so
they count as one. The expected verdicts are in the study's README; they and the thresholds were committed beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pandas import DataFrame, Series

from hopscope.core.intervals import wilson
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope_studies.composition.claims import SENTENCES

SONG, CONTROL = "4 (language models)", "control (ours)"
JOINT = 2.4977  # standard errors of an interval that is 95 % for four kinds together (Bonferroni)
KEPT = 0.8  # share of what is above guessing, or of an accuracy, that must be left (ours)


def pooled(table: DataFrame, by: str = "kind") -> DataFrame:
    """Shares of right answers with their intervals, by `by`, form and cut; means over random sets count them once.

    Columns: share, low, high, chance, n (prompts).
    """
    table = table.assign(cut=table.cut.str.replace(r" \d+$", "", regex=True))
    found = table.groupby([by, "form", "cut"]).agg(
        right=("right", "sum"), asked=("n", "sum"), chance=("chance", "mean")
    )
    found["n"] = table.drop_duplicates(["run", "kind", "form", "cut"]).groupby([by, "form", "cut"]).n.sum()
    found["share"] = found.right / found.asked
    ends = [wilson(share * n, n, JOINT) for share, n in zip(found.share, found.n, strict=True)]
    found["low"], found["high"] = zip(*ends, strict=True)
    return found


def of(found: DataFrame, form: str, cut: str = "nothing", column: str = "share") -> Series:
    """A column of the pooled shares of a form without some heads."""
    return found.xs((form, cut), level=("form", "cut"))[column]


def excess(table: DataFrame, form: str, cut: str) -> Series:
    """By seed, right answers above guessing, as a share of those of the whole model (mean over kinds)."""
    shares = table.assign(
        share=table.right / table.n - table.chance, cut=table.cut.str.replace(r" \d+$", "", regex=True)
    )
    means = shares[shares.form == form].groupby(["cut", "seed"]).share.mean()
    return means[cut] / means["nothing"]


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims. Those on cutting are about the kinds whose rule the whole model finds."""
    language, script = (table[table.part == part] for part in ("language", "scripted"))
    found = pooled(language)
    above = of(found, "replaced", column="low") - of(found, "replaced", column="chance")
    yield told(Evidence(language, SONG), "rules_are_found", above, "lower end above guessing", above=0)
    kinds = [str(kind) for kind in above[above > 0].index]
    some = language[language.kind.isin(kinds)]
    yield from about_cutting(some, language, bound("the number of kinds whose rule is found", len(kinds), above=0))
    gap = ends_around(found, "shuffled")
    yield told(Evidence(language, CONTROL), "shuffled_is_guessing", gap, "ends around guessing", at_most=0)
    around = [bound("ends around guessing if shuffled", ends_around(pooled(script), "shuffled"), at_most=0)]
    knows = of(pooled(script), "replaced")
    yield told(Evidence(script, CONTROL), "the_script_knows", knows, "share of right answers", equals=1, also=around)


def told(evidence: Evidence, id: str, *measured: Any, **how: Any) -> Claim:
    """`Evidence.claim` with its sentence, and with the number of prompts with replaced answers as n."""
    rows = evidence.rows[(evidence.rows.form == "replaced") & (evidence.rows.cut == "nothing")]
    return evidence.claim(id, SENTENCES["hidden_rules"][id], *measured, n=int(rows.n.sum()), **how)


def ends_around(found: DataFrame, form: str) -> list[float]:
    """By kind, how far guessing is outside the interval on either side; not above 0 if it is inside."""
    chance, low, high = (of(found, form, column=column) for column in ("chance", "low", "high"))
    return [*(low - chance), *(chance - high)]


def about_cutting(some: DataFrame, language: DataFrame, provided: Any) -> Iterator[Claim]:
    """Claims on what is left without some heads, in kinds whose rule is found."""
    claim = partial(told, Evidence(some, SONG, among=language), provided=provided)
    if some.empty:
        some = language
    kinds, together = pooled(some), pooled(some.assign(all="all"), "all")
    apart, cut = "distance of the intervals", partial(of, form="replaced", cut="induction")
    for id, found, control in (
        ("cutting_costs_more_than_random", together, "random"),
        ("cutting_costs_more_than_the_same_layers", together, "same layers"),
        ("cutting_costs_more_in_every_kind", kinds, "random"),
    ):
        yield claim(id, of(found, "replaced", control, "low") - cut(found, column="high"), apart, above=0)
    left = cut(kinds, column="low") - cut(kinds, column="chance")
    yield claim("guessing_is_left", left, "lower end above guessing", at_most=0)
    spared = excess(some, "replaced", "random")
    yield claim("random_heads_are_spared", spared, "share of what is above guessing", of="mean", at_least=KEPT)
    more = excess(some, "familiar", "induction") - excess(some, "replaced", "induction")
    yield claim("familiar_answers_need_them_less", more, "difference of shares lost, by seed,", above=0)
    capitals = language[language.kind == "pairs"]
    left = of(pooled(capitals), "familiar", "induction") / of(pooled(capitals), "familiar")
    yield told(Evidence(capitals, SONG), "capitals_are_remembered", left, "share of right answers left", at_least=KEPT)
